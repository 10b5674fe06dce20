"""The numbers behind verdicts, against values that can be worked out by hand or by brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from telemetry import stats, verdict


def brute_force_u(n, m):
    """P(U <= u) by listing every ranking."""
    counts = {}
    for chosen in itertools.combinations(range(n + m), n):
        u = sum(1 for a in chosen for b in range(n + m) if b not in chosen and b < a)
        counts[u] = counts.get(u, 0) + 1
    total, below, out = math.comb(n + m, n), 0, []
    for u in range(n * m // 2 + 1):
        below += counts.get(u, 0)
        out.append(below / total)
    return out


@pytest.mark.parametrize("n, m", [(1, 1), (2, 2), (3, 4), (5, 5), (4, 6)])
def test_mann_whitney_distribution(n, m):
    assert stats.mann_whitney_tail(n, m) == pytest.approx(brute_force_u(n, m))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_signed_rank_distribution(n):
    sums = [sum(r for r, s in enumerate(signs, 1) if s) for signs in itertools.product((0, 1), repeat=n)]
    expected = [sum(w <= limit for w in sums) / len(sums) for limit in range(n * (n + 1) // 4 + 1)]
    assert stats.signed_rank_tail(n) == pytest.approx(expected)


@pytest.mark.parametrize("n, coverage", [(2, 2 / 3), (3, 0.9), (4, 1 - 2 / 70), (6, 0.95887)])
def test_interval_states_its_real_coverage(n, coverage):
    a, b = np.arange(n) * 0.01, np.arange(n) * 0.01 + 1
    interval = stats.shift_between(a, b)
    assert interval.coverage == pytest.approx(coverage, abs=1e-4)
    assert interval.low <= 1.0 <= interval.high
    assert interval.shift == pytest.approx(1.0)


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(2000):
        found = stats.shift_between(rng.standard_t(2, 6), rng.standard_t(2, 6) + 0.7)
        hits += found.low <= 0.7 <= found.high
    assert hits / 2000 == pytest.approx(found.coverage, abs=0.02)


def test_one_boot_a_side_has_no_interval():
    interval = stats.shift_between(np.array([0.0]), np.array([0.3]))
    assert (interval.shift, interval.low, interval.high) == (0.3, None, None)


def test_missing_values_are_left_out():
    with_gap = stats.shift_between(np.array([0.0, np.nan, 0.1]), np.array([1.0, 1.1]))
    without = stats.shift_between(np.array([0.0, 0.1]), np.array([1.0, 1.1]))
    assert with_gap == without
    assert stats.shift_between(np.array([np.nan]), np.array([1.0])) is None


def brute_force_max_t(reference, arm, floor):
    """Westfall-Young step-down by its definition, without any of the shortcuts."""
    values = np.vstack([reference, arm])
    total, n = len(values), len(arm)

    def statistic(chosen):
        b = values[list(chosen)]
        a = values[[i for i in range(total) if i not in chosen]]
        squares = ((a - a.mean(0)) ** 2).sum(0) + ((b - b.mean(0)) ** 2).sum(0)
        spread = np.sqrt(squares / (total - 2))
        return np.abs(b.mean(0) - a.mean(0)) / ((spread + floor) * math.sqrt(1 / n + 1 / (total - n)))

    observed = statistic(tuple(range(len(reference), total)))
    all_rows = np.array([statistic(c) for c in itertools.combinations(range(total), n)])
    order = np.argsort(-observed)
    p, worst = np.empty(len(order)), 0.0
    for place, test in enumerate(order):
        rest = order[place:]
        share = np.mean(all_rows[:, rest].max(axis=1) >= observed[test] * (1 - 1e-9))
        worst = max(worst, share)
        p[test] = worst
    return p


@pytest.mark.parametrize("n, m", [(4, 4), (3, 5)])
def test_max_t_is_what_its_definition_says(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((n, 5)), rng.standard_normal((m, 5))
    b[:, 0] += 3
    assert stats.max_t_boots(a, b) == pytest.approx(brute_force_max_t(a, b, stats.FLOOR))


def test_drawn_labellings_agree_with_listed_ones(monkeypatch):
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((6, 4)), rng.standard_normal((6, 4)) + np.array([1.5, 0.7, 0, 0])
    exact = stats.max_t_boots(a, b)
    monkeypatch.setattr(stats, "EXACT_LIMIT", 10)
    stats.labellings.cache_clear()
    drawn = stats.max_t_boots(a, b, seed=3)
    stats.labellings.cache_clear()
    assert drawn == pytest.approx(exact, abs=0.015)
    assert drawn.min() >= 1 / (stats.MONTE_CARLO + 1)


def test_the_clearest_effect_has_the_smallest_p_there_is():
    for n in (4, 6):
        a, b = np.zeros((n, 1)) + np.arange(n)[:, None] * 1e-3, np.ones((n, 1)) + np.arange(n)[:, None] * 1e-3
        assert stats.max_t_boots(a, b)[0] == pytest.approx(stats.smallest_p(n, n))
        assert stats.max_t_pairs(b - a)[0] == pytest.approx(stats.smallest_p(n, n, "pairs"))


def test_constant_and_absent_tests_are_never_significant():
    a, b = np.zeros((6, 3)), np.zeros((6, 3))
    a[:, 1], b[:, 1] = np.nan, np.nan
    b[:, 2] = np.nan
    assert list(stats.max_t_boots(a, b)) == [1.0, 1.0, 1.0]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(2, 5), st.integers(1, 4), st.integers(0, 2**31))
def test_p_values_are_probabilities_and_do_not_depend_on_order(n, m, tests, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((n, tests)), rng.standard_normal((m, tests))
    p = stats.max_t_boots(a, b)
    assert np.all((p > 0) & (p <= 1))
    assert stats.max_t_boots(rng.permutation(a), rng.permutation(b)) == pytest.approx(p)
    assert stats.max_t_boots(b, a) == pytest.approx(p)


def test_looks_spend_exactly_the_error_rate():
    levels = stats.look_levels([6, 12, 30], 0.05)
    assert levels == pytest.approx([0.01, 0.01, 0.03])
    assert sum(levels) == pytest.approx(0.05)


# -- verdicts -------------------------------------------------------------------------------------


def judge(a, b, noise=None, **rules):
    a, b = np.log(np.array(a, float)).reshape(len(a), -1), np.log(np.array(b, float)).reshape(len(b), -1)
    sides = [verdict.Side(x, np.arange(1, len(x) + 1)) for x in (a, b)]
    noise = None if noise is None else np.array([noise])
    return verdict.compare(*sides, verdict.Rules(**rules), noise)[0]


SIX = [100, 101, 102, 103, 104, 105]


def scaled(values, factor):
    return [value * factor for value in values]


@pytest.mark.parametrize(
    "factor, expected", [(0.5, "faster"), (2.0, "slower"), (1.01, "no difference"), (1.19, "undecided")]
)
def test_six_pairs(factor, expected):
    found = judge(SIX, scaled(SIX, factor))
    assert found.verdict == expected
    assert found.ratio == pytest.approx(factor, rel=0.01)
    assert found.interval[0] <= found.ratio <= found.interval[1]
    assert found.why


def test_an_effect_below_the_minimum_is_no_claim_however_significant():
    found = judge(SIX, scaled(SIX, 1.15))
    assert found.p < 0.01 and found.verdict == "no difference"
    assert judge(SIX, scaled(SIX, 1.15), minimum_effect=0.05).verdict == "slower"


def test_calibrated_noise_raises_the_bar():
    assert judge(SIX, scaled(SIX, 0.7)).verdict == "faster"
    assert judge(SIX, scaled(SIX, 0.7), noise=math.log(1.6)).verdict == "undecided"
    assert judge(SIX, scaled(SIX, 0.7), noise=math.log(1.05)).verdict == "faster"


@pytest.mark.parametrize("n", [2, 3])
def test_too_few_pairs_never_decide_and_say_why(n):
    found = judge(SIX[:n], scaled(SIX[:n], 0.1))
    assert found.verdict == "undecided" and "never" in found.why
    assert found.pairs_needed >= 4
    assert found.ratio == pytest.approx(0.1, rel=0.05)
    assert judge(SIX[:n], SIX[:n]).verdict == "undecided"


def test_four_pairs_can_reject_but_not_among_three_arms():
    assert judge(SIX[:4], scaled(SIX[:4], 0.1)).verdict == "faster"
    found = judge(SIX[:4], scaled(SIX[:4], 0.1), arms_compared=2)
    assert found.verdict == "undecided" and "smallest p" in found.why


def test_one_pair_says_nothing():
    assert judge([100], [10]).verdict == "none"


def test_undecided_names_a_number_of_pairs_that_would_do():
    rng = np.random.default_rng(2)
    a, b = np.exp(rng.normal(0, 0.3, 6)), np.exp(rng.normal(-0.4, 0.3, 6))
    found = judge(a, b)
    assert found.verdict == "undecided"
    assert found.pairs_needed > 6 and found.pairs_needed % 2 == 0
    decided = 0
    for _ in range(40):
        n = found.pairs_needed
        shift = math.log(found.ratio)
        decided += judge(np.exp(rng.normal(0, 0.3, n)), np.exp(rng.normal(shift, 0.3, n)), draws=2000).verdict == "faster"
    assert decided >= 20


def test_planned_looks_wait_for_the_first():
    found = judge(SIX[:5], scaled(SIX[:5], 0.1), looks=(6, 12))
    assert found.verdict == "undecided" and "planned look" in found.why
    assert judge(SIX, scaled(SIX, 0.1), looks=(6, 12)).verdict == "faster"


def test_a_look_that_rejected_stays_rejected():
    rng = np.random.default_rng(4)
    a = np.concatenate([np.exp(rng.normal(0, 0.01, 6)), np.exp(rng.normal(0, 2.0, 2))])
    b = np.concatenate([np.exp(rng.normal(-2, 0.01, 6)), np.exp(rng.normal(-2, 2.0, 2))])
    assert judge(a, b, looks=(6, 8)).p <= 0.05


def test_exact_comparison_of_instructions():
    found = verdict.compare_exact(200.0, 150.0, 0.2)
    assert found.verdict == "faster" and found.p is None and "-50.0" in found.why
    assert verdict.compare_exact(200.0, 210.0, 0.2).verdict == "no difference"
    assert verdict.compare_exact(200.0, 200.1, 0.0).verdict == "no difference"
    assert verdict.compare_exact(0.0, 10.0, 0.2).verdict == "none"


@pytest.mark.parametrize(
    "a, b, expected", [(0, 0, False), (0, 2, False), (0, 3, True), (4, 0, True), (3, 4, False), (10, 13, False)]
)
def test_an_arm_that_clearly_fails_more_is_unreliable(a, b, expected):
    assert bool(verdict.unreliable(a, b)) == expected


# -- looks, and what is beyond the minimum effect ---------------------------------------------------


def sides_of(rng, pairs, shift, noise=0.03):
    return [verdict.Side(level + noise * rng.standard_normal((pairs, 1)), np.arange(1, pairs + 1)) for level in (0.0, shift)]


def test_a_lost_boot_does_not_put_a_look_off():
    """Pair 6 gave B no boot: the look is at six pairs booted, and a threefold effect is plain."""
    a, b = sides_of(np.random.default_rng(30), 6, np.log(3))
    b = verdict.Side(b.values[:5], b.pairs[:5])
    rules = verdict.Rules(looks=(6, 12))
    assert verdict.compare(a, b, rules)[0].verdict == "slower"
    a = verdict.Side(a.values[:5], a.pairs[:5])  # and neither arm
    assert verdict.compare(a, b, rules)[0].why == "5 pairs; the first planned look is at 6"
    assert verdict.compare(a, b, rules, made=6)[0].verdict == "slower"


def test_an_interval_at_a_look_is_as_wide_as_the_look_can_afford():
    a, b = sides_of(np.random.default_rng(31), 30, 0.0)
    rules = verdict.Rules(looks=(6, 12, 30))
    early = verdict.compare(a.first(8), b.first(8), rules)[0]
    assert early.level == pytest.approx(0.99) and early.coverage >= 0.99
    assert early.interval == verdict.compare(a.first(6), b.first(6), rules)[0].interval  # of the look, not of what came since
    assert verdict.compare(a, b, rules)[0].level == pytest.approx(0.97)


@pytest.mark.parametrize("ratio, beyond, said", [(1.5, True, "whole interval lies beyond 20 %"), (1.22, False, "estimated beyond 20 %")])
def test_beyond_is_said_of_intervals(ratio, beyond, said):
    found = verdict.compare(*sides_of(np.random.default_rng(32), 8, np.log(ratio)), verdict.Rules())[0]
    assert found.verdict == "slower" and found.beyond is beyond and said in found.why


def test_an_arm_that_only_scatters_more_is_no_slower():
    rng = np.random.default_rng(33)
    found = 0
    for _ in range(200):
        a, b = (verdict.Side(noise * rng.standard_normal((6, 40)), np.arange(1, 7)) for noise in (0.03, 0.6))
        found += any(c.verdict in ("faster", "slower") for c in verdict.compare(a, b, verdict.Rules(draws=2000)))
    assert found <= 22  # of a true 6.5 % more come once in a thousand times; exchanging labels alone claims in half


def test_what_a_few_boots_have_is_not_no_difference():
    rng = np.random.default_rng(34)
    a, b = sides_of(rng, 30, 0.0)
    b.values[::4] += np.log(2)
    found = verdict.compare(a, b, verdict.Rules())[0]
    assert found.verdict == "undecided" and "most boots are alike" in found.why
    assert found.means["ratio"] == pytest.approx(1.25, abs=0.05)


def test_what_a_round_has_is_not_no_difference():
    """One round of twelve takes four times as long: the geometric means are 12 % apart, the sums 25 %."""
    a, b = sides_of(np.random.default_rng(35), 12, np.log(4) / 12)
    b.means = b.values - np.log(4) / 12 + np.log(15 / 12)
    assert verdict.compare(a, verdict.Side(b.values, b.pairs), verdict.Rules())[0].verdict == "no difference"
    assert verdict.compare(a, b, verdict.Rules())[0].verdict == "undecided"


def test_student_and_his_quantiles():
    assert stats.t_two_sided(np.array([2.228, 12.706]), np.array([10.0, 1.0])) == pytest.approx([0.05, 0.05], abs=1e-4)
    assert stats.t_quantile(0.975, 10.0) == pytest.approx(2.2281, abs=1e-4)
    assert stats.holm(np.array([0.01, 0.04, 0.03, 0.5])) == pytest.approx([0.04, 0.09, 0.09, 0.5])


def test_welch_does_not_mind_who_scatters_or_what_is_missing():
    rng = np.random.default_rng(36)
    a, b = rng.normal(0, 1, (8, 2)), rng.normal(3, 0.1, (9, 2))
    b[0, 1] = np.nan
    assert (stats.welch_p(a, b) < 0.01).all() and stats.welch_p(a, b) == pytest.approx(stats.welch_p(b, a))
    assert stats.welch_p(np.ones((4, 1)), np.ones((4, 1))) == 1.0 and stats.welch_p(a[:1], b).max() == 1.0
    assert stats.welch_p(np.ones((4, 1)), 2 * np.ones((4, 1))) == 0.0


def test_a_reading_is_fitted_again_under_each_labelling():
    """The statistic is the t of the arm in a line with a slope (its floor aside), and does not mind what was taken out."""
    rng = np.random.default_rng(37)
    x, label = rng.normal(size=(12, 1)), np.repeat([0.0, 1.0], 6)
    y = 0.8 * x + 0.5 * label[:, None] + 0.1 * rng.normal(size=(12, 1))
    design = np.column_stack([np.ones(12), label, x])
    fit, rest = np.linalg.lstsq(design, y[:, 0], rcond=None)[:2]
    error = np.sqrt(rest[0] / 9 * np.linalg.inv(design.T @ design)[1, 1])
    assert stats._BootStatistic(y, 0.0, x)(label[None, :])[0, 0] == pytest.approx(fit[1] / error)
    one, other = (stats.max_t_boots(*np.split(values, 2), readings=x) for values in (y, y - 0.8 * x))
    assert one == pytest.approx(other) and one[0] < 0.05
    assert stats.max_t_boots(*np.split(y, 2), readings=np.full_like(x, np.nan)) == pytest.approx(stats.max_t_boots(*np.split(y, 2)))


def test_the_points_of_an_axis_are_one_family():
    values, pairs = verdict.rows_by_pair([([1, 2, 3], np.array([[1.0], [2.0], [3.0]])), ([3, 1, 4], np.array([[30.0], [10.0], [40.0]]))])
    assert pairs.tolist() == [1, 2, 3, 4]
    assert np.nan_to_num(values, nan=-1.0).tolist() == [[1, 10], [2, -1], [3, 30], [-1, 40]]
    rng = np.random.default_rng(38)
    claims = 0
    for _ in range(150):  # 9 points of 4 tests, 4 pairs: a family a point would claim in a fifth
        sides = [verdict.Side(*verdict.rows_by_pair([([1, 2, 3, 4], 0.05 * rng.standard_normal((4, 4))) for _ in range(9)]))
                 for _ in "AB"]
        claims += verdict.family_p(*sides, verdict.Rules()).min() <= verdict.ALPHA
    assert claims <= 16
