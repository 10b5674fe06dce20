"""The panels of the live picture: what each shows, and how little of it is drawn anew.

Each panel keeps a picture of its empty self (frame, ticks, title, legend) and is drawn anew only
when one of these changes, which the panels make rare by moving their limits in steps; else the
picture is put back and the few moving artists are drawn on it. Nothing shown depends on the
viewer's clock: with the feed stopped no pixel changes.

Colours are Okabe and Ito's, which people with any colour vision can tell apart; arms have the same
colour throughout.
"""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from .. import units
from .state import WIDTH, WINDOW, RunState

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
GREY = "#6b6b6b"
TESTS = 8
LOCKS = 7
LEGEND_CPUS = 8

def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def arm_colour(state: RunState, arm: str) -> str:
    names = sorted(state.arms) or [arm]
    return colour(names.index(arm) if arm in names else 0)


def step_up(value: float) -> float:
    """The next of 1, 2, 5, 10, … at or above the value: limits that seldom move."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if value <= power * step * 1.0000001)


def nan(values):
    return [math.nan if value is None else value for value in values]


def shorten(text: str, most: int) -> str:
    text = "".join(mark if mark.isprintable() else "?" for mark in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def spread(place: int, count: int) -> float:
    """How far from its row's middle the place-th of `count` arms is drawn."""
    return min(0.32, 0.8 / count) * (place - (count - 1) / 2)


def window(boot) -> tuple[float, float]:
    """The stretch of time that the time panels show, in steps of its own."""
    end = max(5.0, math.ceil((boot.now if boot else 0) / 5) * 5)
    return max(0.0, end - WINDOW * WIDTH), end


class Notice(NamedTuple):
    """The decor of a panel that has nothing to draw: why."""

    text: str


class Panel:
    """One panel. `look(boot)` returns (decor, content), plain values: decor is what the empty self
    depends on, content what moves on it; None if the boot has told nothing of the kind, which
    `empty` then says. `dress(decor)` makes the one, `fill(content)` sets the other's artists. What
    is not about one boot overrides `gather(state)`."""

    name = title = empty = ""

    def __init__(self, figure: Figure, rectangle: tuple[float, float, float, float], margins):
        """rectangle: left, bottom, width, height of the whole panel; margins: what labels need
        inside it."""
        self.figure, self.margins = figure, margins
        self.axes = figure.add_axes((0, 0, 1, 1), label=self.name)
        self.place(rectangle)
        self.moving: list = []
        self._decor = self._content = None
        self._picture = None
        self._drawn: tuple | None = None

    def place(self, rectangle: tuple[float, float, float, float]) -> None:
        """Moves the panel; whoever does calls forget() too."""
        self.rectangle = x, y, w, h = rectangle
        left, bottom, right, top = self.margins
        self.axes.set_position((x + left, y + bottom, w - left - right, h - bottom - top))

    def gather(self, state: RunState) -> tuple:
        seen = self.look(state.current) if state.current is not None else None
        return seen or (Notice(state.instead(self.empty)), ())

    def look(self, boot) -> tuple | None:
        raise NotImplementedError

    def dress(self, decor) -> None:
        raise NotImplementedError

    def fill(self, content) -> None:
        raise NotImplementedError

    def refresh(self, state: RunState) -> bool:
        """Sets the artists; returns whether the panel looks different from what was drawn last."""
        decor, content = self.gather(state)
        if decor != self._decor:
            self.axes.clear()
            self.moving = []
            self.axes.set_title(self.title, pad=5)
            if isinstance(decor, Notice):
                self._say(decor.text)
            else:
                self.dress(decor)
            self._picture = None
        if not isinstance(decor, Notice) and (decor, content) != (self._decor, self._content):
            self.fill(content)
        self._decor, self._content = decor, content
        return self._drawn != (decor, content)

    def forget(self) -> None:
        """The canvas is another: its pixels mean nothing any more."""
        self._picture = self._drawn = None

    def draw(self, canvas, renderer) -> None:
        if self._picture is None:
            self._wipe(renderer)
            self.axes.draw(renderer)
            self._picture = canvas.copy_from_bbox(self.box())
        else:
            canvas.restore_region(self._picture)
        for artist in self.moving:
            self.axes.draw_artist(artist)
        self._drawn = (self._decor, self._content)

    def box(self):
        x, y, w, h = self.rectangle
        bounds = matplotlib.transforms.Bbox.from_bounds(x, y, w, h)
        return bounds.transformed(self.figure.transFigure)

    def _wipe(self, renderer) -> None:
        x, y, w, h = self.rectangle
        blank = matplotlib.patches.Rectangle((x, y), w, h, transform=self.figure.transFigure,
                                             color="white")
        blank.set_figure(self.figure)
        blank.set_antialiased(False)
        blank.draw(renderer)

    def _say(self, text: str) -> None:
        """Instead of lines: why there are none."""
        self.axes.set_axis_off()
        self.axes.text(0.5, 0.5, text, transform=self.axes.transAxes, ha="center", va="center",
                       color=GREY,
                       fontsize=9.5, linespacing=1.5)

    # What several panels use

    def animate(self, artist):
        artist.set_animated(True)
        self.moving.append(artist)
        return artist

    def time_axis(self, limits) -> None:
        self.axes.set_xlim(*limits)
        self.axes.set_xlabel("seconds since the boot's first record", labelpad=2)

    def percent_axis(self, top: float = 1.0) -> None:
        """top is 1, 2 or 5 times a power of ten; the ticks are whole parts of it."""
        parts = 4 if f"{top:e}"[0] == "2" else 5
        self.axes.set_ylim(-0.02 * top, top * 1.04)
        self.axes.set_yticks([top * part / parts for part in range(parts + 1)])
        decimals = 0 if top >= 0.05 else 1 if top >= 0.005 else 2
        self.axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))

    def now_line(self) -> None:
        """Where the boot's clock is, so that a quiet boot can be told from one that has stopped."""
        self.now = self.animate(self.axes.axvline(-1, color="#bbbbbb", linewidth=1, zorder=0))

    def lost_spans(self, boot) -> tuple:
        return tuple((bucket * WIDTH, WIDTH) for bucket in sorted(boot.timeline.lost))


class CpuLines(Panel):
    """A line a CPU, between 0 and 1, and maybe a dotted one of something else."""

    top = None  # None: by what is seen
    means = dotted = ""  # what the lines are; what the dotted ones are

    def lines_of(self, boot, cpu) -> tuple:
        raise NotImplementedError

    def dotted_of(self, boot, cpu) -> tuple:
        return [], []

    def look(self, boot):
        lines = {cpu: line for cpu in sorted(boot.cpus) if (line := self.lines_of(boot, cpu))[0]}
        if not lines:
            return None
        dots = {cpu: line for cpu in lines if (line := self.dotted_of(boot, cpu))[0]}
        most = max((v for _, values in (*lines.values(), *dots.values()) for v in values
                    if v is not None), default=0)
        top = self.top or step_up(max(most, 0.01))
        decor = tuple(lines), min(1.0, top), window(boot), bool(dots)
        contents = (tuple((cpu, tuple(x), tuple(y)) for cpu, (x, y) in found.items())
                    for found in (lines, dots))
        return decor, (*contents, self.lost_spans(boot), round(boot.now, 1))

    def dress(self, decor):
        self.now_line()
        cpus, top, limits, dotted = decor
        self.lines, self.dots = {}, {}
        self.spans = self.animate(self.axes.broken_barh([], (-1, 3), color="#dddddd", zorder=0))
        many = matplotlib.colormaps["viridis"]
        for place, cpu in enumerate(cpus):
            paint = colour(cpu) if len(cpus) <= LEGEND_CPUS else many(0.9 * place / len(cpus))
            line, = self.axes.plot([], [], color=paint, marker="o", markersize=2.2)
            dots, = self.axes.plot([], [], color=paint, linestyle=":", linewidth=1.4)
            self.lines[cpu], self.dots[cpu] = self.animate(line), self.animate(dots)
        if len(cpus) <= LEGEND_CPUS:
            self.name_lines()
        self.axes.set_ylabel(f"{self.means}; dotted: {self.dotted}" if dotted else self.means,
                             fontsize=7.5)
        self.percent_axis(top)
        self.time_axis(limits)

    def name_lines(self):
        """Beside the title, which says that they are CPUs, by their numbers."""
        tight = {} if len(self.lines) <= 4 else {"handlelength": 0.7, "columnspacing": 0.4}
        self.axes.legend(self.lines.values(), map(str, self.lines), loc="lower right",
                         bbox_to_anchor=(1.02, 0.985),
                         borderaxespad=0, ncols=len(self.lines), handletextpad=0.4, **tight)

    def fill(self, content):
        lines, dots, spans, now = content
        self.now.set_xdata([now, now])
        self.spans.set_verts([[(x, -1), (x, 2), (x + w, 2), (x + w, -1)] for x, w in spans])
        for artists, found in ((self.lines, lines), (self.dots, dots)):
            for cpu, x, y in found:
                artists[cpu].set_data(x, nan(y))


class Contention(CpuLines):
    name, title = "contention-cpu", "Contention by CPU"
    empty = "no lock was taken yet\n(or lockstat=off)"
    means, dotted = "contended", "waiting"

    def lines_of(self, boot, cpu):
        return boot.contention(cpu)

    def dotted_of(self, boot, cpu):
        return boot.waiting(cpu)


class Hits(CpuLines):
    """Where there is a barn or a depot, also how much of what the front end was brought came from
    it and not from slabs."""

    name, title = "hits", "Hit rate by CPU"
    empty = "no allocation was made yet"
    top = 1.0
    means, dotted = "front end", "barn, depot"

    def lines_of(self, boot, cpu):
        return boot.hits(cpu)

    def dotted_of(self, boot, cpu):
        return boot.supply(cpu)


class Locks(Panel):
    name, title = "contention-lock", "Contention by lock"
    empty = "no lock was taken yet\n(or lockstat=off)"

    def look(self, boot):
        locks = boot.busiest_locks(LOCKS)
        if not locks:
            return None
        decor = tuple(shorten(lock.label, 18) for lock in locks), shorten(boot.window or "boot", 22)
        seconds = f"in {max(0.0, boot.now - boot.window_began):.1f} s"
        return decor, (seconds, tuple(self._figures(lock, boot.hz) for lock in locks))

    @staticmethod
    def _figures(lock, hz) -> tuple:
        """(share contended, what is written on the bar)."""
        if not lock.taken:
            return 0.0, f"not taken ({units.count(lock.before)} before)"
        share = lock.contended / lock.taken
        waited = ""
        if lock.waited and lock.contended:
            waited = f", wait {units.number(lock.waited / lock.contended / hz * 1e9)} ns"
        return share, f"{share:.1%} of {units.count(lock.taken)} taken{waited}"

    def dress(self, decor):
        labels, since = decor
        places = range(len(labels))
        self.bars = [self.animate(bar)
                     for bar in self.axes.barh(places, [0] * len(labels), 0.56, color=COLOURS[0])]
        self.texts = [self.animate(self.axes.text(0.015, y, "", va="center", fontsize=7.5,
                                                  color="#222222",
                                                  bbox={"facecolor": "white", "alpha": 0.8,
                                                        "pad": 0.8,
                                                        "edgecolor": "none"}))
                      for y in places]
        self.axes.set_yticks(list(places), labels)
        self.axes.set_ylim(max(4, len(labels)) - 0.4, -0.6)
        self.axes.set_xlim(0, 1.0)
        self.axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        self.axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        self.axes.grid(False, axis="y")
        self.axes.set_xlabel(f"contended since {since} began", labelpad=2)
        self.seconds = self.animate(self.axes.text(1, 1.025, "", transform=self.axes.transAxes,
                                                   ha="right",
                                                   fontsize=7.5))

    def fill(self, content):
        seconds, figures = content
        self.seconds.set_text(seconds)
        for bar, text, (share, said) in zip(self.bars, self.texts, figures):
            bar.set_width(share)
            text.set_text(said)


class Series(Panel):
    """Several labelled lines over time, from 0 up. Later ones are thinner, since they often lie on
    one another."""

    empty = "no sample yet"

    def series(self, boot) -> list[tuple]:
        raise NotImplementedError

    def look(self, boot):
        lines = self.series(boot)
        if not lines or not lines[0][1]:
            return None
        most = max((v for _, _, values in lines for v in values if v is not None), default=0)
        decor = tuple(label for label, _, _ in lines), step_up(most), window(boot)
        content = tuple((tuple(x), tuple(y)) for _, x, y in lines)
        return decor, (content, self.lost_spans(boot), round(boot.now, 1))

    def dress(self, decor):
        labels, top, limits = decor
        self.now_line()
        self.spans = self.animate(self.axes.broken_barh([], (-1, 3), color="#dddddd", zorder=0))
        self.lines = [self.animate(self.axes.plot([], [], color=colour(place), label=label,
                                                  linewidth=max(1.0, 3.4 - 0.6 * place))[0])
                      for place, label in enumerate(labels)]
        self.legend = self.axes.legend(loc="upper left", borderaxespad=0.2, labelspacing=0.25,
                                       handletextpad=0.4)
        self.animate(self.legend)  # above the grey of what was lost, hence drawn with the lines
        self.axes.set_ylim(0, top * 1.65)  # room for the legend above the lines
        self.axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.count(value)))
        self.time_axis(limits)

    def fill(self, content):
        lines, spans, now = content
        self.now.set_xdata([now, now])
        top = self.axes.get_ylim()[1]
        self.spans.set_verts([[(x, 0), (x, top), (x + w, top), (x + w, 0)] for x, w in spans])
        for line, (x, y) in zip(self.lines, lines):
            line.set_data(x, nan(y))


class Churn(Series):
    name, title = "churn", "Churn a second"

    def series(self, boot):
        return boot.churn()


class Over(Panel):
    """The reference's newest boot over each other arm's, test by test: right of 1 is the other
    arm's gain."""

    name, title = "over", "Arm over arm, now"

    def gather(self, state):
        tests = state.tests(TESTS)
        ratios = [(row, arm, ratio) for row, test in enumerate(tests)
                  for arm, ratio in sorted(state.over(test).items())]
        if not ratios:
            two = state.current is None or (len(state.arms) > 1 and not state.alone)
            return Notice("waiting for a result\nof each arm" if two
                          else "one arm only:\nnothing to compare"), ()
        reach = max(max(ratio, 1 / ratio) for _, _, ratio in ratios)
        limit = next(step for step in (1.5, 2, 3, 5, 10, 20, 50, 100, 1e3, 1e6, 1e12)
                     if reach <= step * 0.95 or step == 1e12)
        others = tuple(sorted({arm for _, arm, _ in ratios}))
        colours = tuple(arm_colour(state, arm) for arm in others)
        return (state.reference, others, colours, tuple(tests), limit), tuple(ratios)

    def dress(self, decor):
        reference, others, colours, tests, limit = decor
        whom = ", ".join(others) if len(others) <= 3 else "the others"
        self.axes.set_title(f"{shorten(reference, 6)} over {shorten(whom, 12)}, now", pad=5)
        self.paint = dict(zip(others, colours))
        self.axes.set_xscale("log")
        self.axes.set_xlim(1 / limit, limit)
        between = {2, 0.5} if limit in (3, 5) else {10, 0.1} if limit >= 50 else set()
        marks = sorted({1 / limit, 1, limit} | between)
        self.axes.set_xticks(marks, [f"{mark:.2g}" if mark < 1 else f"{mark:g}" for mark in marks])
        self.axes.xaxis.set_minor_formatter(NullFormatter())
        self.axes.minorticks_off()
        self.axes.axvline(1, color="#444444", linewidth=1)
        self.axes.set_ylim(max(3, len(tests)) - 0.4, -0.6)
        self.axes.set_yticks(range(len(tests)), [""] * len(tests))
        self.axes.set_xlabel(f"← slower than {reference}    faster →", labelpad=2)
        self.artists = {}
        for row in range(len(tests)):
            for arm in others:
                dot, = self.axes.plot([], [], "o", markersize=7 if len(others) < 3 else 5,
                                      color=self.paint[arm])
                text = self.axes.text(1, row, "", fontsize=7.5, va="bottom", ha="center",
                                      color="#222222")
                self.artists[row, arm] = self.animate(dot), self.animate(text)

    def fill(self, content):
        for row, arm, ratio in content:
            dot, text = self.artists[row, arm]
            y = row + spread(list(self.paint).index(arm), len(self.paint))
            dot.set_data([ratio], [y])
            low, high = self.axes.get_xlim()
            if len(self.paint) == 1:  # above the dot, where there is room for it
                text.set_position((min(max(ratio, low * 1.35), high / 1.35), y - 0.16))
            else:
                right = ratio < (low * high * high) ** (1 / 3)
                text.set(ha="left" if right else "right", va="center")
                text.set_position((ratio * (high / low) ** (0.04 if right else -0.04), y))
            text.set_text(f"{ratio:.2f}")


class Medians(Panel):
    """Every boot a dot, and a bar at the arm's median: grows pair by pair. Of a boot by itself, its
    rounds."""

    name, title = "medians", "Medians"
    empty = "no result yet: the first round runs"

    def gather(self, state):
        return self._dots(state) or super().gather(state)

    def look(self, boot):
        return None

    def _dots(self, state) -> tuple | None:
        tests = state.tests(TESTS)
        dots = [(row, arm, tuple(values)) for row, test in enumerate(tests)
                for arm, values in sorted(state.dots(test).items())]
        everything = [value for _, _, values in dots for value in values if value > 0]
        if not everything:
            return None
        low, high = (math.log10(bound) for bound in (min(everything), max(everything)))
        limits = (math.floor(low * 3 - 0.4) / 3, math.ceil(high * 3 + 0.4) / 3)
        arms = tuple(sorted({arm for _, arm, _ in dots}))
        unit = state.units.get(tests[0], "") or "ns/op"
        decor = (arms, tuple(arm_colour(state, arm) for arm in arms),
                 tuple(shorten(test, 24) for test in tests), limits, unit, state.alone)
        return decor, tuple(dots)

    def dress(self, decor):
        arms, colours, tests, limits, unit, rounds = decor
        self.axes.set_title(f"{'Rounds' if rounds else 'Medians'}, {unit}", pad=5)
        self.axes.set_xscale("log")
        self.axes.set_xlim(10 ** limits[0], 10 ** limits[1])
        marks = self._marks(limits)
        self.axes.set_xticks(marks,
                             [units.count(mark) if mark >= 1 else f"{mark:.3g}" for mark in marks])
        self.axes.minorticks_off()
        self.axes.set_ylim(max(3, len(tests)) - 0.4, -0.6)
        self.axes.set_yticks(range(len(tests)), tests)
        self.arms = {arm: place for place, arm in enumerate(arms)}
        self.artists = {}
        for place, arm in enumerate(arms):
            for row in range(len(tests)):
                dots, = self.axes.plot([], [], "o", markersize=4.6, color=colours[place], alpha=0.6,
                                       markeredgewidth=0, label=self._label(arm, len(arms))
                                       if row == 0 else None)
                bar, = self.axes.plot([], [], "|", markersize=13 if len(arms) <= 2 else 8,
                                      markeredgewidth=2.2, color=colours[place])
                self.artists[row, arm] = self.animate(dots), self.animate(bar)
        self.axes.legend(loc="lower right", bbox_to_anchor=(1.02, 0.99), ncols=len(arms),
                         borderaxespad=0, handletextpad=0.1, columnspacing=0.8)

    @staticmethod
    def _label(arm: str, count: int) -> str:
        return shorten(arm, 8) if count > 2 else f"arm {shorten(arm, 8)}"

    @staticmethod
    def _marks(limits) -> list[float]:
        """Ticks at 1, 2, 5 within a decade or two; at powers of ten beyond."""
        wide = limits[1] - limits[0] > 2.2
        steps = (1,) if wide else (1, 2, 5)
        powers = range(math.floor(limits[0]), math.ceil(limits[1]) + 1)
        if wide and len(powers) > 7:
            powers = powers[:: math.ceil(len(powers) / 7)]
        marks = [step * 10.0**power for power in powers for step in steps]
        return [mark for mark in marks if 10 ** limits[0] <= mark <= 10 ** limits[1]]

    def fill(self, content):
        for row, arm, values in content:
            dots, bar = self.artists[row, arm]
            y = row + spread(self.arms[arm], len(self.arms))
            dots.set_data(values, [y] * len(values))
            bar.set_data([statistics.median(values)], [y])
