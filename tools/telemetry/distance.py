"""The distance between two CPUs taken out of the times, by the probes that the kernel makes after every round.

A host that moves a virtual CPU to another part of its caches changes what it costs two CPUs to meet, up to five times,
for minutes; the yardstick (pace.py) does not notice. The probe for parallel CPUs does: it is how often a word goes to
another CPU and back. For a test of more than one CPU

    log time of a boot = level of its arm + slope x log time of a round trip

How the slope is found without an arm having a hand in it: boots of a pair differ in arm and follow each other, so most
share the distance. In the mean of a pair the arms' difference is always the same, whichever boot had which label; so the
slope is that of pairs' means over pairs' distances. Where the distance changes within a boot its rounds tell too, each
against its boot's mean. Both are pooled, weighted by how far each lies from its line. Then the slope is shrunk by its own
uncertainty, and kept between 0 (the test does not feel it) and 1. A figure is moved to the run's usual distance.

Why this seldom makes or hides a difference: exchanging the labels of a pair changes neither slope nor usual distance, p is
fitted again under each labelling (stats.py), and the distance is the machine's doing. Whether an arm has a hand in it is
looked at (readings.py), within pairs and within states: `own` is how far a boot's round trips lie from those of its state,
near or far, where the widest gap between all round trips of the run parts the two.

Each arm has a slope of its own too. Where two of them differ by more than chance, one slope would make a difference of its
own. Then the times stand, and `ends` has them at a near and at a far distance, each arm by its own slope: what is said
must hold at both.

Nothing is done where all round trips of a run are alike, for a test of one CPU, or where a round has no probe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import pace

FAR = 2.0  # times as long as another, for a word to go to another CPU and back: not the same distance
UNLIKE = 2.0  # standard errors between the slopes of two arms ...
PLAIN = 0.05  # ... and what that must come to over the run's distances, log scale
ENDS = (0.05, 0.95)  # quantiles of the run's distances that are near and far
APART = 1.5  # the same of whole boots' means, from which on there is something to take out
FEWEST_PAIRS = 4  # that a slope can come from, or rounds beyond the mean of boots in which the distance changed


@dataclass
class Distance:
    """What the probes did for one test."""

    slope: float
    figures: list[list[float | None]]  # by arm and boot, at the run's usual distance
    roundtrip: list[list[float | None]]  # by arm and boot, natural logarithm of milliseconds
    spread: tuple[float, float]  # of boots within arms, log scale, before and after
    own: list[list[float | None]]  # by arm and boot, log scale, against its state
    slopes: list[float | None]  # by arm
    ends: list[list[list[float | None]]] | None  # figures near and far, where the arms' slopes differ


def probes(digest: dict) -> list[dict]:
    """None of a boot whose CPUs could but take turns, or did: that is no distance."""
    parallel = digest.get("parallel") or {}
    return parallel["probes"] if parallel.get("ok") else []


def of_rounds(probes: list[dict], test: str, rounds: int) -> list[float]:
    """The log time of a round trip in each round of a test, in ms; empty where probes and rounds do not match.

    A round lies between two probes. What stops one of them (5 ms, a neighbour takes a core) does not last: the quicker counts.
    """
    after = [at for at, probe in enumerate(probes) if probe.get("when") == test and at > 0]
    rates = [max(probes[at - 1]["rate"], probes[at]["rate"]) for at in after]
    return [-float(np.log(rate)) for rate in rates] if len(rates) == rounds and min(rates, default=0) > 0 else []


def adjust(figures: list[list[float | None]], times: list[list[list[float]]], trips: list[list[list[float]]],
           pairs: list[list[int]]) -> Distance | None:
    """figures, by arm and boot: what is to be moved. times and trips, by arm, boot and round: log times as measured and
    log round trips. pairs, by arm and boot: its pair. None where the distance was the same all along, or is not known."""
    boots = [(arm, row) for arm, values in enumerate(figures) for row, value in enumerate(values) if value]
    if not boots or any(not trips[arm][row] for arm, row in boots):
        return None
    x = {boot: float(np.mean(trips[boot[0]][boot[1]])) for boot in boots}
    y = {boot: float(np.log(figures[boot[0]][boot[1]])) for boot in boots}
    if np.ptp(list(x.values())) < np.log(APART):
        return None
    parts = [_pair_means(x, y, pairs, len(figures)), _changes(times, trips, boots)]
    slope = _slope([part for part in parts if part is not None])
    slopes = [_own_slope(x, y, times, trips, [boot for boot in boots if boot[0] == arm]) for arm in range(len(figures))]
    every = np.concatenate([trips[arm][row] for arm, row in boots])
    ends = None
    if _unlike(slopes, np.ptp(list(x.values()))):
        slope = 0.0
        known = [one[0] if one is not None else 0.0 for one in slopes]
        ends = [_moved(figures, x, y, known, float(np.quantile(every, share))) for share in ENDS]
    moved = _moved(figures, x, y, [slope] * len(figures), float(np.median(every)))
    own = _of_states(trips, boots, every)
    logs = [[[table.get((arm, row)) for row in range(len(values))] for arm, values in enumerate(figures)]
            for table in (x, y, own)]
    after = [[None if value is None else float(np.log(value)) for value in arm] for arm in moved]
    return Distance(slope, moved, logs[0], (pace.spread_within(logs[1]), pace.spread_within(after)), logs[2],
                    [None if one is None else one[0] for one in slopes], ends)


def _moved(figures, x: dict, y: dict, slopes: list[float], to: float) -> list[list[float | None]]:
    return [[None if (arm, row) not in y else float(np.exp(y[arm, row] - slopes[arm] * (x[arm, row] - to)))
             for row in range(len(values))] for arm, values in enumerate(figures)]


def _of_states(trips, boots: list[tuple[int, int]], every: np.ndarray) -> dict:
    """{boot: how far its round trips lie from the middle of their state}."""
    steps = np.sort(every)
    widest = int(np.argmax(np.diff(steps)))
    bar = (steps[widest] + steps[widest + 1]) / 2
    middle = [float(np.median(part)) for part in (every[every <= bar], every[every > bar])]
    return {(arm, row): float(np.mean([one - middle[int(one > bar)] for one in trips[arm][row]])) for arm, row in boots}


def _own_slope(x: dict, y: dict, times, trips, boots: list[tuple[int, int]]) -> tuple[float, float] | None:
    """(slope, its variance) of one arm, from its boots and from its rounds; None where it was at one distance only."""
    parts = []
    if len(boots) > 2 and np.ptp([x[boot] for boot in boots]) >= np.log(APART):
        both = np.array([(x[boot], y[boot]) for boot in boots])
        off = both - both.mean(axis=0)
        parts.append((off[:, 0], off[:, 1], len(boots) - 2))
    parts.append(_changes(times, trips, boots))
    parts = [part for part in parts if part is not None]
    slope, weights = _through(parts)
    return (slope, 1 / weights) if weights else None


def _unlike(slopes: list[tuple[float, float] | None], range_: float) -> bool:
    known = [one for one in slopes if one is not None]
    return any(abs(a - b) > UNLIKE * np.sqrt(va + vb) and abs(a - b) * range_ > PLAIN
               for at, (a, va) in enumerate(known) for b, vb in known[:at])


def _pair_means(x: dict, y: dict, pairs: list[list[int]], arms: int):
    """(deviations of distance, of time, degrees of freedom) of the means of pairs that have all their arms."""
    members: dict[int, list] = {}
    for arm, row in x:
        members.setdefault(pairs[arm][row], []).append((arm, row))
    whole = [boots for boots in members.values() if len({arm for arm, _ in boots}) == len(boots) == arms]
    if len(whole) < FEWEST_PAIRS:
        return None
    means = np.array([(np.mean([x[boot] for boot in boots]), np.mean([y[boot] for boot in boots])) for boots in whole])
    off = means - means.mean(axis=0)
    return off[:, 0], off[:, 1], len(whole) - 2


def _changes(times, trips, boots: list[tuple[int, int]]):
    """The same of rounds about their boot's mean, of the boots in which the distance changed."""
    offs = []
    for arm, row in boots:
        both = np.array([trips[arm][row], times[arm][row]]).T if len(times[arm][row]) == len(trips[arm][row]) else np.empty((0, 2))
        if len(both) and np.ptp(both[:, 0]) >= np.log(FAR):
            offs.append(both - both.mean(axis=0))
    if sum(len(off) - 1 for off in offs) < FEWEST_PAIRS:
        return None
    every = np.concatenate(offs)
    return every[:, 0], every[:, 1], len(every) - len(offs) - 1


def _through(parts: list) -> tuple[float, float]:
    """(slope, weight) of one line through all kinds, each weighted by its own distance from it."""
    weights = top = 0.0
    for x, y, freedom in parts:
        if not x @ x > 0:
            continue
        own = (x @ y) / (x @ x)
        noise = max(float(((y - own * x) ** 2).sum()) / freedom, pace.SLIGHT**2)
        weights += (x @ x) / noise
        top += (x @ y) / noise
    return (top / weights if weights else 0.0), weights


def _slope(parts: list) -> float:
    """The same, shrunk by its uncertainty."""
    slope, weights = _through(parts)
    sure = 1.0 - 1.0 / (weights * slope**2) if slope else 0.0  # how much of its square is not its own variance
    return float(np.clip(slope * max(sure, 0.0), 0.0, 1.0))
