"""Cases that once broke a verdict, as rows of docs/STATISTICS.md: what the machine or an arm does, what is promised, and what
the method then says, by simulation. characteristics.py prints the table.

A case makes a run, has it judged by the code that judges archives, and gives one of SAID:

  claim           some test is called faster or slower (a counter changed, a rule failed, a noise exceeded, runs apart)
  no difference   that was said of the test with the effect, or of some test where there is none
  open            neither

Boots are made as digests where times are adjusted, so rounds, yardstick and probes go through analyse.py as an archive's do.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from telemetry import analyse, calibrate, compare, expect, plan, tally, verdict

CLAIMS = ("faster", "slower")
SAID = ("claim", "no difference", "open")
APART = np.log(4.4)  # near and far: as measured, 11,000 round trips a ms, or 2,500
ROUNDS = 12


def told(verdicts) -> str:
    verdicts = list(verdicts)
    if any(one in CLAIMS for one in verdicts):
        return "claim"
    return "no difference" if "no difference" in verdicts else "open"


def sides(a, b, **more):
    return [verdict.Side(values, np.arange(1, len(values) + 1), **more) for values in (a, b)]


def judged(a, b, **rules):
    return [found.verdict for found in verdict.compare(*sides(a, b), verdict.Rules(draws=2000, **rules))]


# -- noise, points, order ---------------------------------------------------------------------------


def unequal(rng, pairs, one, other, minimum):
    return told(judged(one * rng.standard_normal((pairs, 40)), other * rng.standard_normal((pairs, 40)), minimum_effect=minimum))


def axes(rng, pairs):
    a, b = (verdict.Side(*verdict.rows_by_pair([(list(range(1, pairs + 1)), 0.05 * rng.standard_normal((pairs, 4)))
                                                for _ in range(9)])) for _ in "AB")
    return told(found.verdict for found in verdict.compare(a, b, verdict.Rules(minimum_effect=0.0)))


def host_job(rng, pairs, period, order):
    """A neighbour whose work swells and ebbs with a period of about so many boots, 15 % either way; begun at any time."""
    slots = plan.draw("AB", [{}], pairs, order, int(rng.integers(2**32)))
    turns = np.arange(len(slots)) / (period * rng.uniform(0.99, 1.01)) + rng.uniform()
    x = 0.02 * rng.standard_normal((len(slots), 40)) + 0.15 * np.sin(2 * np.pi * turns)[:, None]
    arms = [np.array([x[at] for at, slot in enumerate(slots) if slot.arm == arm]) for arm in "AB"]
    return told(judged(*arms, minimum_effect=0.0))


# -- what is taken out of the times -----------------------------------------------------------------


def states(rng, boots):
    """Whether each round of each boot is far: a host that moves CPUs once in six boots, as often within as between."""
    far, out = False, np.zeros((boots, ROUNDS))
    for row in range(boots):
        moves, within = rng.random(2) < (1 / 6, 1 / 2)
        change = int(rng.integers(1, ROUNDS)) if moves and within else (0 if moves else ROUNDS)
        out[row] = np.where(np.arange(ROUNDS) < change, far, not far)
        far = far != bool(moves)
    return out


def boot(arm, pair, times, rates=None, yardsticks=None):
    """times[test, round] in ns; rates: round trips a ms after each; yardsticks[test, round]."""
    tests, probes = [], [] if rates is None else [{"when": "before", "rate": float(rates[0, 0])}]
    for at in range(times.shape[1]):
        probes += [] if rates is None else [{"when": f"t{t}", "rate": float(rates[t, at])} for t in range(len(times))]
    for t, own in enumerate(times):
        rounds = [{"ns_per_op": float(one), "complete": False, "operations": 1, "counters": {}, "cpus": [[0, 0]],
                   **({} if yardsticks is None else {"yardstick": [[0, float(yardsticks[t, at]), float(yardsticks[t, at])]]})}
                  for at, one in enumerate(own)]
        tests.append({"name": f"t{t}", "unit": "ns/op", "cpus": 2, "rounds": rounds,
                      "ns_per_op": float(np.exp(np.mean(np.log(own))))})
    return {"about": {"id": f"{pair:02}-{arm}", "arm": arm, "pair": pair, "point": {}, "outcome": "ok"}, "used": True,
            "digest": {"tests": tests, "parallel": {"ok": rates is not None, "probes": probes}}}


def archive(boots, pairs, minimum):
    """[results.json's entry of B against A] of each test."""
    run = {"arms": {"A": "", "B": "x"}, "reference": "A", "state": "done", "points": [{}]}
    results = {key: [] for key in ("tests", "skipped", "locks", "footprint", "figures", "overhead", "latency", "matrix")}
    place = analyse._describe_point(results, {}, boots, run, "host", {})
    analyse._judge([place], run, "host", verdict.Rules(minimum_effect=minimum, draws=2000), {})
    return [test["versus"]["B"] for test in results["tests"]]


def moved(rng, pairs, tests=20, minimum=0.0, ratio=1.0, probe=1.0, slopes=None):
    """A host that moves CPUs. probe: B's round trips take so many times as long by B's own doing; slopes: of A and of B,
    how far their times follow the distance (else alike, and drawn for each test)."""
    boots, far = [], states(rng, 2 * pairs)
    feel = rng.uniform(0, 1, tests)
    for at, state in enumerate(far):
        arm = "ABBA"[at % 4]
        own = feel if slopes is None else np.full(tests, slopes[arm == "B"])
        trip = APART * state + 0.05 * rng.standard_normal((tests, ROUNDS))
        times = 100 * np.exp((np.log(ratio) if arm == "B" else 0.0) + 0.04 * rng.standard_normal((tests, 1)) + own[:, None] * trip
                             + 0.04 * rng.standard_normal((tests, ROUNDS)))
        rates = 11000 * np.exp(-trip) / (probe if arm == "B" else 1.0)
        boots.append(boot(arm, at // 2 + 1, times, rates))
    return told(found["verdict"] for found in archive(boots, pairs, minimum))


def paced(rng, pairs, core, tests=4, minimum=0.10, yardstick=None):
    """A core of two paces; B slows the core itself, so its tests and its yardstick alike (or the yardstick only)."""
    boots, drift = [], np.cumsum(0.1 * rng.standard_normal(2 * pairs))
    for at in range(2 * pairs):
        arm = "ABBA"[at % 4]
        pace = np.log(1.75) * rng.beta(0.4, 0.4, (tests, ROUNDS)) + drift[at]
        read = pace + (np.log(yardstick or core) if arm == "B" else 0.0) + 0.05 * rng.standard_normal((tests, ROUNDS))
        times = 100 * np.exp(0.9 * pace + (np.log(core) if arm == "B" else 0.0) + 0.03 * rng.standard_normal((tests, ROUNDS)))
        boots.append(boot(arm, at // 2 + 1, times, yardsticks=1e5 * np.exp(read)))
    return told(found["verdict"] for found in archive(boots, pairs, minimum))


# -- boots that are lost, effects in a part ---------------------------------------------------------


def survivors(rng, pairs, share):
    """So many of B's boots take twice as long, run out of time, and are booted again."""
    boots = []
    for pair in range(1, pairs + 1):
        for arm in "AB":
            while arm == "B" and rng.random() < share:
                lost = boot(arm, pair, np.full((1, 1), 200.0))
                lost["about"]["outcome"], lost["used"] = "not parallel", False
                boots.append(lost)
            boots.append(boot(arm, pair, 100 * np.exp(0.04 * rng.standard_normal((1, 1)))))
    return told(found["verdict"] for found in archive(boots, pairs, 0.20))


def in_boots(rng, pairs, share, ratio):
    a, b = 0.04 * rng.standard_normal((2, pairs, 1))
    return told(judged(a, b + np.log(ratio) * (rng.random((pairs, 1)) < share), minimum_effect=0.20))


def in_a_round(rng, pairs, ratio):
    boots = []
    for pair in range(1, pairs + 1):
        for arm in "AB":
            times = 100 * np.exp(0.03 * rng.standard_normal((1, 1)) + 0.03 * rng.standard_normal((1, ROUNDS)))
            times[0, int(rng.integers(ROUNDS))] *= ratio if arm == "B" else 1.0
            boots.append(boot(arm, pair, times))
    return told(found["verdict"] for found in archive(boots, pairs, 0.20))


# -- looks, what is beyond, counters, rules, runs side by side, calibration ---------------------------


def looks(rng, ratio, lost):
    """6, 12 and 30 pairs; a verdict at any look counts. lost: B's sixth boot, and only the first look is asked."""
    a, b = 0.05 * rng.standard_normal((30, 1)), np.log(ratio) + 0.05 * rng.standard_normal((30, 1))
    said = []
    for now in (6, 12, 30):
        one, other = sides(a[:now], b[:now])
        if lost:
            other = verdict.Side(np.delete(other.values, 5, axis=0), np.delete(other.pairs, 5))
        said.append(verdict.compare(one, other, verdict.Rules(looks=(6, 12, 30), draws=2000))[0].verdict)
        if lost or said[-1] != "undecided":
            break
    return told(said)


def beyond(rng, pairs, ratio):
    """A claim here is that the effect lies beyond 20 %."""
    found = verdict.compare(*sides(0.05 * rng.standard_normal((pairs, 1)), np.log(ratio) + 0.05 * rng.standard_normal((pairs, 1))),
                            verdict.Rules())[0]
    return "claim" if found.beyond else "no difference" if found.verdict == "no difference" else "open"


def counted(rng, pairs, speed):
    arms = {}
    for arm, done in (("A", 10**6), ("B", speed * 10**6)):
        arms[arm] = []
        for pair in range(1, pairs + 1):
            one = tally.BootTally.__new__(tally.BootTally)
            n = round(done * np.exp(0.03 * rng.standard_normal()))
            one.operations, one.incomplete = {"t": n}, []
            one.values = {("ticks", "t", None): round(n + 10**6 * np.exp(0.03 * rng.standard_normal()))}
            arms[arm].append((pair, one))
    about = {"ticks": {"unit": "ops", "kind": "sum"}}
    found = tally.counters([tally.Point({}, arms)], "A", about, verdict.Rules())
    return "claim" if any(entry["versus"]["B"]["verdict"] == "changed" for entry in found) else "open"


def ruled(rng, pairs, rules):
    """A claim here is that one of so many true rules does not hold: B < A, where B is 5 % quicker and boots lie 5 % apart."""
    rule = expect.parse_rule("B < A", "AB")
    said = {rule.judge({"A": list(np.exp(0.05 * rng.standard_normal(pairs))),
                        "B": list(0.95 * np.exp(0.05 * rng.standard_normal(pairs)))}) for _ in range(rules)}
    return "claim" if expect.NOT_HELD in said else "open"


def side_by_side(rng, pairs, ratio):
    """A claim here is that two runs are apart; B/A is 0.7 in the one, and so many times that in the other."""
    entries = []
    for truth in (0.7, 0.7 * ratio):
        a, b = 0.05 * rng.standard_normal((2, pairs, 1))
        found = verdict.compare(*sides(a, b + np.log(truth)), verdict.Rules())[0]
        entries.append({"ratio": found.ratio, "interval": list(found.interval), "coverage": found.coverage, "verdict": found.verdict})
    return "claim" if compare.says(entries) == "apart" else "open"


def calibrated(rng, pairs):
    """A claim here is that an A/A run lies above the noise that an A/A run before it told."""
    known = calibrate.noise_of(list(np.exp(0.05 * rng.standard_normal(2 * pairs))))["noise"]
    a, b = 0.05 * rng.standard_normal((2, pairs))
    return "claim" if abs(np.median(b[:, None] - a[None, :])) > known else "open"


@dataclass(frozen=True)
class Case:
    """A row: told in the page's words, what is promised, and how it is made."""

    text: str
    promise: str
    limit: tuple  # (of SAID, "most" or "least", per cent)
    make: object
    given: tuple
    runs: int = 1000

    def rng(self):
        return np.random.default_rng(zlib.crc32(self.text.encode()))


FEW_CLAIMS = ("any claim: 5 % at most", ("claim", "most", 5.0))
NOISE_ONLY = ("any claim: 6.5 % at most", ("claim", "most", 6.5))
NEVER_NONE = ("no difference: 5 % at most", ("no difference", "most", 5.0))

CASES = [
    Case("40 tests, one arm noisier (3 and 60 %), 6 pairs", *NOISE_ONLY, unequal, (6, 0.03, 0.6, 0.20)),
    Case("40 tests, one arm noisier (3 and 60 %), 4 pairs, minimum effect 0", *NOISE_ONLY, unequal, (4, 0.03, 0.6, 0.0), 4000),
    Case("40 tests, one arm noisier (5 and 15 %), 6 pairs, minimum effect 0", *NOISE_ONLY, unequal, (6, 0.05, 0.15, 0.0)),
    Case("40 tests, one arm noisier (3 and 6 %), 6 pairs, minimum effect 5 %", *NOISE_ONLY, unequal, (6, 0.03, 0.06, 0.05)),
    Case("9 points of an axis with 4 tests each, 4 pairs", *FEW_CLAIMS, axes, (4,)),
    Case("9 points of an axis with 4 tests each, 6 pairs", *FEW_CLAIMS, axes, (6,)),
    Case("a host job with a period of 4 boots, random blocks, 6 pairs", *FEW_CLAIMS, host_job, (6, 4.0, "random-blocks")),
    Case("a host job with a period of 4 boots, random blocks, 12 pairs", *FEW_CLAIMS, host_job, (12, 4.0, "random-blocks"), 400),
    Case("a host job with a period of 3 boots, random blocks, 12 pairs", *FEW_CLAIMS, host_job, (12, 3.0, "random-blocks"), 400),
    Case("a host job with a period of 4 boots, abba, 6 pairs", "none: why abba is not the default", ("claim", "least", 20.0),
         host_job, (6, 4.0, "abba"), 400),
    Case("20 tests, the distance taken out, 6 pairs", *FEW_CLAIMS, moved, (6,), 600),
    Case("20 tests, the distance taken out, 12 pairs", *FEW_CLAIMS, moved, (12,), 300),
    Case("an arm makes the probe 1.6 times slower, 6 pairs", *FEW_CLAIMS, moved, (6, 4, 0.20, 1.0, 1.6), 400),
    Case("a test 1.5 times slower behind a probe 1.6 times slower, 6 pairs", *NEVER_NONE, moved, (6, 1, 0.20, 1.5, 1.6), 400),
    Case("only the reference feels the distance, 6 pairs", *FEW_CLAIMS, moved, (6, 1, 0.20, 1.0, 1.0, (0.9, 0.0)), 400),
    Case("an arm makes the core 1.15 times slower, minimum effect 10 %, 6 pairs", *NEVER_NONE, paced, (6, 1.15), 400),
    Case("an arm makes the core 1.3 times slower, minimum effect 10 %, 6 pairs", *NEVER_NONE, paced, (6, 1.3), 400),
    Case("an arm makes the yardstick alone 1.6 times slower, 6 pairs", *FEW_CLAIMS, paced, (6, 1.0, 1, 0.20, 1.6), 400),
    Case("half of an arm's boots run out of time, 6 pairs", *NEVER_NONE, survivors, (6, 0.5), 400),
    Case("a quarter of an arm's boots takes twice as long, 12 pairs", *NEVER_NONE, in_boots, (12, 0.25, 2.0)),
    Case("a quarter of an arm's boots takes twice as long, 30 pairs", *NEVER_NONE, in_boots, (30, 0.25, 2.0), 400),
    Case("one round of twelve takes four times as long, 6 pairs", *NEVER_NONE, in_a_round, (6, 4.0), 400),
    Case("one round of twelve takes four times as long, 12 pairs", *NEVER_NONE, in_a_round, (12, 4.0), 400),
    Case("looks at 6, 12 and 30 pairs, B/A 1.20", *NEVER_NONE, looks, (1.20, False), 400),
    Case("looks at 6, 12 and 30 pairs, alike", *FEW_CLAIMS, looks, (1.0, False), 400),
    Case("the look at 6 pairs, threefold, the sixth boot of B lost", "a claim: 95 % at least", ("claim", "least", 95.0), looks, (3.0, True), 400),
    Case("B/A 1.178, said to lie beyond 20 %, 12 pairs", *FEW_CLAIMS, beyond, (12, 1.178)),
    Case("a counter that goes by operations and by time, B three times as fast", *FEW_CLAIMS, counted, (6, 3), 400),
    Case("a true rule with 5 % of room does not hold, 6 pairs", *FEW_CLAIMS, ruled, (6, 1)),
    Case("any of twelve such rules does not hold, 6 pairs", *FEW_CLAIMS, ruled, (6, 12)),
    Case("two runs of equal truth are apart, 2 pairs", *FEW_CLAIMS, side_by_side, (2, 1.0)),
    Case("two runs of equal truth are apart, 6 pairs", *FEW_CLAIMS, side_by_side, (6, 1.0)),
    Case("an A/A run above its calibrated noise, 6 pairs", *FEW_CLAIMS, calibrated, (6,), 4000),
]


def said(case, runs=None):
    """{of SAID: per cent} over so many runs."""
    rng, found = case.rng(), []
    for _ in range(runs or case.runs):
        found.append(case.make(rng, *case.given))
    return {one: 100 * found.count(one) / len(found) for one in SAID}


HEAD = ("| what happens | promised | any claim | no difference | open |\n|---|---|---|---|---|")


def line(case, found):
    return f"| {case.text} | {case.promise} | " + " | ".join(f"{found[one]:.1f}" for one in SAID) + " |"
