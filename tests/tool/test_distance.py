"""Taking a changed distance between CPUs out of the times: it finds what was planted, knows no arm, leaves a difference
between arms as it is, and says when it cannot be trusted."""

import dataclasses
import json
import random

import numpy as np
import pytest
import synth
from telemetry import analyse, distance, distrust, readings, settle, stats, verdict
from telemetry.report import content

ROUNDS, PAIRS = 12, 6
APART = np.log(4.4)  # as measured: 11,000 round trips a ms, or 2,500


def boot(rng, far):
    """The log round trip of each round; far: at which of them the distance changes to the other, and what it is first."""
    first, change = far
    state = np.where(np.arange(ROUNDS) < change, first, not first)
    return (-np.log(11000.0) + APART * state + 0.05 * rng.standard_normal(ROUNDS)).tolist()


def history(rng, boots):
    """(far at first, the round at which that changes): a host that moves CPUs once in six boots, as often within as between."""
    far, out = False, []
    for _ in range(boots):
        moves, within = rng.random(2) < (1 / 6, 1 / 2)
        far = far != (moves and not within)
        out.append((far, int(rng.integers(1, ROUNDS)) if moves and within else ROUNDS))
        far = far != (moves and within)
    return out


def run(rng, ratio=1.0, slope=0.9, noise=0.04, pairs=PAIRS, states=None):
    """(figures, times, trips, pair numbers), each by arm and boot, drawn as abba."""
    states = states or history(rng, 2 * pairs)
    figures, times, trips, numbers = ([[], []] for _ in range(4))
    for at, far in enumerate(states):
        arm = (0, 1, 1, 0)[at % 4]
        own = boot(rng, far)
        level = np.log(100.0) + (np.log(ratio) if arm else 0.0) + noise * rng.standard_normal()
        time = [level + slope * (x + np.log(11000.0)) + noise * rng.standard_normal() for x in own]
        for table, value in zip((figures, times, trips, numbers), (float(np.exp(np.mean(time))), time, own, at // 2)):
            table[arm].append(value)
    return figures, times, trips, numbers


FAR, NEAR = (True, ROUNDS), (False, ROUNDS)


def test_a_planted_slope_is_found_and_the_distance_taken_out():
    found = distance.adjust(*run(np.random.default_rng(1), ratio=0.5, states=[NEAR] * 6 + [FAR] * 6))
    assert found.slope == pytest.approx(0.9, abs=0.05)
    assert found.spread[1] < 0.2 * found.spread[0]
    shift = stats.shift_between(*(np.log(arm) for arm in found.figures))
    assert shift.shift == pytest.approx(np.log(0.5), abs=0.05)
    assert shift.high - shift.low < 0.2


def test_one_pair_at_another_distance_keeps_its_difference():
    """The slope comes from that pair's mean alone, so its boots move together."""
    given = run(np.random.default_rng(2), ratio=0.5, states=[NEAR] * 4 + [FAR] * 2 + [NEAR] * 6)
    found = distance.adjust(*given)
    raw, moved = ([np.log(arms[1][2]) - np.log(arms[0][2])] for arms in (given[0], found.figures))
    assert moved == pytest.approx(raw, abs=0.05)
    assert found.slope == pytest.approx(0.9, abs=0.1)


def test_a_boot_apart_from_its_pair_is_brought_back():
    found = distance.adjust(*run(np.random.default_rng(3), ratio=0.5, states=[NEAR] * 3 + [FAR] * 5 + [NEAR] * 4))
    shift = stats.shift_between(*(np.log(arm) for arm in found.figures))
    assert shift.shift == pytest.approx(np.log(0.5), abs=0.06)
    assert shift.high - shift.low < 0.25


def test_rounds_tell_where_the_distance_changes_within_boots():
    """Two pairs are too few for a slope of pairs, so only the rounds know it."""
    given = run(np.random.default_rng(4), pairs=2, states=[(False, 5), (True, 8), (False, 2), NEAR])
    assert distance.adjust(*given).slope == pytest.approx(0.9, abs=0.05)


def test_what_does_not_feel_the_distance_is_left_as_it_was():
    given = run(np.random.default_rng(5), slope=0.0, states=[NEAR] * 5 + [FAR] * 7)
    found = distance.adjust(*given)
    assert found.slope < 0.05
    assert np.log(sum(found.figures, [])) == pytest.approx(np.log(sum(given[0], [])), abs=0.06)


def test_one_distance_throughout_changes_nothing():
    assert distance.adjust(*run(np.random.default_rng(6), states=[NEAR] * 12)) is None


def test_the_arms_names_change_nothing():
    figures, times, trips, pairs = run(np.random.default_rng(7), ratio=2.0, states=[NEAR] * 5 + [FAR] * 7)
    one = distance.adjust(figures, times, trips, pairs)
    swapped = [[], []], [[], []], [[], []], [[], []]
    for row in range(PAIRS):  # in every other pair the labels are exchanged
        for arm in (0, 1):
            for table, source in zip(swapped, (figures, times, trips, pairs)):
                table[arm].append(source[arm ^ row % 2][row])
    other = distance.adjust(*swapped)
    assert other.slope == pytest.approx(one.slope)
    assert [other.figures[row % 2][row] for row in range(PAIRS)] == pytest.approx(one.figures[0])


def test_a_boot_without_the_test_keeps_its_place():
    figures, times, trips, pairs = run(np.random.default_rng(8), states=[NEAR] * 5 + [FAR] * 7)
    figures[1][2], times[1][2], trips[1][2] = None, [], []
    found = distance.adjust(figures, times, trips, pairs)
    assert [value is None for value in found.figures[1]] == [False, False, True, False, False, False]
    assert [value is None for value in found.roundtrip[1]] == [False, False, True, False, False, False]


def test_without_every_probe_times_stand():
    figures, times, trips, pairs = run(np.random.default_rng(9), states=[NEAR] * 5 + [FAR] * 7)
    trips[0][1] = []
    assert distance.adjust(figures, times, trips, pairs) is None
    assert distance.adjust([[], []], [[], []], [[], []], [[], []]) is None


def probes(*named):
    return [{"when": when, "rate": rate} for when, rate in named]


def test_a_round_lies_between_two_probes_and_the_quicker_counts():
    found = distance.of_rounds(probes(("before", 100), ("x", 400), ("y", 50), ("x", 200), ("y", 300), ("after", 1)), "x", 2)
    assert np.exp(-np.array(found)) == pytest.approx([400, 200])


@pytest.mark.parametrize("named, rounds", [
    ((), 1), ((("before", 10), ("x", 10)), 2), ((("before", 0), ("x", 0)), 1), ((("x", 10),), 1), ((("before", 10),), 0)])
def test_probes_that_do_not_match_the_rounds_say_nothing(named, rounds):
    assert distance.of_rounds(probes(*named), "x", rounds) == []


def judged(rng, ratio, rules, pairs=PAIRS, adjusted=True):
    """The verdict on a run of a test that feels the distance somehow: as measured, or settled with what is adjusted."""
    given = run(rng, ratio, slope=float(rng.uniform(0, 1)), pairs=pairs)
    found = distance.adjust(*given) if adjusted else None
    raw = verdict.compare(*(one_test(arm) for arm in given[0]), rules)[0]
    if found is None:
        return raw.verdict
    if found.ends is not None:
        ends = [tuple(np.log(np.array(arm)) for arm in end) for end in found.ends]
        return settle.at_both_ends(raw, ends, rules.minimum_effect, "").verdict
    sides = [one_test(*both) for both in zip(found.figures, found.roundtrip)]
    return settle.settle(verdict.compare(*sides, rules)[0], raw, []).verdict


def one_test(figures, trips=None):
    column = lambda values: np.array(values, dtype=float).reshape(-1, 1)  # noqa: E731
    return verdict.Side(np.log(column(figures)), np.arange(1, len(figures) + 1), None, None if trips is None else column(trips))


def test_arms_that_are_alike_stay_so():
    """At most 5 %: of 300 runs more than 28 would come from that rate less than once in a thousand times."""
    rng, rules = np.random.default_rng(10), verdict.Rules(minimum_effect=0.0)
    assert sum(judged(rng, 1.0, rules) in ("faster", "slower") for _ in range(300)) <= 28


def test_a_difference_stays_visible():
    """As measured it is seen in some 37 of 60."""
    rng, rules = np.random.default_rng(11), verdict.Rules(minimum_effect=0.2)
    assert sum(judged(rng, 1.5, rules) == "slower" for _ in range(60)) >= 57


FAR_BOOTS = {"02-A", "02-B", "03-B", "04-A", "04-B"}


@pytest.fixture(scope="module")
def moved_run(tmp_path_factory):
    """A run in which a contended test takes 4 times as long wherever a round trip does, and half as long in B."""
    run = tmp_path_factory.mktemp("moved") / "run"
    plans = {arm: synth.Plan((synth.Test("malloc/64/solo", 100), synth.Test("malloc/64/all-cpus", ns, 2)), args)
             for arm, ns, args in (("A", 200, synth.ARM_A), ("B", 100, synth.ARM_B))}
    description = synth.begin_run(run, plans, pairs=6)
    for at, entry in enumerate(description["order"]):
        plan = synth.noisy(plans[entry["arm"]], 1, at)
        if entry["id"] in FAR_BOOTS:
            solo, crowd = plan.tests
            plan = dataclasses.replace(plan, roundtrips=plan.roundtrips // 4,
                                       tests=(solo, dataclasses.replace(crowd, ns=4 * crowd.ns)))
        synth.run_boot(run, entry, plan)
    synth.write_json(run / "run.json", description | {"state": "done"})
    return run


def contended(results):
    return next(test for test in results["tests"] if test["name"] == "malloc/64/all-cpus")


def test_a_run_is_judged_at_one_distance_and_tells_both(moved_run):
    results = analyse.analyse_run(moved_run)
    found = contended(results)
    assert found["versus"]["B"]["verdict"] == "faster" and found["versus"]["B"]["ratio"] == pytest.approx(0.5, rel=0.05)
    assert found["distance"]["slope"] == pytest.approx(1.0, abs=0.05)
    assert max(found["arms"]["A"]["raw"]) > 700 > 220 > max(found["arms"]["A"]["boots"])
    assert found["distance"]["spread_before"] > 10 * found["distance"]["spread"]
    assert results["tests"][0]["name"] == "malloc/64/solo" and results["tests"][0]["distance"] is None
    assert [w["text"] for w in results["warnings"] if w["kind"] == "distance"] == [
        "two CPUs were 4.0 times further apart than usual in 5 of 12 boots (A 2, B 3): 100 round trips of a word a ms instead "
        "of 400, as when a host moves them; taken out of 1 test on several CPUs"]
    block, table = content._distance(results)
    assert block.label == "At one distance" and len(table.rows) == 1
    assert table.rows[0][0] == "malloc/64/all-cpus" and table.rows[0][4] == "100 to 400"


def test_as_measured_if_asked(moved_run):
    run = moved_run / "run.json"
    whole = run.read_text()
    run.write_text(json.dumps(json.loads(whole) | {"pace": "ignore"}))
    try:
        found = contended(analyse.analyse_run(moved_run))
    finally:
        run.write_text(whole)
    assert found["distance"] is None and "raw" not in found["arms"]["A"]
    assert found["versus"]["B"]["verdict"] == "undecided"


def results_with(shift_of_b):
    rng = np.random.default_rng(12)
    arms = {"A": rng.normal(-9.3, 0.02, PAIRS).tolist(), "B": rng.normal(-9.3 + shift_of_b, 0.02, PAIRS).tolist()}
    tests = [{"name": "maple/all-cpus", "distance": {"slope": 0.8, "roundtrip": arms, "own": arms}}, {"name": "x", "distance": None}]
    readings.look(tests, "A", {arm: list(range(1, PAIRS + 1)) for arm in "AB"})
    return {"arms": {"A": "", "B": ""}, "reference": "A", "tests": tests}


@pytest.mark.parametrize("shift, said", [(0.0, ""), (np.log(3), "further apart in B"), (-np.log(3), "closer together in B")])
def test_a_distance_that_knows_the_arms_is_a_warning(shift, said):
    texts = []
    distrust._adjusters(results_with(shift), lambda kind, text: texts.append((kind, text)))
    assert bool(texts) == bool(said)
    if said:
        assert texts[0][0] == "distance" and "maple/all-cpus" in texts[0][1] and said in texts[0][1]


def probed(at, arm, *rates, ok=True):
    return {"about": {"id": f"{at:02}-{arm}", "arm": arm},
            "digest": {"parallel": {"ok": ok, "probes": [{"when": "", "rate": rate} for rate in rates]}}}


def distances(boots, tests=()):
    texts = []
    distrust._distance({"tests": tests}, boots, lambda kind, text: texts.append((kind, text)))
    return texts


def test_cpus_that_the_host_moved_apart_are_told():
    boots = [probed(1, "A", 2570, 2510), probed(1, "B", 2590, 2530), probed(2, "B", 11600, 12100), probed(2, "A", 11900),
             probed(3, "A", 11900, 12300), probed(3, "B", 11500, 11200, 2600, 2500), probed(4, "A"), probed(4, "B", 11800, 9900)]
    (kind, text), = distances(boots)
    assert kind == "distance"
    assert "further apart" in text and "3 of 8 boots (A 1, B 2)" in text and "2,590 round trips" in text
    assert "not taken out" in text


def test_cpus_that_are_close_for_once_are_told():
    (_, text), = distances([probed(1, "A", 2500), probed(1, "B", 2600), probed(2, "B", 2550, 11000, 10500), probed(2, "A", 2400)],
                            tests=[{"distance": {"slope": 0.9}}, {"distance": None}])
    assert "closer together" in text and "1 of 4 boots (B 1)" in text
    assert "; taken out of 1 test on several CPUs" in text


def test_cpus_that_stay_where_they_are_need_no_word():
    rng = random.Random(5)
    assert distances([probed(at, arm, *(rng.uniform(9000, 13000) for _ in range(6))) for at in range(6) for arm in "AB"]) == []
    assert distances([probed(1, "A"), probed(1, "B")]) == []


@pytest.mark.parametrize("rate", [619, 6075])
def test_one_probe_by_itself_is_a_cpu_that_was_kept_from_it(rate):
    boots = [probed(at, arm, 2200, 2300, 2150, 2250) for at in range(4) for arm in "AB"]
    boots[3]["digest"]["parallel"]["probes"][2]["rate"] = rate
    assert distances(boots) == []


def test_what_does_not_last_is_no_distance():
    boots = [probed(at, arm, *[2200] * 30) for at in range(4) for arm in "AB"]
    for probe in boots[3]["digest"]["parallel"]["probes"][10:13]:
        probe["rate"] = 600
    assert distances(boots) == []
    for probe in boots[3]["digest"]["parallel"]["probes"][10:15]:
        probe["rate"] = 600
    assert len(distances(boots)) == 1


def test_cpus_that_take_turns_have_no_distance():
    boots = [probed(at, arm, *[2200 if at else 3] * 20, ok=None) for at in range(4) for arm in "AB"]
    assert distances(boots) == [] and distance.probes(boots[0]["digest"]) == [] and distance.probes({}) == []
