"""Numbers from boots: effect sizes with exact intervals, and run-wide p values.

The sampling unit is one boot; every function here takes one value a boot and test, already on the log
scale unless its name says otherwise. Three ideas:

* The size of an effect is the Hodges-Lehmann shift (the median of all pairwise differences), its
  interval the one that inverts the Mann-Whitney test (Moses). Ranks know only a few coverages, so the
  coverage that the interval really has is part of the result. The paired view is the same with Walsh
  averages and the signed-rank test.
* Whether anything differs is decided for all tests of a run together: Westfall and Young's max-T, which
  permutes the arm labels of whole boots and so keeps the correlation between tests. Step-down, exact
  where the labellings can be listed, else Monte Carlo with the (b + 1) / (m + 1) rule.
* The statistic is a mean difference over (spread + FLOOR). Without the floor the many near-constant or
  two-peaked tests of a run reach absurd values in some labellings and hide a real effect beside them.
* Exchanging labels asks whether the arms are alike, and an arm whose boots only scatter more is not. So a
  difference of means must be shown besides, by Welch's test of unequal spreads, Holm's way over the tests.

What this file does not do: name tests, read files, or decide on verdicts (verdict.py).
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

FLOOR = 0.03  # on the log scale, about 3 %: spread below this does not make an effect more credible
EXACT_LIMIT = 50_000  # at most this many labellings are listed one by one
MONTE_CARLO = 20_000  # else this many are drawn
CHUNK_CELLS = 16_000  # labellings x tests worked on at once: larger temporaries cost page faults (10 x slower)
LEAST_WORTH = 0.02  # of the labels, on which a difference at one reading can still be seen
TIE = 1e-9  # relative: a labelling that equals the observed one but for rounding counts as reached


@dataclass(frozen=True)
class Interval:
    """A shift on the log scale; low and high are None where the ranks cannot bound it."""

    shift: float
    low: float | None
    high: float | None
    coverage: float


# -- effect sizes ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def mann_whitney_tail(n: int, m: int) -> tuple[float, ...]:
    """P(U <= u) for u = 0 .. n*m//2 under equal distributions without ties.

    The counts are the coefficients of the Gaussian binomial, built factor by factor; Python integers,
    since they pass 2**53 already for 30 boots a side.
    """
    size = n * m // 2 + 1
    counts = [0] * size
    counts[0] = 1
    for i in range(1, n + 1):
        for u in range(size - 1, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, size):
            counts[u] += counts[u - i]
    total = math.comb(n + m, n)
    return tuple(c / total for c in itertools.accumulate(counts))


@functools.lru_cache(maxsize=256)
def signed_rank_tail(n: int) -> tuple[float, ...]:
    """P(W <= w) for w = 0 .. n(n+1)/4 under symmetry about zero."""
    size = n * (n + 1) // 4 + 1
    counts = [0] * size
    counts[0] = 1
    for i in range(1, n + 1):
        for w in range(size - 1, i - 1, -1):
            counts[w] += counts[w - i]
    total = 2**n
    return tuple(c / total for c in itertools.accumulate(counts))


def order_bounds(tail: tuple[float, ...], level: float) -> tuple[int, float]:
    """How many values to leave out at each end, and the coverage that this leaves."""
    wanted = (1 - level) / 2
    out = 0
    while out + 1 < len(tail) and tail[out] <= wanted:
        out += 1
    out = max(out - 1, 0)
    return out, 1 - 2 * tail[out]


def _bounded(values: np.ndarray, tail: tuple[float, ...], level: float) -> Interval:
    shift = float(np.median(values))
    if len(values) < 2:
        return Interval(shift, None, None, 0.0)
    out, coverage = order_bounds(tail, level)
    if coverage <= 0:
        return Interval(shift, None, None, 0.0)
    values = np.sort(values)
    return Interval(shift, float(values[out]), float(values[-1 - out]), coverage)


def shift_between(reference: np.ndarray, arm: np.ndarray, level: float = 0.95) -> Interval | None:
    """Hodges-Lehmann shift from reference to arm, with the Moses interval."""
    reference, arm = _present(reference), _present(arm)
    if not len(reference) or not len(arm):
        return None
    differences = (arm[:, None] - reference[None, :]).ravel()
    return _bounded(differences, mann_whitney_tail(len(reference), len(arm)), level)


def shift_of_pairs(differences: np.ndarray, level: float = 0.95) -> Interval | None:
    """The same from within-pair differences: the median of the Walsh averages."""
    differences = _present(differences)
    n = len(differences)
    if not n:
        return None
    upper = np.triu_indices(n)
    walsh = (differences[upper[0]] + differences[upper[1]]) / 2
    return _bounded(walsh, signed_rank_tail(n), level)


def _present(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    return values[np.isfinite(values)]


def pooled_spread(reference: np.ndarray, arm: np.ndarray) -> float:
    """Standard deviation of one boot about its arm's mean; 0 with too few boots."""
    reference, arm = _present(reference), _present(arm)
    degrees = len(reference) + len(arm) - 2
    if degrees < 1 or not len(reference) or not len(arm):
        return 0.0
    squares = np.square(reference - reference.mean()).sum() + np.square(arm - arm.mean()).sum()
    return float(math.sqrt(squares / degrees))


def ratio_of_means(reference: np.ndarray, arm: np.ndarray, level: float = 0.95) -> Interval | None:
    """The logarithm of arm's arithmetic mean over the reference's, with Welch's interval (delta method).

    Takes logarithms as everything here, and means what they are logarithms of: time that all boots took
    together. A few slow boots are in it, which ranks do not see.
    """
    logs = [_present(side) for side in (reference, arm)]
    if not all(len(side) for side in logs):
        return None
    most = [side.max() for side in logs]
    sides = [np.exp(side - top) for side, top in zip(logs, most)]
    shift = float(np.log(sides[1].mean() / sides[0].mean()) + most[1] - most[0])
    if min(map(len, sides)) < 2:
        return Interval(shift, None, None, 0.0)
    parts = [side.var(ddof=1) / len(side) / side.mean() ** 2 for side in sides]
    half = 0.0
    if sum(parts) > 0:
        freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides))
        half = t_quantile(1 - (1 - level) / 2, math.floor(10 * freedom) / 10) * math.sqrt(sum(parts))
    return Interval(shift, shift - half, shift + half, level)


# -- Student's t ----------------------------------------------------------------------------------


def t_two_sided(t: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """P(|T| >= |t|) for Student's T: the regularised incomplete beta function at freedom / (freedom + t^2)."""
    t, freedom = np.broadcast_arrays(np.abs(np.asarray(t, dtype=float)), np.asarray(freedom, dtype=float))
    with np.errstate(over="ignore"):
        x = np.where(np.isfinite(t), freedom / (freedom + np.square(np.where(np.isfinite(t), t, 0.0))), 0.0)
    return _incomplete_beta(freedom / 2, np.full_like(freedom, 0.5), x)


def _incomplete_beta(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """I_x(a, b) by its continued fraction, on the side where that converges fast."""
    turned = x > (a + 1) / (a + b + 2)
    a, b, x = np.where(turned, b, a), np.where(turned, a, b), np.where(turned, 1 - x, x)
    inside = (x > 0) & (x < 1)
    y = np.where(inside, x, 0.5)
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    front = np.exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * np.log(y) + b * np.log1p(-y)) / a
    value = np.where(inside, front * _beta_fraction(a, b, y), x)
    return np.where(turned, 1 - value, value)


def _beta_fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Lentz's way."""
    tiny = 1e-300
    c = np.ones_like(x)
    d = 1 / np.maximum(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 200):
        for step in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 / np.where(np.abs(1 + step * d) < tiny, tiny, 1 + step * d)
            c = np.where(np.abs(1 + step / c) < tiny, tiny, 1 + step / c)
            value = value * d * c
        if np.all(np.abs(d * c - 1) < 1e-14):
            break
    return value


@functools.lru_cache(maxsize=4096)
def t_quantile(share: float, freedom: float) -> float:
    """What Student's T stays under in this share of cases, from a half on; by halving."""
    low, high = 0.0, 2.0
    while float(t_two_sided(high, freedom)) / 2 > 1 - share:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(t_two_sided(middle, freedom)) / 2 > 1 - share else (low, middle)
    return high


def welch_p(reference: np.ndarray, arm: np.ndarray) -> np.ndarray:
    """p of a difference of means for each column, whatever each arm's spread; 1 where an arm has fewer than two.

    The degrees of freedom lie half way between Satterthwaite's and those of the smaller side. His are estimated from the
    same spreads, and too many just where the spread of the noisy arm came out small: with four boots and forty tests he
    claims in 9 % of runs, this in 6.
    """
    parts = []
    for side in (reference, arm):
        mask = np.isfinite(side)
        count = mask.sum(axis=0)
        mean = np.where(mask, side, 0.0).sum(axis=0) / np.maximum(count, 1)
        squares = np.square(np.where(mask, side - mean, 0.0)).sum(axis=0)
        parts.append((count, mean, squares / np.maximum(count - 1, 1) / np.maximum(count, 1)))
    (n, mean_n, var_n), (m, mean_m, var_m) = parts
    difference, error = np.abs(mean_m - mean_n), var_n + var_m
    slight = 1e-9 * np.maximum(np.abs(mean_n), np.abs(mean_m))  # rounding of values that are all the same
    error = np.where(np.sqrt(error) > slight, error, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, difference / np.sqrt(error), np.where(difference > slight, np.inf, 0.0))
        freedom = np.where(error > 0, np.square(error) / (np.square(var_n) / np.maximum(n - 1, 1)
                                                         + np.square(var_m) / np.maximum(m - 1, 1)), 1.0)
    freedom = (freedom + np.minimum(n, m) - 1) / 2
    return np.where((n > 1) & (m > 1), t_two_sided(t, np.maximum(freedom, 1.0)), 1.0)


def holm(p: np.ndarray) -> np.ndarray:
    """Adjusted over the columns: the chance of any false one is kept, whatever the dependence between them."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


# -- run-wide p values ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def labellings(n_reference: int, n_arm: int, seed: int, draws: int) -> tuple[np.ndarray, bool]:
    """0/1 rows that say which boots are called 'arm', and whether the rows are all there are.

    With equal sides, calling the arms the other way round gives the same statistic, so boot 0 may stay
    in the reference: half the list, the same p.
    """
    total = n_reference + n_arm
    if math.comb(total, n_arm) <= EXACT_LIMIT:
        fixed = 1 if n_reference == n_arm else 0
        chosen = list(itertools.combinations(range(fixed, total), n_arm))
        rows = np.zeros((len(chosen), total))
        np.put_along_axis(rows, np.array(chosen, dtype=int).reshape(len(chosen), n_arm), 1.0, axis=1)
        return rows, True
    picks = np.random.default_rng(seed).random((draws, total)).argpartition(n_arm, axis=1)[:, :n_arm]
    rows = np.zeros((draws, total))
    np.put_along_axis(rows, picks, 1.0, axis=1)
    return rows, False


@functools.lru_cache(maxsize=16)
def sign_flips(pairs: int, seed: int, draws: int) -> tuple[np.ndarray, bool]:
    """+1/-1 rows for the within-pair scheme; all of them (half, by symmetry) where few."""
    if 2 ** (pairs - 1) <= EXACT_LIMIT:
        codes = np.arange(2 ** (pairs - 1))[:, None]
        bits = (codes >> np.arange(pairs - 1)) & 1
        return np.hstack([np.ones((len(codes), 1)), 1.0 - 2.0 * bits]), True
    draw = np.random.default_rng(seed).integers(0, 2, size=(draws, pairs))
    return 1.0 - 2.0 * draw, False


class _BootStatistic:
    """|difference of means| / (pooled standard error + floor), for rows of arm labels.

    Where a column has a reading (values of a second kind, one a boot), the difference is that of means at one reading, the
    slope fitted within the arms of each labelling anew: with both kept to what the reading leaves of them, the same formula.
    """

    def __init__(self, values: np.ndarray, floor: float, readings: np.ndarray | None = None):
        self.mask = np.isfinite(values).astype(float)
        self.count = self.mask.sum(axis=0)
        self.floor = floor
        self.values = self._centred(values)  # so that the sums of squares do not cancel
        self.readings, self.fitted = None, np.zeros(values.shape[1])
        if readings is not None:
            self._take_out(self._centred(readings))
        self.total_squares = np.square(self.values).sum(axis=0)
        self.complete = bool(self.mask.all())

    def _centred(self, values: np.ndarray) -> np.ndarray:
        values = np.where((self.mask > 0) & np.isfinite(values), values, 0.0)
        return (values - values.sum(axis=0) / np.maximum(self.count, 1)) * self.mask

    def _take_out(self, readings: np.ndarray) -> None:
        squares = np.square(readings).sum(axis=0)
        self.fitted = (squares > 1e-12).astype(float)
        self.readings = readings / np.sqrt(np.where(self.fitted > 0, squares, 1.0)) * self.fitted
        self.values = self.values - self.readings * (self.readings * self.values).sum(axis=0)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if self.complete:
            n_arm = rows.sum(axis=1, keepdims=True)
        else:
            n_arm = rows @ self.mask
        n_reference = self.count - n_arm
        freedom = self.count - 2 - self.fitted
        usable = (n_arm > 0) & (n_reference > 0) & (freedom > 0)
        n_arm, n_reference = np.maximum(n_arm, 1), np.maximum(n_reference, 1)
        # what the labels are worth: less where the reading goes with them
        worth = whole = n_arm * n_reference / (n_arm + n_reference)
        if self.readings is not None:
            worth = whole - np.square(rows @ self.readings)
            usable = usable & (worth > LEAST_WORTH * whole)
            worth = np.maximum(worth, LEAST_WORTH * whole)
        sums = rows @ self.values  # of the two sides they are opposite
        within = np.maximum(self.total_squares - np.square(sums) / worth, 0.0)
        spread = np.sqrt(within / np.maximum(freedom, 1))
        return np.where(usable, np.abs(sums) / np.sqrt(worth) / (spread + self.floor), 0.0)


class _PairStatistic:
    """|mean difference| / (its standard error + floor), for rows of signs."""

    def __init__(self, differences: np.ndarray, floor: float):
        mask = np.isfinite(differences)
        self.differences = np.where(mask, differences, 0.0)
        self.count = mask.sum(axis=0).astype(float)
        self.squares = np.square(self.differences).sum(axis=0)
        self.floor = floor

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        count = np.maximum(self.count, 1)
        mean = rows @ self.differences / count
        within = np.maximum(self.squares - count * np.square(mean), 0.0)
        spread = np.sqrt(within / np.maximum(count - 1, 1)) / math.sqrt(2)  # of one boot, not of a pair
        return np.where(self.count > 1, np.abs(mean) / ((spread + self.floor) * np.sqrt(2 / count)), 0.0)


def _max_t(statistic, observed_row: np.ndarray, rows: np.ndarray, exact: bool) -> np.ndarray:
    """Step-down max-T: each test is measured against the largest of itself and all weaker ones."""
    observed = statistic(observed_row[None, :])[0]
    order = np.argsort(-observed, kind="stable")
    bar = observed[order] * (1 - TIE)
    reached = np.zeros(len(order))
    step = max(1, CHUNK_CELLS // max(len(order), 1))
    for start in range(0, len(rows), step):
        drawn = statistic(rows[start : start + step])[:, order]
        largest = np.maximum.accumulate(drawn[:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= bar).sum(axis=0)
    p = reached / len(rows) if exact else (reached + 1) / (len(rows) + 1)
    p = np.where(observed[order] > 0, np.maximum.accumulate(p), 1.0)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(p, 1.0)
    return adjusted


def max_t_boots(
    reference: np.ndarray,
    arm: np.ndarray,
    floor: float = FLOOR,
    seed: int = 1,
    draws: int = MONTE_CARLO,
    readings: np.ndarray | None = None,
) -> np.ndarray:
    """Adjusted p for each column; rows are boots. Boots are exchanged between the two arms at will, each with its reading
    (reference's rows, then arm's)."""
    values = np.vstack([reference, arm])
    observed = np.concatenate([np.zeros(len(reference)), np.ones(len(arm))])
    if not len(reference) or not len(arm) or not values.shape[1]:
        return np.ones(values.shape[1])
    rows, exact = labellings(len(reference), len(arm), seed, draws)
    return _max_t(_BootStatistic(values, floor, readings), observed, rows, exact)


def max_t_pairs(
    differences: np.ndarray, floor: float = FLOOR, seed: int = 1, draws: int = MONTE_CARLO
) -> np.ndarray:
    """Adjusted p for each column; rows are pairs, arm less reference. Arms swap within a pair only."""
    if not differences.size:
        return np.ones(differences.shape[1])
    rows, exact = sign_flips(len(differences), seed, draws)
    return _max_t(_PairStatistic(differences, floor), np.ones(len(differences)), rows, exact)


def smallest_p(n_reference: int, n_arm: int, scheme: str = "boots") -> float:
    """The p that even the clearest effect cannot undercut."""
    if scheme == "pairs":
        return 2.0 ** (1 - min(n_reference, n_arm)) if min(n_reference, n_arm) else 1.0
    if not n_reference or not n_arm:
        return 1.0
    return min(1.0, (2 if n_reference == n_arm else 1) / math.comb(n_reference + n_arm, n_arm))


# -- planning -------------------------------------------------------------------------------------


def look_levels(looks: list[int], alpha: float = 0.05) -> list[float]:
    """How much of alpha each planned look may spend: in proportion to the pairs it adds.

    The sum is alpha, so the chance of any false verdict over all looks is at most alpha, whatever the
    dependence between them.
    """
    last = looks[-1]
    return [alpha * (now - before) / last for before, now in zip([0] + looks[:-1], looks)]


def pairs_to_decide(
    shift: float, spread: float, threshold: float, tests: int, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """About how many pairs would turn *undecided* into a verdict; None if more than 1000.

    An effect beyond the threshold must be told from zero among all tests; one inside it needs an
    interval that fits inside the threshold. Normal theory: a plan, not a promise. Always even, since
    even numbers balance an abba order.
    """
    normal = NormalDist()
    spread = max(spread, FLOOR / 3)
    size = abs(shift)
    if size > threshold:
        z = normal.inv_cdf(1 - alpha / (2 * max(tests, 1))) + normal.inv_cdf(power)
        need = 2 * (z * (spread + FLOOR) / size) ** 2
    elif threshold > size:
        z = normal.inv_cdf(1 - alpha / 2)
        need = 2 * (z * spread / (threshold - size)) ** 2
    else:
        return None
    if need > 1000:
        return None
    return max(6, 2 * math.ceil(need / 2))


def one_sided_binomial(more: int, fewer: int) -> float:
    """P(at least `more` of more + fewer events fall on one given side) if both sides are alike."""
    total = more + fewer
    return sum(math.comb(total, k) for k in range(more, total + 1)) / 2**total
