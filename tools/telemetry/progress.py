"""What a run shows while it runs: a live table on a terminal, plain lines elsewhere.

Both say the same: which boot, how it ended, the medians so far, how long it will take. They only listen;
the run does not depend on them.
"""

import statistics
import sys
import time

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress as Bar, TextColumn
from rich.table import Table
from rich.text import Text

from . import console as consoles
from .rounds import boot_figure

MOST_ROWS = 14
_STYLES = {"ok": "green", "not parallel": "yellow", "incomplete": "yellow"}


def duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes}:{seconds:02d}"


class Tally:
    """Counts boots and estimates the time left from those that are done."""

    def __init__(self, total, done=0):
        self.total, self.done = total, done
        self.seconds = []

    def ended(self, seconds, total, done):
        self.seconds.append(seconds)
        self.total, self.done = total, done

    def left(self, elapsed=0.0):
        """Seconds until the last boot ends, or None before the first has."""
        if not self.seconds:
            return None
        return max(0.0, statistics.fmean(self.seconds[-8:]) * (self.total - self.done) - elapsed)


def boot_figures(result):
    """{(test, unit): geometric mean of the rounds} of one boot's result.json."""
    found = {}
    for test in (result or {}).get("tests") or []:
        for unit, key in (("ns/op", "ns_per_op"), ("instructions/op", "instructions_per_op")):
            figure = boot_figure(r.get(key) for r in test.get("rounds") or [])
            if figure is not None:
                found[test["name"], unit] = figure
                break
    return found


def short_tests(result):
    """A line for each test that ran out of memory in this boot."""
    return [f"skipped {entry['name']}: {entry['reason']}" for entry in (result or {}).get("skipped") or []
            if entry.get("shortage")]


class Plain:
    """One line an event, for logs and pipes. quiet: only what is not routine."""

    def __init__(self, out=None, quiet=False):
        self.out, self.quiet = out or sys.stdout, quiet
        self.tally = None

    def say(self, text):
        print(text, file=self.out, flush=True)

    def begin(self, arms, total, done=0):
        self.tally = Tally(total, done)

    def started(self, identity, arm):
        pass

    def tick(self, elapsed):
        pass

    def ended(self, boot, result, total, done):
        self.tally.ended(boot["seconds"], total, done)
        for line in short_tests(result):
            self.say(f"boot {boot['id']}: {line}")
        if self.quiet and boot["outcome"] == "ok":
            return
        left = self.tally.left()
        later = f", about {duration(left)} left" if left else ""
        reason = f": {boot['reason']}" if boot["reason"] else ""
        self.say(f"boot {boot['id']}: {boot['outcome']}{reason} ({boot['seconds']:.1f} s; "
                 f"{self.tally.done} of {self.tally.total}{later})")

    def close(self):
        pass


class Rich(Plain):
    """A table of medians by arm above a progress bar; notes scroll by above both."""

    def __init__(self, console=None):
        super().__init__()
        self.console = console or consoles.console()
        self.live = None
        self.medians = {}  # (test, unit) → arm → place → figure of that boot
        self.arms = []
        self.now = ""
        self.elapsed, self.drawn = 0.0, 0.0
        self.bar = Bar(BarColumn(bar_width=None), TextColumn("{task.completed:.0f} of {task.total:.0f} boots"),
                       TextColumn("{task.fields[left]}"), console=self.console, expand=True)
        self.task = None

    def say(self, text):
        self.console.print(text, markup=False, highlight=False)

    def begin(self, arms, total, done=0):
        super().begin(arms, total, done)
        self.arms = list(arms)
        self.task = self.bar.add_task("boots", total=total, completed=done, left="")
        self.live = Live(self.draw(), console=self.console, auto_refresh=False, transient=True)
        self.live.start()

    def started(self, identity, arm):
        self.now, self.elapsed = f"{identity}", 0.0
        self.refresh()

    def tick(self, elapsed):
        self.elapsed = elapsed
        if time.monotonic() - self.drawn >= 1.0:  # watching must not load the machine that it watches
            self.refresh()

    def ended(self, boot, result, total, done):
        self.tally.ended(boot["seconds"], total, done)
        for line in short_tests(result):
            self.console.print(Text(f"boot {boot['id']}: {line}", style="yellow"))
        if boot["outcome"] != "ok":
            reason = f": {boot['reason']}" if boot["reason"] else ""
            self.console.print(Text(f"boot {boot['id']}: {boot['outcome']}{reason}",
                                    style=_STYLES.get(boot["outcome"], "red")))
        else:
            place = str(boot["point"]), boot["pair"]  # a pair booted again replaces what it gave before
            for key, value in boot_figures(result).items():
                self.medians.setdefault(key, {}).setdefault(boot["arm"], {})[place] = value
        self.elapsed = 0.0
        self.refresh()

    def draw(self):
        left = self.tally.left(self.elapsed)
        self.bar.update(self.task, completed=self.tally.done, total=self.tally.total,
                        left=f"about {duration(left)} left" if left is not None else "")
        table = Table(box=None, pad_edge=False)
        table.add_column("test", no_wrap=True)
        for arm in self.arms:
            table.add_column(arm, justify="right")
        for name in self.arms[1:]:
            table.add_column(f"{name}/{self.arms[0]}", justify="right")
        for (test, unit), by_arm in list(self.medians.items())[:MOST_ROWS]:
            middle = {arm: statistics.median(values.values()) for arm, values in by_arm.items()}
            cells = [f"{middle[arm]:.1f} {unit}" if arm in middle else "" for arm in self.arms]
            first = middle.get(self.arms[0])
            for arm in self.arms[1:]:
                cells.append(f"{middle[arm] / first:.2f}" if first and arm in middle else "")
            table.add_row(test, *cells)
        if len(self.medians) > MOST_ROWS:
            table.add_row(f"… and {len(self.medians) - MOST_ROWS} more tests")
        if not consoles.fits(self.console, table):  # cut digits would look like values
            table = Text("\n").join(consoles.stacked(table))
        state = f"boot {self.now}, {self.elapsed:.0f} s" if self.now else "starting"
        return Group(table, Text(state), self.bar)

    def refresh(self):
        self.drawn = time.monotonic()
        if self.live:
            self.live.update(self.draw(), refresh=True)

    def close(self):
        if self.live:
            self.live.stop()
            self.live = None


def make(quiet=False):
    """The progress that fits where standard output goes."""
    if quiet or not sys.stdout.isatty():
        return Plain(quiet=quiet)
    return Rich()
