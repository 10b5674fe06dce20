"""The verb `compare`: archived runs, or the points of a run's axes, side by side.

One column a run and axis point, one row a test and arm: the ratio to that run's own reference, its interval and verdict.
What is set side by side is the comparison that each run made within itself, which travels between machines; times do
not, so they are shown only where the machine is the same (kind, CPUs, host CPU, emulator).

A row says "contradict" where one column calls the arm faster and another slower, "apart" where the ratio of two columns'
ratios has an interval without 1, else "overlap": no more is shown than that they may be the same. The ratio of ratios
stands beside it, the one furthest from 1, with its interval: the two runs' own half widths, added as squares. An interval
whose real coverage is below 95 % (fewer than four pairs) is not compared. That is a hint where to look, not a test: of rows
whose truths are the same, one in twenty is apart, and runs differ in more than the column head says, so those differences
are listed first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from rich.table import Table

from . import analyse, calibrate, console as consoles, store, units, verdict
from .errors import EXIT_USAGE, HayloftError
from .report.words import point_text

CLAIMS = {"faster", "slower"}


@dataclass
class Column:
    """One run at one point of its axes."""

    label: str
    results: dict
    point: dict

    def tests(self) -> dict[str, dict]:
        return {test["name"]: test for test in self.results["tests"] if test["point"] == self.point}


@dataclass
class Row:
    test: str
    arm: str
    versus: list[dict | None]  # by column
    times: list[tuple[float | None, float | None]]  # by column: medians of the reference and of the arm
    says: str
    ratio: tuple[float, float, float] | None = None  # of two columns' ratios, and its interval: the furthest from 1


def columns_of(runs: list[tuple[str, dict]]) -> list[Column]:
    """runs: (name, results)."""
    columns = []
    for number, (_, results) in enumerate(runs, 1):
        for point in results["points"]:
            at = point_text(point)
            columns.append(Column(" ".join(word for word in (f"run {number}" if len(runs) > 1 else "", at) if word),
                                  results, point))
    if len(columns) < 2:
        raise HayloftError("one run at one point: there is nothing to set beside it; name a second run, or one with axes",
                           EXIT_USAGE)
    return columns


def rows_of(columns: list[Column]) -> list[Row]:
    tables = [column.tests() for column in columns]
    rows = []
    for test in dict.fromkeys(name for table in tables for name in table):
        for arm in dict.fromkeys(arm for table in tables if test in table for arm in table[test]["versus"]):
            versus = [table[test]["versus"].get(arm) if test in table else None for table in tables]
            if sum(entry is not None for entry in versus) < 2:
                continue
            times = [_times(column, table.get(test), arm) for column, table in zip(columns, tables)]
            known = [entry for entry in versus if entry]
            rows.append(Row(test, arm, versus, times, says(known), ratio_of_ratios(known)))
    if not rows:
        raise HayloftError("these runs have no test and arm in common; nothing can be set side by side", EXIT_USAGE)
    return rows


def _times(column: Column, test: dict | None, arm: str) -> tuple[float | None, float | None]:
    if test is None:
        return None, None
    return tuple(test["arms"].get(name, {}).get("median") for name in (column.results["reference"], arm))


def says(versus: list[dict]) -> str:
    if {entry["verdict"] for entry in versus} >= CLAIMS:
        return "contradict"
    found = [_over(a, b) for a, b in combinations(_sure(versus), 2)]
    if any(low > 1 or high < 1 for _, low, high in found):
        return "apart"
    return "overlap" if found else "too few pairs"


def ratio_of_ratios(versus: list[dict]) -> tuple[float, float, float] | None:
    found = [_over(a, b) for a, b in combinations(_sure(versus), 2)]
    return max(found, key=lambda one: abs(math.log(one[0])), default=None)


def _sure(versus: list[dict]) -> list[dict]:
    """The columns whose interval holds the truth as often as it says."""
    return [entry for entry in versus if None not in entry["interval"] and entry["ratio"]
            and (entry.get("coverage") or 0) >= verdict.LEVEL]


def _over(first: dict, second: dict) -> tuple[float, float, float]:
    (a, (a_low, a_high)), (b, (b_low, b_high)) = (
        (math.log(entry["ratio"]), [math.log(max(end, 1e-300)) for end in entry["interval"]]) for entry in (first, second))
    down, up = math.hypot(b - b_low, a_high - a), math.hypot(b_high - b, a - a_low)
    return math.exp(b - a), math.exp(b - a - down), math.exp(b - a + up)


def differences(runs: list[tuple[str, dict]]) -> list[str]:
    """What else is not the same in these runs: it may be what a difference between columns is about."""
    def told(what, value_of):
        values = [value_of(results) for _, results in runs]
        if all(value == values[0] for value in values):
            return []
        return [f"{what}: " + "; ".join(f"run {number} {value}" for number, value in enumerate(values, 1))]

    out = told("machine", calibrate.hardware) + told("kernel and tool", _git)
    arms = list(dict.fromkeys(arm for _, results in runs for arm in results["arms"]))
    for arm in arms:
        out += told(f"arm {arm}", lambda r, arm=arm: f"`{r['arms'][arm]}`" if arm in r["arms"] else "has none")
    out += told("boot", lambda r: f"`{r.get('boot') or ''}`") + told("settings", lambda r: r.get("settings") or "none")
    return out + told("memory", lambda r: r["machine"].get("memory")) + told("pairs", lambda r: r["pairs"])


def _git(results: dict) -> str:
    git = results.get("git") or {}
    return f"{str(git.get('id') or 'unknown')[:10]}{' with changes' if git.get('dirty') else ''}"


def _cell(versus: dict | None) -> str:
    if versus is None:
        return "–"
    low, high = versus["interval"]
    interval = "" if low is None or high is None else f" ({units.number(low)} … {units.number(high)})"
    return f"{units.number(versus['ratio'])}{interval} {versus['verdict']}"


def _over_text(ratio: tuple[float, float, float] | None) -> str:
    return "–" if ratio is None else f"{units.number(ratio[0])} ({units.number(ratio[1])} … {units.number(ratio[2])})"


def main(names: list[str]) -> int:
    runs = []
    for name in names:
        with store.open_run(name) as found:
            runs.append((Path(found.dir).name, analyse.analyse_run(found.dir)))
    columns = columns_of(runs)
    rows = rows_of(columns)
    console = consoles.console(width=200)
    for number, (name, results) in enumerate(runs, 1):
        console.print(f"run {number}: {name}: {results['title']}", markup=False)
    for line in differences(runs):
        console.print(f"not the same: {line}", markup=False)
    consoles.show(console, _table(columns, rows, lambda row: [_cell(entry) for entry in row.versus], says=True))
    same = len({calibrate.hardware(results) for _, results in runs}) == 1
    if same:
        consoles.show(console, _table(columns, rows,
                                      lambda row: [f"{units.number(a)} → {units.number(b)}" for a, b in row.times]))
    else:
        console.print("times are not set side by side: the machines differ", markup=False)
    return 0


def _table(columns: list[Column], rows: list[Row], cells, says=False) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("test", no_wrap=True)
    table.add_column("arm")
    for column in columns:
        table.add_column(column.label, justify="right")
    if says:
        table.add_column("they")
        table.add_column("ratio of ratios", justify="right")
    for row in rows:
        table.add_row(row.test, row.arm, *cells(row), *([row.says, _over_text(row.ratio)] if says else []))
    return table
