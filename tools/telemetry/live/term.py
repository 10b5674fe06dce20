"""The live view for a plain terminal: bars and sparklines with rich.

On a terminal that can move its cursor the picture stays in place; on one that cannot (TERM=dumb, or
output into a file) a block is printed every few seconds, and only if something changed. Plain ASCII
where the encoding is.
"""

from __future__ import annotations

import statistics
import sys
import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .. import leftout, observed, units
from .state import FINE

TIMED_PAUSE = 1.0
PAUSE = 0.35
DUMB_PAUSE = 5.0
SPARKS = "▁▂▃▄▅▆▇█"
ASCII_SPARKS = "_.-=+*%#"
SPARK_MOST = 36
TESTS = 10
LOCKS = 6
LEFT_OUT_SHOWN = 6
SKIPPED = 4
BARN_TITLE = "from barn"  # and not from slabs: of the objects that the front end was brought


class Marks:
    """What bars and sparklines are made of on this terminal."""

    def __init__(self, console: Console):
        encoding = (console.encoding or "ascii").lower()
        self.plain = not encoding.startswith("utf")
        self.sparks = ASCII_SPARKS if self.plain else SPARKS
        self.full = "#" if self.plain else "█"
        self.none = "-" if self.plain else "–"
        self.width = max(4, min(SPARK_MOST, (console.width - 26) // 2))  # two of them on a line

    def spark(self, values, top: float | None = None, narrower: int = 0) -> str:
        """The newest values as a line of marks; blanks where something was lost or nothing
        happened. narrower: by so many marks than usual."""
        width = max(1, self.width - narrower)
        values = list(values)[-width:]
        most = top or max((value for value in values if value is not None), default=0) or 1
        last = len(self.sparks) - 1
        marks = (" " if value is None else self.sparks[min(last, int(value / most * last + 0.5))]
                 for value in values)
        return "".join(marks).rjust(width)

    def bar(self, share: float, width: int = 20) -> str:
        return (self.full * round(min(1.0, max(0.0, share)) * width)).ljust(width)


def newest(values) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def percent(value: float | None, marks: Marks) -> str:
    return marks.none if value is None else f"{value:.1%}"


def _grid(*columns) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in columns:
        table.add_column(justify=justify, no_wrap=True)
    return table


def _plain(text: str, style: str = "") -> Text:
    """Other people's text, as it is: no markup, no control codes."""
    return Text("".join(mark if mark.isprintable() else "?" for mark in text), style=style)


def _row(table: Table, *cells: str, style: str | None = None) -> None:
    table.add_row(*[_plain(cell) for cell in cells], style=style)


def header(state) -> Text:
    boot = state.current
    text = _plain(state.title or "Hayloft", "bold")
    text.append("\n").append_text(_plain(state.where(), "not bold"))
    if boot is None:
        return text
    text.append(f", {boot.now:.1f} s, {boot.records:,} records", style="not bold")
    if boot.lost or boot.damaged:
        text.append(f", {boot.lost:,} lost, {boot.damaged:,} damaged", style="red")
    if state.over_committed:
        text.append("\nover-committed: more CPUs than the host has", style="red")
    for entry in boot.left_out[:LEFT_OUT_SHOWN]:
        text.append("\n").append_text(_plain(f"left out: {leftout.text(entry)}", "red"))
    skipped = boot.skipped()
    for test in skipped[:SKIPPED]:
        text.append("\n").append_text(_plain(f"skipped: {test.name}: {test.skip}", "not bold yellow"))
    if len(skipped) > SKIPPED:
        text.append(f"\nand {len(skipped) - SKIPPED} more tests skipped", style="not bold yellow")
    return text


def cpus(boot, marks: Marks) -> Table:
    table = _grid("left", "left", "right", "left", "right", "right")
    supplied = {cpu: line for cpu in sorted(boot.cpus) if (line := boot.supply(cpu)[1])}
    _row(table, "", "contended", "", "front-end hits", "", *([BARN_TITLE] if supplied else []),
         style="bold")
    for cpu in sorted(boot.cpus)[:16]:
        contended, hits = boot.contention(cpu)[1], boot.hits(cpu)[1]
        barn = [percent(newest(supplied.get(cpu, [])), marks)] if supplied else []
        narrower = len(BARN_TITLE) // 2 + 1 if supplied else 0
        _row(table, f"CPU {cpu}", marks.spark(contended, 1.0, narrower),
             percent(newest(contended), marks), marks.spark(hits, 1.0, narrower),
             percent(newest(hits), marks), *barn)
    return table


def locks(boot, marks: Marks) -> Table:
    table = _grid("left", "left", "right", "right")
    _row(table, "lock", "contended", "", "taken", style="bold")
    for lock in boot.busiest_locks(LOCKS):
        share = lock.contended / lock.taken if lock.taken else 0.0
        _row(table, lock.label, marks.bar(share), f"{share:.1%}", units.count(lock.taken))
    return table


def levels(boot, marks: Marks) -> Table:
    table = _grid("left", "left", "right")
    _row(table, "a second", "", "", style="bold")
    for label, _, values in boot.churn():
        _row(table, label, marks.spark(values), units.count(newest(values) or 0))
    if not boot.has_barn:
        _row(table, "barn", "no barn in this boot", "")
    cache, lines = boot.barn_of()
    if lines:
        _row(table, cache, "", "", style="bold")
    for line in lines:
        of = "" if line.limit is None else f" of {units.count(line.limit)}"
        _row(table, line.label, marks.spark(line.values[FINE - 1 :: FINE], line.limit),
             units.count(newest(line.values) or 0) + of)
    return table


def memory(boot, marks: Marks) -> Table:
    """Bytes in each layer, most first."""
    table = _grid("left", "left", "right")
    _row(table, "held", "", "", style="bold")
    lines = [(newest(line.values) or 0, line.label, line.values[FINE - 1 :: FINE])
             for line in boot.footprint()]
    for held, label, values in sorted(lines, key=lambda line: (-line[0], line[1])):
        if held or any(values):
            _row(table, label, marks.spark(values), units.bytes_(held))
    return table


def times(boot) -> Table:
    """What the newest test with latency=on or matrix=on told."""
    table = _grid("left", "left", "right", "right", "right")
    if boot.latency:
        _row(table, "cycles", "", "p50", "p99", "max", style="bold")
    for (level, call), found in boot.latency.items():
        cells = [units.number(observed.percentile(found.counts, share, found.most))
                 for share in (0.5, 0.99)]
        _row(table, level, call, *cells, units.count(found.most))
    away, frees = boot.crossed
    if frees:
        _row(table, "freed", "elsewhere", units.share(away / frees), "of", units.count(frees))
    return table


def results(state, marks: Marks) -> Table:
    booted = {boot.arm for boot in state.boots.values()}
    arms = sorted(booted if state.alone else state.arms or booted)
    table = _grid("left", *["right"] * (2 * len(arms)))
    others = [arm for arm in arms if arm != state.reference]
    over = [f"{state.reference} over {arm}, now" for arm in others] if len(arms) > 1 else []
    _row(table, "rounds" if state.alone else "medians", *[f"arm {arm}" for arm in arms], *over,
         style="bold")
    for test in state.tests(TESTS):
        dots, ratios = state.dots(test), state.over(test)
        cells = []
        for arm in arms:
            values = dots.get(arm, ())
            middle = units.number(statistics.median(values)) if values else ""
            cells.append(f"{middle} ({len(values)})" if values else marks.none)
        cells += [units.number(ratios[arm]) if arm in ratios else marks.none
                  for arm in others] if over else []
        _row(table, test, *cells)
    return table


def picture(state, marks: Marks) -> Group:
    parts = [header(state)]
    boot = state.current
    if boot is not None:
        parts += [Text(""), cpus(boot, marks), Text(""), locks(boot, marks), Text(""),
                  levels(boot, marks)]
        if boot.footprint():
            parts += [Text(""), memory(boot, marks)]
        if boot.latency or boot.crossed[1]:
            parts += [Text(""), times(boot)]
    if state.tests(1):
        parts += [Text(""), results(state, marks)]
    return Group(*parts)


def show(feed, linger: float | None = None, alive=lambda: True,
         console: Console | None = None) -> None:
    """Shows the feed until Ctrl-C, until `alive` says no, or `linger` seconds after its end (None:
    for ever)."""
    console = console or Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    marks = Marks(console)
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(picture(feed.state, marks), console=console, auto_refresh=False,
                  vertical_overflow="crop") as live:
            _loop(feed, linger, alive,
                  lambda: live.update(picture(feed.state, marks), refresh=True), 0)
    else:
        _loop(feed, linger, alive, lambda: console.print(picture(feed.state, marks), Text("")),
              DUMB_PAUSE)


def _loop(feed, linger, alive, draw, least: float) -> None:
    drawn, changed, ended = 0.0, True, None
    while alive():
        changed = feed.poll() or changed
        boot = feed.state.current
        pause = max(least, TIMED_PAUSE if boot is not None and boot.timed else PAUSE)
        if changed and (time.monotonic() - drawn >= pause or feed.ended):
            draw()
            drawn, changed = time.monotonic(), False
        if feed.ended:
            ended = ended or time.monotonic()
            if linger is not None and time.monotonic() - ended >= linger:
                return
        time.sleep(0.1 if not least else 0.3)
