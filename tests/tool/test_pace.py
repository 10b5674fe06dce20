"""Taking the machine's pace out of the times: it finds what was planted, knows no arm, and says when it cannot be trusted."""

import dataclasses
import json
import random

import numpy as np
import pytest
import synth
from telemetry import ROOT, analyse, experiment
from telemetry import distrust, pace, readings, stats, verdict

ROUNDS, PAIRS = 12, 6


def round_(time, *readings):
    """One CPU a pair of readings."""
    rows = [[cpu, readings[2 * cpu], readings[2 * cpu + 1]] for cpu in range(len(readings) // 2)]
    return {"ns_per_op": time, "yardstick": rows, "cpus": [[row[0]] for row in rows]}


def boot(rng, level, slope, drift=0.0):
    """Rounds on a core that is at one of two paces, or between them; the yardstick sees the pace nearly right."""
    out = []
    for _ in range(ROUNDS):
        slow = np.log(1.75) * rng.beta(0.4, 0.4) + drift
        before, after = np.exp(np.log(1e5) + slow + 0.05 * rng.standard_normal(2))
        out.append(round_(level * np.exp(slope * slow + 0.03 * rng.standard_normal()), round(before), round(after)))
    return out


def run(rng, ratio=1.0, slope=0.8):
    drifts = np.cumsum(0.1 * rng.standard_normal(2 * PAIRS))
    boots = [boot(rng, 100.0 * (ratio if at % 2 else 1.0), slope, drift) for at, drift in enumerate(drifts)]
    return [boots[0::2], boots[1::2]]


def test_a_planted_slope_is_found_and_its_pace_taken_out():
    found = pace.adjust(run(np.random.default_rng(1), ratio=1.5, slope=0.8), "ns_per_op")
    assert 0.65 < found.slope <= 0.85
    assert found.spread[1] < 0.35 * found.spread[0]
    shift = stats.shift_between(*(np.log(arm) for arm in found.figures))
    assert shift.shift == pytest.approx(np.log(1.5), abs=0.05)
    assert shift.high - shift.low < 0.25


def test_what_does_not_feel_the_pace_is_left_as_it_was():
    boots = run(np.random.default_rng(2), slope=0.0)
    found = pace.adjust(boots, "ns_per_op")
    assert found.slope < 0.1
    raw = [np.mean(np.log([r["ns_per_op"] for r in rounds])) for arm in boots for rounds in arm]
    assert np.log(sum(found.figures, [])) == pytest.approx(raw, abs=0.05)


def test_a_steady_machine_has_no_pace_to_take_out():
    rng = random.Random(3)
    boots = [[[round_(100.0 * rng.uniform(0.9, 1.1), 100_000 + rng.randrange(400), 100_000) for _ in range(ROUNDS)]
              for _ in range(PAIRS)] for _ in "AB"]
    assert pace.adjust(boots, "ns_per_op").slope < 0.1


def test_the_arms_names_change_nothing():
    boots = run(np.random.default_rng(4), ratio=2.0)
    every = boots[0] + boots[1]
    one = pace.adjust(boots, "ns_per_op")
    order = np.random.default_rng(5).permutation(len(every))
    other = pace.adjust([[every[at] for at in order[:PAIRS]], [every[at] for at in order[PAIRS:]]], "ns_per_op")
    assert other.slope == pytest.approx(one.slope)
    assert sum(other.figures, []) == pytest.approx([sum(one.figures, [])[at] for at in order])


def test_a_stall_is_not_a_pace():
    boots = [[[round_(100.0, 100_000, 100_000) for _ in range(ROUNDS)] for _ in range(PAIRS)] for _ in "AB"]
    boots[0][0][3] = round_(100.0, 100_000, 30_000_000)
    found = pace.adjust(boots, "ns_per_op")
    assert max(map(max, found.yardstick)) - min(map(min, found.yardstick)) <= np.log(pace.STALL) / 2 / ROUNDS + 1e-9


@pytest.mark.parametrize("spoil", [
    lambda rounds: rounds[0].pop("yardstick"),
    lambda rounds: rounds[0].update(yardstick=[]),
    lambda rounds: rounds[0].update(yardstick=[[0, 0, 5]]),
    lambda rounds: rounds[0].update(cpus=[[0], [1]]),  # readings of one CPU of two
])
def test_without_every_reading_times_stand(spoil):
    boots = run(np.random.default_rng(6))
    assert pace.adjust(boots, "ns_per_op") is not None
    spoil(boots[0][0])
    assert pace.adjust(boots, "ns_per_op") is None


def test_too_few_rounds_make_no_slope():
    boots = [[rounds[:2] for rounds in arm[:4]] for arm in run(np.random.default_rng(7))]
    assert pace.adjust(boots, "ns_per_op") is None
    assert pace.adjust([[], []], "ns_per_op") is None


def test_a_boot_without_the_test_keeps_its_place():
    boots = run(np.random.default_rng(8))
    boots[1][2] = []
    found = pace.adjust(boots, "ns_per_op")
    assert [value is None for value in found.figures[1]] == [False, False, True, False, False, False]


def claims(rng, ratio, runs):
    verdicts = []
    for _ in range(runs):
        found = pace.adjust(run(rng, ratio), "ns_per_op")
        sides = [verdict.Side(np.log(np.array(arm)).reshape(-1, 1), np.arange(1, PAIRS + 1)) for arm in found.figures]
        verdicts.append(verdict.compare(*sides, verdict.Rules(minimum_effect=0.0 if ratio == 1.0 else 0.2))[0].verdict)
    return verdicts


def test_arms_that_are_alike_stay_so():
    """At most 5 %: of 300 runs more than 28 would come from that rate less than once in a thousand times."""
    found = claims(np.random.default_rng(9), 1.0, 300)
    assert sum(v in ("faster", "slower") for v in found) <= 28


def test_a_difference_stays_visible():
    assert claims(np.random.default_rng(10), 1.4, 60).count("slower") >= 57


def results_with(yardstick_of_b):
    rng = np.random.default_rng(11)
    arms = {"A": rng.normal(11.5, 0.02, PAIRS).tolist(), "B": rng.normal(yardstick_of_b, 0.02, PAIRS).tolist()}
    tests = [{"name": "malloc/64/solo", "pace": {"slope": 0.8, "yardstick": arms}}, {"name": "x", "pace": None}]
    readings.look(tests, "A", {arm: list(range(1, PAIRS + 1)) for arm in "AB"})
    return {"arms": {"A": "", "B": ""}, "reference": "A", "tests": tests}


@pytest.mark.parametrize("level, said", [(11.5, False), (11.5 + np.log(1.2), True), (11.5 - np.log(1.2), True)])
def test_a_yardstick_that_knows_the_arms_is_a_warning(level, said):
    texts = []
    distrust._adjusters(results_with(level), lambda kind, text: texts.append((kind, text)))
    assert bool(texts) == said
    if said:
        assert texts[0][0] == "pace" and "malloc/64/solo" in texts[0][1]
        assert ("slower in B" if level > 11.5 else "quicker in B") in texts[0][1]


@pytest.mark.parametrize("name", ["live-cost", "telemetry-cost", "counters-cost"])
def test_what_asks_for_a_cost_to_the_core_does_not_take_it_out(name):
    assert experiment.load(ROOT / "experiments" / f"{name}.toml").pace == "ignore"


@pytest.fixture(scope="module")
def costly(tmp_path_factory):
    """live-cost with a planted cost: B's core is 15 % slower, and so is the yardstick on it."""
    run = tmp_path_factory.mktemp("live") / "run"
    plan_a = synth.plan_for("A", noise=0.02, rounds=3)
    plan_b = dataclasses.replace(plan_a, tests=tuple(dataclasses.replace(test, ns=1.15 * test.ns) for test in plan_a.tests))
    asked = experiment.load(ROOT / "experiments" / "live-cost.toml")
    synth.write_run(run, {"A": plan_a, "B": plan_b}, pairs=asked.pairs)
    for path in run.glob("boots/*/result.json"):
        path.unlink()
    for boot in sorted((run / "boots").iterdir()):
        digest = analyse.digest.digest_boot(boot)
        rng = random.Random(boot.name)
        for test in digest["tests"]:
            for entry in test["rounds"]:
                took = 1e5 * (1.15 if "-B" in boot.name else 1.0) * rng.uniform(0.99, 1.01)
                entry["yardstick"] = [[cpu[0], took, took] for cpu in entry["cpus"]]
        (boot / "result.json").write_text(json.dumps(digest))
    about = json.loads((run / "run.json").read_text())
    machine = about["machine"] | {"kind": "host"}
    (run / "run.json").write_text(json.dumps(about | {"minimum_effect": asked.minimum_effect, "pace": asked.pace, "machine": machine}))
    return run


def test_a_planted_cost_is_found_by_live_cost(costly):
    results = analyse.analyse_run(costly)
    assert {test["versus"]["B"]["verdict"] for test in results["tests"]} == {"slower"}


def test_at_one_pace_it_is_not_called_no_difference(costly):
    """The yardstick takes most of it out, and knows the arm."""
    path = costly / "run.json"
    whole = path.read_text()
    path.write_text(json.dumps(json.loads(whole) | {"pace": "adjust"}))
    try:
        results = analyse.analyse_run(costly)
    finally:
        path.write_text(whole)
    for test in results["tests"]:
        assert test["versus"]["B"]["verdict"] != "no difference"
