"""The method judged by what it does: simulated runs with the noise that machines really have.

Each run has 40 tests that share part of their noise (a busy host slows all tests of a boot). Two kinds:
heavy tails (Student's t with 1.5 degrees of freedom) and two peaks (a boot lands in a fast or a slow layout,
test by test). HAYLOFT_LONG=1 (./hayloft test --long) makes many more of them.
"""

import os

import numpy as np
import pytest
from telemetry import stats, verdict

LONG = bool(os.environ.get("HAYLOFT_LONG"))
TESTS = 40
CLAIMS = ("faster", "slower")


def company(rng, boots, kind, tests=TESTS):
    shared = 0.03 * rng.standard_normal((boots, 1))
    if kind == "tails":
        own = 0.05 * rng.standard_t(1.5, size=(boots, tests))
    elif kind == "peaks":
        own = 0.7 * (rng.random((boots, tests)) < 0.4) + 0.01 * rng.standard_normal((boots, tests))
    else:
        raise ValueError(kind)
    return shared + own


def side(values, pairs=None):
    pairs = np.arange(1, len(values) + 1) if pairs is None else pairs
    return verdict.Side(values, pairs)


def claims_of(a, b, rules):
    return [c.verdict in CLAIMS for c in verdict.compare(side(a), side(b), rules)]


def quick_claim(a, b, rules):
    """Whether any test is claimed. Welch's p comes first, as the quicker one, and the interval is only worked out where both
    allow a claim."""
    if rules.scheme == "boots" and not rules.looks and stats.holm(stats.welch_p(a, b)).min() > verdict.ALPHA:
        return False
    p = verdict.family_p(side(a), side(b), rules)
    if p.min() > verdict.ALPHA:
        return False
    return any(claims_of(a, b, rules))


def assert_rate_at_most(claims, runs, rate):
    """Fails if so many claims would come from a true rate of `rate` less than once in a thousand times."""
    rng = np.random.default_rng(0)
    limit = np.quantile(rng.binomial(runs, rate, size=200_000), 0.999)
    assert claims <= limit, f"{claims} of {runs} runs made a claim; at most {limit:.0f} expected"


def run_null(kind, runs, pairs, rules, seed):
    rng = np.random.default_rng(seed)
    claims = 0
    for _ in range(runs):
        x = company(rng, 2 * pairs, kind)
        claims += quick_claim(x[:pairs], x[pairs:], rules)
    return claims


@pytest.mark.parametrize("kind", ["tails", "peaks"])
@pytest.mark.parametrize("scheme", ["boots", "pairs"] if LONG else ["boots"])
@pytest.mark.parametrize("effect", [0.0, 0.2] if LONG else [0.0])
@pytest.mark.parametrize("pairs", [4, 5, 6, 8] if LONG else [4, 6])
def test_alike_arms_are_rarely_claimed_to_differ(kind, scheme, effect, pairs):
    rules = verdict.Rules(minimum_effect=effect, scheme=scheme)
    runs = 6000 if LONG else 400
    assert_rate_at_most(run_null(kind, runs, pairs, rules, seed=11), runs, 0.05)


@pytest.mark.parametrize("kind", ["tails", "peaks"])
def test_planned_looks_share_the_error(kind):
    """Three looks at the same growing run: a claim at any of them counts."""
    rules = verdict.Rules(minimum_effect=0.0, looks=(6, 8, 12), draws=2000)
    rng = np.random.default_rng(13)
    runs, claims = 1500 if LONG else 150, 0
    for _ in range(runs):
        x = company(rng, 24, kind)
        claims += quick_claim(x[:12], x[12:], rules)
    assert_rate_at_most(claims, runs, 0.05)


def test_stopping_when_decided_would_not_be_honest():
    """The control: the same looks without sharing the error make false claims clearly more often."""
    rng = np.random.default_rng(14)
    once = verdict.Rules(minimum_effect=0.0, draws=2000)
    runs, claims = 150, 0
    for _ in range(runs):
        x = 0.05 * rng.standard_normal((40, TESTS))
        claims += any(quick_claim(x[:n], x[20 : 20 + n], once) for n in range(4, 21))
    assert claims > 0.10 * runs


def three_arms_claim(rng, rules):
    x = company(rng, 18, "tails")
    x[12:, 0] -= 2.0  # arm C really is faster: that must not spill over to B
    return quick_claim(x[:6], x[6:12], rules)


def test_a_third_arm_changes_nothing_between_the_others():
    rng = np.random.default_rng(15)
    rules = verdict.Rules(minimum_effect=0.0, arms_compared=2)
    assert_rate_at_most(sum(three_arms_claim(rng, rules) for _ in range(400)), 400, 0.05)


def twofold(rng, kind, rules):
    a, b = company(rng, 6, kind), company(rng, 6, kind)
    a[:, 0] = 0.05 * rng.standard_normal(6)
    b[:, 0] = 0.05 * rng.standard_normal(6) - np.log(2)
    return verdict.compare(side(a), side(b), rules)[0].verdict


@pytest.mark.parametrize("kind", ["tails", "peaks"])
def test_six_pairs_always_decide_a_twofold_effect(kind):
    rng = np.random.default_rng(16)
    assert [twofold(rng, kind, verdict.Rules()) for _ in range(200)] == ["faster"] * 200


@pytest.mark.parametrize("kind", ["tails", "peaks"])
def test_within_pairs_six_mostly_do(kind):
    """32 labellings leave no room for a single lucky neighbour, hence 'mostly'."""
    rng = np.random.default_rng(16)
    found = [twofold(rng, kind, verdict.Rules(scheme="pairs")) for _ in range(100)]
    assert found.count("faster") >= 55 and "slower" not in found


def test_six_pairs_also_see_it_the_other_way_round():
    rng = np.random.default_rng(17)
    a, b = company(rng, 6, "tails"), company(rng, 6, "tails")
    a[:, 0] = 0.05 * rng.standard_normal(6)
    b[:, 0] = 0.05 * rng.standard_normal(6) + np.log(2)
    assert verdict.compare(side(a), side(b), verdict.Rules())[0].verdict == "slower"


@pytest.mark.parametrize("kind", ["tails", "peaks"])
def test_thirty_pairs_find_a_quarter(kind):
    rng = np.random.default_rng(18)
    rules = verdict.Rules(minimum_effect=0.20, draws=2000)
    found, runs = 0, 40
    for _ in range(runs):
        a, b = company(rng, 30, kind), company(rng, 30, kind)
        a[:, 0] = 0.05 * rng.standard_normal(30)
        b[:, 0] = 0.05 * rng.standard_normal(30) + np.log(1.25)
        found += verdict.compare(side(a), side(b), rules)[0].verdict == "slower"
    assert found >= 0.95 * runs


def abba_slots(pairs):
    """The slot of A and of B in each pair: AB, BA, AB, ..."""
    a = np.array([0 if p % 2 == 0 else 1 for p in range(pairs)])
    return a, 1 - a


def machine_history(rng, pairs, effect_of_boot):
    slot_a, slot_b = abba_slots(pairs)
    x = 0.02 * rng.standard_normal((2, pairs, TESTS))
    for arm, slots in enumerate((slot_a, slot_b)):
        for pair in range(pairs):
            x[arm, pair] += effect_of_boot(2 * pair + slots[pair], slots[pair])
    return x[0], x[1]


@pytest.mark.parametrize("scheme", ["boots", "pairs"])
@pytest.mark.parametrize(
    "name, effect_of_boot",
    [
        ("slow drift", lambda place, slot: 0.02 * place),
        ("whoever boots first gains", lambda place, slot: -0.15 if slot == 0 else 0.0),
        ("both", lambda place, slot: 0.02 * place - (0.15 if slot == 0 else 0.0)),
    ],
)
def test_drift_and_slot_bonus_give_no_claim(name, effect_of_boot, scheme):
    rng = np.random.default_rng(19)
    rules = verdict.Rules(minimum_effect=0.0, scheme=scheme)
    runs = 200
    claims = 0
    for _ in range(runs):
        a, b = machine_history(rng, 6, effect_of_boot)
        claims += quick_claim(a, b, rules)
    assert_rate_at_most(claims, runs, 0.05)


def test_without_reversing_the_order_the_same_bonus_does_mislead():
    """The control for the test above: A always first, so the bonus looks like an effect of A."""
    rng = np.random.default_rng(20)
    a = 0.02 * rng.standard_normal((6, TESTS)) - 0.15
    b = 0.02 * rng.standard_normal((6, TESTS))
    assert quick_claim(a, b, verdict.Rules(minimum_effect=0.0))


def test_the_floor_is_what_finds_an_effect_among_two_peaked_tests():
    """5 boots a side: peaks that some labelling splits perfectly beat any statistic without a floor."""
    rng = np.random.default_rng(21)
    found = {0.0: 0, stats.FLOOR: 0}
    for _ in range(100):
        x = 0.2 * (rng.random((10, TESTS)) < 0.5) + 0.0005 * rng.standard_normal((10, TESTS))
        x[:, 0] = 0.05 * rng.standard_normal(10)
        x[5:, 0] += np.log(2)
        for floor in found:
            found[floor] += stats.max_t_boots(x[:5], x[5:], floor=floor)[0] <= 0.05
    assert found[stats.FLOOR] >= 95
    assert found[0.0] < 80
