"""The method's operating characteristics, by simulation: how often arms that are alike are said to differ, and how often
a difference that is there is found. Prints the tables that stand in docs/STATISTICS.md:

    /usr/bin/python3 tests/tool/characteristics.py

Every row has a seed of its own, made from its name, so the table repeats to the digit and any row can be made alone
(test_characteristics.py does both). Noise as in test_simulation.py: 40 tests a run that share part of it.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tools")]
import hard_cases  # noqa: E402
from telemetry import verdict  # noqa: E402
from test_distance import judged  # noqa: E402
from test_simulation import CLAIMS, company, machine_history, quick_claim, side  # noqa: E402

NOISE = {"tails": "heavy tails", "peaks": "two peaks"}
HISTORIES = {
    "a drift of 2 % a boot": lambda place, slot: 0.02 * place,
    "15 % for who boots first": lambda place, slot: -0.15 if slot == 0 else 0.0,
    "both": lambda place, slot: 0.02 * place - (0.15 if slot == 0 else 0.0),
}
ALIKE_RUNS, EFFECT_RUNS = 2000, 400


@dataclass(frozen=True)
class Row:
    """One line of a table: alike arms in some noise, or one test of forty with an effect in it."""

    noise: str
    pairs: int
    scheme: str = "boots"
    minimum: float = 0.20
    effect: float = 1.0  # B's time over A's; 1: the arms are alike

    def rng(self):
        return np.random.default_rng(zlib.crc32(repr(self).encode()))

    def rules(self):
        return verdict.Rules(minimum_effect=self.minimum, scheme=self.scheme, draws=2000)


def alike_rows():
    return [Row(noise, pairs, scheme, minimum) for minimum in (0.0, 0.20) for scheme in ("boots", "pairs")
            for noise in NOISE for pairs in (4, 6, 8, 12) if scheme == "boots" or pairs >= 6] + [
        Row(history, 6, scheme, 0.0) for scheme in ("boots", "pairs") for history in HISTORIES]


def effect_rows():
    return [Row(noise, pairs, effect=effect) for noise in NOISE for effect in (1.1, 1.25, 1.5, 2.0)
            for pairs in (4, 6, 8, 12, 30) if pairs < 30 or effect < 1.5]


def alike(row, runs=ALIKE_RUNS):
    """In how many of so many runs any of the 40 tests was called faster or slower."""
    rng, rules, claims = row.rng(), row.rules(), 0
    for _ in range(runs):
        if row.noise in NOISE:
            x = company(rng, 2 * row.pairs, row.noise)
            a, b = x[: row.pairs], x[row.pairs :]
        else:
            a, b = machine_history(rng, row.pairs, HISTORIES[row.noise])
        claims += quick_claim(a, b, rules)
    return claims


def found(row, runs=EFFECT_RUNS):
    """Of so many runs, the verdicts on the one test that has 5 % noise and the effect: {verdict: runs}."""
    rng, rules, verdicts = row.rng(), row.rules(), {}
    for _ in range(runs):
        a, b = company(rng, row.pairs, row.noise), company(rng, row.pairs, row.noise)
        a[:, 0] = 0.05 * rng.standard_normal(row.pairs)
        b[:, 0] = 0.05 * rng.standard_normal(row.pairs) + np.log(row.effect)
        said = verdict.compare(side(a), side(b), rules)[0].verdict
        verdicts[said] = verdicts.get(said, 0) + 1
    assert set(verdicts) <= {*CLAIMS, "no difference", "undecided"}, verdicts
    return verdicts


@dataclass(frozen=True)
class Moved:
    """One test of two CPUs whose host moves them, as measured or with the distance taken out (distance.py)."""

    effect: float
    pairs: int
    adjusted: bool

    def rules(self):
        return verdict.Rules(minimum_effect=0.0 if self.effect == 1.0 else 0.20)

    def runs(self):
        return ALIKE_RUNS if self.effect == 1.0 else EFFECT_RUNS


def moved_rows():
    return [Moved(effect, pairs, adjusted) for effect in (1.0, 1.1, 1.25, 1.5, 2.0) for pairs in (4, 6, 12)
            for adjusted in (False, True)]


def moved(row):
    """The verdicts on so many runs. As measured and adjusted are of the same runs: the seed does not know which."""
    rng, verdicts = np.random.default_rng(zlib.crc32(f"moved {row.effect} {row.pairs}".encode())), {}
    for _ in range(row.runs()):
        said = judged(rng, row.effect, row.rules(), row.pairs, row.adjusted)
        verdicts[said] = verdicts.get(said, 0) + 1
    return verdicts


def percent(part, whole):
    return f"{100 * part / whole:.1f}"


def alike_line(row, claims, runs=ALIKE_RUNS):
    return (f"| {NOISE.get(row.noise, row.noise)} | {row.pairs} | {row.scheme} | {row.minimum:.2f} "
            f"| {percent(claims, runs)} |")


def effect_line(row, verdicts, runs=EFFECT_RUNS):
    right, wrong = (percent(verdicts.get(said, 0), runs) for said in ("slower", "faster"))
    return (f"| {NOISE[row.noise]} | {row.effect:.2f} | {row.pairs} | {right} | {wrong} "
            f"| {percent(verdicts.get('no difference', 0), runs)} | {percent(verdicts.get('undecided', 0), runs)} |")


def moved_line(row, verdicts):
    said = (percent(verdicts.get(one, 0), row.runs()) for one in ("slower", "faster", "no difference", "undecided"))
    return f"| {row.effect:.2f} | {row.pairs} | {'taken out' if row.adjusted else 'as measured'} | {' | '.join(said)} |"


MOVED_HEAD = ("| B/A | pairs | distance | slower | faster | no difference | undecided |\n"
              "|---|---|---|---|---|---|---|")
ALIKE_HEAD = "| noise | pairs | scheme | minimum effect | % of runs with any claim |\n|---|---|---|---|---|"
EFFECT_HEAD = ("| noise of the other tests | B/A | pairs | slower | faster | no difference | undecided |\n"
               "|---|---|---|---|---|---|---|")


def main():
    print(ALIKE_HEAD)
    for row in alike_rows():
        print(alike_line(row, alike(row)), flush=True)
    print("\n" + EFFECT_HEAD)
    for row in effect_rows():
        print(effect_line(row, found(row)), flush=True)
    print("\n" + MOVED_HEAD)
    for row in moved_rows():
        print(moved_line(row, moved(row)), flush=True)
    print("\n" + hard_cases.HEAD)
    for case in hard_cases.CASES:
        print(hard_cases.line(case, hard_cases.said(case)), flush=True)


if __name__ == "__main__":
    main()
