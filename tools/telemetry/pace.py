"""The pace of the machine taken out of the times, by the yardstick that the kernel holds beside every round.

A core that shares its hardware with somebody else's work runs the same code at two speeds, up to 2 apart, for a second
or for minutes. The kernel times a fixed piece of work on each CPU of a round just before and just after it. Over
the rounds of one boot the same code ran at several paces, so they tell how far a test's time follows the yardstick:

    log time of a round = level of the boot + slope x log yardstick of the round

The slope is fitted to the deviations of rounds from their own boot's mean, all boots together, and kept between 0 (the
test does not feel it) and 1. A boot's figure is then the mean of its rounds at the middle pace of the run. Why this
cannot make or hide a difference: slope and middle pace use no arm's name, so exchanging arms, which is what the test of
significance does, changes neither; and the yardstick allocates nothing, so an arm has no hand in it. Whether that holds
is looked at: a yardstick that itself differs between arms is a warning.

A reading is taken for no more than STALL times the quick ones (their tenth part): sharing a core cannot do more, the host
running something else can, and says nothing about the round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

STALL = 2.0
QUICK = 0.1  # the quantile of a test's readings that stands for an undisturbed core
LEAST_FREEDOM = 10  # rounds beyond one a boot; with fewer the slope would be noise
SLIGHT = 0.02  # on the log scale: differences of pace that are not worth a slope


@dataclass
class Pace:
    """What the yardstick did for one test."""

    slope: float  # 0: the times stand as they were measured
    figures: list[list[float | None]]  # by arm and boot, as given, at the run's middle pace
    yardstick: list[list[float | None]]  # the boots' own readings, natural logarithm
    spread: tuple[float, float] = field(default=(0.0, 0.0))  # of boots within arms, log scale, before and after


def readings(round_: dict) -> list[float]:
    """All readings of a round, in ticks; empty where it has none or not one from every CPU."""
    rows = round_.get("yardstick") or []
    values = [value for row in rows for value in row[1:]]
    return values if values and min(values) > 0 and len(rows) == len(round_.get("cpus") or []) else []


def adjust(boots: list[list[list[dict]]], key: str) -> Pace | None:
    """boots: by arm, by boot, the rounds of one test. None where the yardstick is missing or says too little."""
    usable = [[[(r[key], readings(r)) for r in rounds if r.get(key)] for rounds in arm] for arm in boots]
    every = [pair for arm in usable for rounds in arm for pair in rounds]
    if not every or not all(read for _, read in every):
        return None
    ceiling = np.log(STALL) + np.quantile([np.log(value) for _, read in every for value in read], QUICK)
    logs = [[np.array([(np.log(time), np.minimum(np.log(read), ceiling).mean()) for time, read in rounds]).reshape(-1, 2)
             for rounds in arm] for arm in usable]
    filled = [rounds for arm in logs for rounds in arm if len(rounds)]
    if sum(len(rounds) - 1 for rounds in filled) < LEAST_FREEDOM:
        return None
    off = np.concatenate([rounds - rounds.mean(axis=0) for rounds in filled])
    slope = float(np.clip(off[:, 0] @ off[:, 1] / (off[:, 1] @ off[:, 1] + len(off) * SLIGHT**2), 0.0, 1.0))
    middle = float(np.median([rounds[:, 1].mean() for rounds in filled]))
    means = [[rounds.mean(axis=0) if len(rounds) else None for rounds in arm] for arm in logs]
    raw = [[None if mean is None else mean[0] for mean in arm] for arm in means]
    level = [[None if mean is None else mean[0] - slope * (mean[1] - middle) for mean in arm] for arm in means]
    return Pace(slope, [[None if one is None else float(np.exp(one)) for one in arm] for arm in level],
                [[None if mean is None else float(mean[1]) for mean in arm] for arm in means],
                (spread_within(raw), spread_within(level)))


def spread_within(arms: list[list[float | None]]) -> float:
    """Standard deviation of boots within their arms."""
    offs = [np.array(known) - np.mean(known) for arm in arms if len(known := [v for v in arm if v is not None]) > 1]
    freedom = sum(len(off) - 1 for off in offs)
    return float(np.sqrt(sum((off**2).sum() for off in offs) / freedom)) if freedom else 0.0
