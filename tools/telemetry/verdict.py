"""Verdicts: what may be said about an arm, from the boots of a run.

faster, slower  the run-wide test rejects, the interval excludes no change, and the estimated effect exceeds both
                the minimum effect and this machine's own calibrated noise. Where the whole interval does, the
                effect is said to lie beyond it, else to be estimated there
no difference   the interval lies inside the minimum effect, and so does that of the arithmetic means: an effect
                that only some boots or rounds have is in those
undecided       neither; with the number of pairs that would probably decide it
unreliable      one arm fails clearly more often than the other, so its times are those of the survivors
refused         this kind of machine cannot show such a difference
none            a single pair: nothing can be said

Only times are called faster or slower (a ratio below 1 is faster); a counter is *changed* or not. The
rules are the ones written in the experiment file before any boot: number of pairs or planned looks,
scheme, minimum effect. A planned look is reached when so many pairs were booted, whether or not each gave every arm
a boot; what a look says is about the pairs up to it, at its share of the error rate. Under icount nothing is random,
so there is no p: the difference is exact.

What this file does not do: read archives, or put verdicts into words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from . import stats

LEVEL = 0.95
ALPHA = 0.05
LARGEST = 700.0  # the logarithm of about the largest number there is
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
    """One arm's boots: values[boot, test] on the log scale, and each boot's pair number. means: the same of the arithmetic
    means of a boot's rounds, where they are known. readings: what was taken out of a test's values, such as the distance
    between CPUs, NaN in columns that nothing was taken out of: p is then fitted again under each labelling."""

    values: np.ndarray
    pairs: np.ndarray
    means: np.ndarray | None = None
    readings: np.ndarray | None = None

    def first(self, pairs: int) -> "Side":
        keep = self.pairs <= pairs
        return Side(self.values[keep], self.pairs[keep],
                    *(None if table is None else table[keep] for table in (self.means, self.readings)))

    def throughput(self) -> np.ndarray:
        return self.values if self.means is None else self.means


@dataclass
class Comparison:
    """One test, one arm against the reference. Ratios, not logarithms; None where there is no number."""

    ratio: float | None = None
    interval: tuple[float | None, float | None] = (None, None)
    level: float = LEVEL
    coverage: float = 0.0
    p: float | None = None
    beyond: bool = False  # the whole interval lies beyond the threshold
    means: dict | None = None  # ratio and interval of arithmetic means
    paired: dict | None = None
    verdict: str = "none"
    why: str = ""
    threshold: float = 0.0
    pairs_needed: int | None = None
    notes: list[str] = field(default_factory=list)


def compare(
    reference: Side, arm: Side, rules: Rules, noise: np.ndarray | None = None, made: int | None = None
) -> list[Comparison]:
    """Judges every column (test) of one family; noise is the calibrated |ln ratio| of A/A, or NaN. made: how many pairs
    were booted, those included that gave no boot."""
    tests = reference.values.shape[1]
    looks = looks_reached(reference, arm, rules, made)
    level = LEVEL
    p = family_p(reference, arm, rules, made)
    if looks:
        reference, arm = reference.first(looks[-1]), arm.first(looks[-1])
        level = 1 - _shares(rules)[looks[-1]]
    differences = pair_differences(reference, arm)
    floor_effect = math.log1p(rules.minimum_effect)
    out = []
    for t in range(tests):
        a, b = reference.values[:, t], arm.values[:, t]
        interval = stats.shift_between(a, b, level)
        entry = Comparison(p=None if interval is None else float(p[t]), level=level)
        entry.threshold = floor_effect
        if noise is not None and np.isfinite(noise[t]):
            entry.threshold = max(floor_effect, float(noise[t]))
        if interval is not None:
            means = stats.ratio_of_means(reference.throughput()[:, t], arm.throughput()[:, t], level)
            _fill(entry, interval, stats.shift_of_pairs(differences[:, t], LEVEL), means)
            n = min(int(np.isfinite(a).sum()), int(np.isfinite(b).sum()))
            seen = _Seen(interval, means, n, stats.pooled_spread(a, b), tests, bool(rules.looks and not looks))
            _decide(entry, seen, rules, floor_effect)
        else:
            entry.why = "one of the arms has no value"
        out.append(entry)
    return out


def looks_reached(reference: Side, arm: Side, rules: Rules, made: int | None = None) -> list[int]:
    """A boot that was lost does not put a look off: the pair was booted."""
    if made is None:
        made = int(max([0, *reference.pairs, *arm.pairs]))
    return [look for look in rules.looks if look <= made]


def _shares(rules: Rules) -> dict[int, float]:
    return dict(zip(rules.looks, stats.look_levels(list(rules.looks), ALPHA)))


def family_p(reference: Side, arm: Side, rules: Rules, made: int | None = None) -> np.ndarray:
    """Adjusted p over tests, planned looks and arms; compare with ALPHA. It is the larger of two: labels exchanged, and,
    unless arms are exchanged within pairs only, Welch's, since an arm that scatters more is no slower for that."""
    looks = looks_reached(reference, arm, rules, made)
    best = np.ones(reference.values.shape[1])
    if rules.looks and not looks:
        return best
    for look in looks or [None]:
        a, b = (reference, arm) if look is None else (reference.first(look), arm.first(look))
        if rules.scheme == "pairs":
            p = stats.max_t_pairs(pair_differences(a, b), seed=rules.seed, draws=rules.draws)
        else:
            readings = None if a.readings is None or b.readings is None else np.vstack([a.readings, b.readings])
            p = stats.max_t_boots(a.values, b.values, seed=rules.seed, draws=rules.draws, readings=readings)
            p = np.maximum(p, stats.holm(stats.welch_p(a.values, b.values)))
        scale = rules.arms_compared * (1.0 if look is None else ALPHA / _shares(rules)[look])
        best = np.minimum(best, p * scale)
    return np.minimum(best, 1.0)


def rows_by_pair(blocks: list[tuple[list[int], np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """(values, pairs) of several tables side by side, each given with the pair of each of its rows: one row a pair, NaN
    where a table has none of it. So the points of an axis are one family: labels are exchanged for all points of a pair
    together, since boots of one pair number follow each other."""
    # a pair has one boot of an arm; in a damaged archive the second of one has a row of its own
    places = [[(pair, pairs[:row].count(pair)) for row, pair in enumerate(pairs)] for pairs, _ in blocks]
    every = sorted({place for block in places for place in block})
    where = {place: row for row, place in enumerate(every)}
    values = np.full((len(every), sum(table.shape[1] for _, table in blocks)), np.nan)
    at = 0
    for block, (_, table) in zip(places, blocks):
        values[[where[place] for place in block], at : at + table.shape[1]] = table
        at += table.shape[1]
    return values, np.array([pair for pair, _ in every], dtype=int)


def pair_differences(reference: Side, arm: Side) -> np.ndarray:
    """Arm less reference for every pair that has both."""
    where = {int(pair): row for row, pair in enumerate(reference.pairs)}
    rows = [(where[int(pair)], row) for row, pair in enumerate(arm.pairs) if int(pair) in where]
    if not rows:
        return np.empty((0, reference.values.shape[1]))
    left, right = np.array(rows).T
    return arm.values[right] - reference.values[left]


@dataclass(frozen=True)
class _Seen:
    """What a verdict on one test is made from, besides p."""

    interval: stats.Interval
    means: stats.Interval | None  # of the arithmetic means
    n: int  # boots of the arm that has fewer
    spread: float
    tests: int  # in the family
    early: bool  # before the first planned look


def _fill(entry: Comparison, interval: stats.Interval, paired: stats.Interval | None,
          means: stats.Interval | None) -> None:
    entry.ratio = _ratio(interval.shift)
    entry.interval = _as_ratios(interval)
    entry.coverage = interval.coverage
    if means is not None:
        entry.means = {"ratio": _ratio(means.shift), "interval": list(_as_ratios(means))}
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
    return (_ratio(interval.low), _ratio(interval.high))


def _ratio(shift: float) -> float:
    return math.exp(min(shift, LARGEST))


def _decide(entry: Comparison, seen: _Seen, rules: Rules, floor_effect: float) -> None:
    n, interval = seen.n, seen.interval
    if n < 2:
        entry.verdict, entry.why = "none", "one pair shows one pair, not a difference"
        return
    entry.verdict = "undecided"
    if seen.early:
        entry.why = f"{n} pairs; the first planned look is at {rules.looks[0]}"
        entry.pairs_needed = rules.looks[0]
        return
    if n < FEWEST_PAIRS:
        entry.why = f"{n} pairs can never reject: even perfect separation has p = {_chance(n, rules)}"
        entry.pairs_needed = max(6, _pairs_needed(seen, entry.threshold) or 6)
        return
    reached = entry.p is not None and entry.p <= ALPHA
    separate = interval.low is not None and (interval.low > 0 or interval.high < 0)
    if reached and separate and abs(interval.shift) > entry.threshold:
        entry.verdict = "faster" if interval.shift < 0 else "slower"
        nearest = min(abs(interval.low), abs(interval.high))
        entry.beyond = nearest > entry.threshold
        entry.why = f"p = {entry.p:.2g} over all tests of the run, " + (
            f"and the whole interval lies beyond {_percent(entry.threshold)}" if entry.beyond else
            f"effect estimated beyond {_percent(entry.threshold)}; the interval reaches down to {_percent(nearest)}")
        return
    if _inside(interval, floor_effect) and interval.coverage >= entry.level:
        if seen.means is not None and _inside(seen.means, floor_effect):
            entry.verdict = "no difference"
            entry.why = f"the interval lies within {100 * rules.minimum_effect:.3g} % either way"
            return
        entry.why = _in_a_part(entry, seen.means, reached)
    elif stats.smallest_p(n, n, rules.scheme) * rules.arms_compared > ALPHA:
        entry.why = f"{n} pairs cannot reject here: the smallest p is {_chance(n, rules)}"
    elif not reached:
        entry.why = f"p = {entry.p:.2g} over all tests of the run: could be chance"
    elif abs(interval.shift) <= entry.threshold:
        entry.why = f"different, but not shown to be beyond {_percent(entry.threshold)}, nor within it"
    else:
        entry.why = "the interval includes no change"
    needed = _pairs_needed(seen, entry.threshold)
    entry.pairs_needed = None if needed is None else max(needed, n + 2 + n % 2)


def _inside(interval: stats.Interval, effect: float) -> bool:
    return interval.low is not None and -effect <= interval.low and interval.high <= effect


def _in_a_part(entry: Comparison, means: stats.Interval | None, reached: bool) -> str:
    """Most boots are alike, and the sum of all is not shown to be."""
    if means is None or means.low is None:
        return "most boots are alike, but the arithmetic means cannot be compared"
    low, high = _as_ratios(means)
    differ = f"p = {entry.p:.2g}, so the arms differ, though most boots are alike" if reached else "most boots are alike"
    return (f"{differ}; the arithmetic means, which a few slow boots or rounds move, have the ratio {_ratio(means.shift):.3g} "
            f"({low:.3g} to {high:.3g})")


def _pairs_needed(seen: _Seen, threshold: float) -> int | None:
    return stats.pairs_to_decide(seen.interval.shift, seen.spread, threshold, seen.tests, ALPHA)


def _chance(n: int, rules: Rules) -> str:
    return f"{min(1.0, stats.smallest_p(n, n, rules.scheme) * rules.arms_compared):.2g}"


def _percent(effect: float) -> str:
    return f"{100 * math.expm1(effect):.3g} %"


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


def unreliable(reference_faults: int, arm_faults: int, void: str = "") -> str | None:
    """Why an arm's times cannot be trusted next to the other's, or None. void: boots thrown away besides, in words."""
    more, fewer = max(reference_faults, arm_faults), min(reference_faults, arm_faults)
    if more - fewer < FAULT_EXCESS or stats.one_sided_binomial(more, fewer) > FAULT_CHANCE:
        return None
    return (f"guest faults: {reference_faults} in the reference, {arm_faults} in this arm"
            + (f"; void besides: {void}" if void else ""))


def survives_loss(reference: np.ndarray, arm: np.ndarray, excess: int, minimum_effect: float, level: float) -> bool:
    """Whether *no difference* would still be said, had the boots that one arm lost beyond the other been slower than any: who
    runs out of time is thrown away for being slow. excess: of the arm, or less than 0 of the reference."""
    lost = np.full(abs(excess), LARGEST)
    sides = (reference, np.concatenate([arm, lost])) if excess > 0 else (np.concatenate([reference, lost]), arm)
    interval = stats.shift_between(*sides, level)
    return interval is not None and _inside(interval, math.log1p(minimum_effect))
