"""Verdicts: what may be said about an arm, from the boots of a run.

faster, slower  the run-wide test rejects, the interval excludes no change, and the effect exceeds both the
                minimum effect and this machine's own calibrated noise
no difference   the interval lies inside the minimum effect
undecided       neither; with the number of pairs that would probably decide it
unreliable      one arm fails clearly more often than the other, so its times are those of the survivors
refused         this kind of machine cannot show such a difference
none            a single pair: nothing can be said

Only times are called faster or slower (a ratio below 1 is faster); a counter is *changed* or not. The
rules are the ones written in the experiment file before any boot: number of pairs or planned looks,
scheme, minimum effect. Under icount nothing is random, so there is no p: the difference is exact.

What this file does not do: read archives, or put verdicts into words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from . import stats

LEVEL = 0.95
ALPHA = 0.05
FEWEST_PAIRS = 4  # below this no labelling is rare enough to reject at 5 %
ICOUNT_TOLERANCE = 0.1  # instructions an operation: what one image repeats to
FAULT_EXCESS = 3  # an arm is unreliable with at least so many more guest faults ...
FAULT_CHANCE = 0.125  # ... if two equally good arms would share them so unevenly at most this often


@dataclass(frozen=True)
class Rules:
    """What was fixed before looking at any result."""

    minimum_effect: float = 0.20
    scheme: str = "boots"  # or "pairs": exchange arms within pairs only
    looks: tuple[int, ...] = ()  # planned looks in pairs; empty: one look at the end
    arms_compared: int = 1  # arms other than the reference: they share the error rate
    seed: int = 1
    draws: int = stats.MONTE_CARLO


@dataclass
class Side:
    """One arm's boots: values[boot, test] on the log scale, and each boot's pair number."""

    values: np.ndarray
    pairs: np.ndarray

    def first(self, pairs: int) -> "Side":
        keep = self.pairs <= pairs
        return Side(self.values[keep], self.pairs[keep])


@dataclass
class Comparison:
    """One test, one arm against the reference. Ratios, not logarithms; None where there is no number."""

    ratio: float | None = None
    interval: tuple[float | None, float | None] = (None, None)
    coverage: float = 0.0
    p: float | None = None
    paired: dict | None = None
    verdict: str = "none"
    why: str = ""
    threshold: float = 0.0
    pairs_needed: int | None = None
    notes: list[str] = field(default_factory=list)


def compare(
    reference: Side, arm: Side, rules: Rules, noise: np.ndarray | None = None
) -> list[Comparison]:
    """Judges every column (test) of one family; noise is the calibrated |ln ratio| of A/A, or NaN."""
    tests = reference.values.shape[1]
    p = family_p(reference, arm, rules)
    differences = pair_differences(reference, arm)
    floor_effect = math.log1p(rules.minimum_effect)
    out = []
    for t in range(tests):
        a, b = reference.values[:, t], arm.values[:, t]
        interval = stats.shift_between(a, b, LEVEL)
        entry = Comparison(p=None if interval is None else float(p[t]))
        entry.threshold = floor_effect
        if noise is not None and np.isfinite(noise[t]):
            entry.threshold = max(floor_effect, float(noise[t]))
        if interval is not None:
            _fill(entry, interval, stats.shift_of_pairs(differences[:, t], LEVEL))
            n = min(int(np.isfinite(a).sum()), int(np.isfinite(b).sum()))
            spread = stats.pooled_spread(a, b)
            _decide(entry, interval, n, rules, floor_effect, spread, tests)
        else:
            entry.why = "one of the arms has no value"
        out.append(entry)
    return out


def family_p(reference: Side, arm: Side, rules: Rules) -> np.ndarray:
    """Adjusted p over tests, planned looks and arms; compare with ALPHA."""
    tests = reference.values.shape[1]
    pairs = int(min(len(reference.values), len(arm.values)))
    looks = [n for n in rules.looks if n <= pairs]
    if rules.looks and not looks:
        return np.ones(tests)
    share = dict(zip(rules.looks, stats.look_levels(list(rules.looks), ALPHA))) if looks else {}
    best = np.ones(tests)
    for look in looks or [None]:
        a, b = (reference, arm) if look is None else (reference.first(look), arm.first(look))
        if rules.scheme == "pairs":
            p = stats.max_t_pairs(pair_differences(a, b), seed=rules.seed, draws=rules.draws)
        else:
            p = stats.max_t_boots(a.values, b.values, seed=rules.seed, draws=rules.draws)
        scale = rules.arms_compared * (1.0 if look is None else ALPHA / share[look])
        best = np.minimum(best, p * scale)
    return np.minimum(best, 1.0)


def pair_differences(reference: Side, arm: Side) -> np.ndarray:
    """Arm less reference for every pair that has both."""
    where = {int(pair): row for row, pair in enumerate(reference.pairs)}
    rows = [(where[int(pair)], row) for row, pair in enumerate(arm.pairs) if int(pair) in where]
    if not rows:
        return np.empty((0, reference.values.shape[1]))
    left, right = np.array(rows).T
    return arm.values[right] - reference.values[left]


def _fill(entry: Comparison, interval: stats.Interval, paired: stats.Interval | None) -> None:
    entry.ratio = math.exp(interval.shift)
    entry.interval = _as_ratios(interval)
    entry.coverage = interval.coverage
    if paired is not None:
        low, high = _as_ratios(paired)
        entry.paired = {
            "ratio": math.exp(paired.shift),
            "interval": [low, high],
            "level": paired.coverage,
        }


def _as_ratios(interval: stats.Interval) -> tuple[float | None, float | None]:
    if interval.low is None or interval.high is None:
        return (None, None)
    return (math.exp(interval.low), math.exp(interval.high))


def _decide(
    entry: Comparison,
    interval: stats.Interval,
    n: int,
    rules: Rules,
    floor_effect: float,
    spread: float,
    tests: int,
) -> None:
    if n < 2:
        entry.verdict, entry.why = "none", "one pair shows one pair, not a difference"
        return
    entry.verdict = "undecided"
    if rules.looks and n < rules.looks[0]:
        entry.why = f"{n} pairs; the first planned look is at {rules.looks[0]}"
        entry.pairs_needed = rules.looks[0]
        return
    if n < FEWEST_PAIRS:
        entry.why = f"{n} pairs can never reject: even perfect separation has p = {_chance(n, rules)}"
        entry.pairs_needed = max(6, _pairs_needed(interval, spread, entry.threshold, tests) or 6)
        return
    reached = entry.p is not None and entry.p <= ALPHA
    separate = interval.low is not None and (interval.low > 0 or interval.high < 0)
    if reached and separate and abs(interval.shift) > entry.threshold:
        entry.verdict = "faster" if interval.shift < 0 else "slower"
        entry.why = f"p = {entry.p:.2g} over all tests of the run, effect beyond {_percent(entry)}"
        return
    inside = interval.low is not None and -floor_effect <= interval.low
    if inside and interval.high <= floor_effect and interval.coverage >= LEVEL:
        entry.verdict = "no difference"
        entry.why = f"the interval lies within {100 * rules.minimum_effect:.3g} % either way"
        return
    if stats.smallest_p(n, n, rules.scheme) * rules.arms_compared > ALPHA:
        entry.why = f"{n} pairs cannot reject here: the smallest p is {_chance(n, rules)}"
    elif not reached:
        entry.why = f"p = {entry.p:.2g} over all tests of the run: could be chance"
    elif abs(interval.shift) <= entry.threshold:
        entry.why = f"different, but not shown to be beyond {_percent(entry)}, nor within it"
    else:
        entry.why = "the interval includes no change"
    needed = _pairs_needed(interval, spread, entry.threshold, tests)
    entry.pairs_needed = None if needed is None else max(needed, n + 2 + n % 2)


def _pairs_needed(interval: stats.Interval, spread: float, threshold: float, tests: int) -> int | None:
    return stats.pairs_to_decide(interval.shift, spread, threshold, tests, ALPHA)


def _chance(n: int, rules: Rules) -> str:
    return f"{min(1.0, stats.smallest_p(n, n, rules.scheme) * rules.arms_compared):.2g}"


def _percent(entry: Comparison) -> str:
    return f"{100 * math.expm1(entry.threshold):.3g} %"


def compare_exact(reference: float, arm: float, minimum_effect: float) -> Comparison:
    """icount: two instruction counts, each known to ICOUNT_TOLERANCE."""
    if reference <= 0 or arm <= 0:
        return Comparison(why="one of the arms has no value")
    slack = ICOUNT_TOLERANCE
    low = max(arm - slack, 0.0) / (reference + slack)
    high = (arm + slack) / max(reference - slack, slack)
    entry = Comparison(ratio=arm / reference, interval=(low, high), coverage=1.0)
    entry.threshold = math.log1p(minimum_effect)
    entry.why = f"exact: {arm - reference:+.1f} instructions an operation"
    if abs(arm - reference) > 2 * slack and abs(math.log(arm / reference)) > entry.threshold:
        entry.verdict = "faster" if arm < reference else "slower"
    else:
        entry.verdict = "no difference"
    return entry


def unreliable(reference_faults: int, arm_faults: int) -> str | None:
    """Why an arm's times cannot be trusted next to the other's, or None."""
    more, fewer = max(reference_faults, arm_faults), min(reference_faults, arm_faults)
    if more - fewer < FAULT_EXCESS or stats.one_sided_binomial(more, fewer) > FAULT_CHANCE:
        return None
    return f"guest faults: {reference_faults} in the reference, {arm_faults} in this arm"
