"""The panels of the allocator's layers: what lies in a barn or depot, where the bytes are, how long
calls take, and who frees whose objects.

They are on the board only once a boot has told something of the kind (BootState.provides()), and
stay for the rest of the run, so that arms can be compared; a boot that has none says so. No layer
is known here by name.
"""

from __future__ import annotations

import math

import matplotlib
from matplotlib.ticker import FuncFormatter, NullFormatter

from .. import observed, units
from .panels import COLOURS, GREY, Panel, Series, colour, nan, shorten, step_up, window

TEXT_CPUS = 8  # with more, the matrix is colours only
ROWS_MOST = 12  # levels and directions of the latency panel


def newest(values):
    return next((value for value in reversed(values) if value is not None), None)


class Barn(Series):
    """Levels of the busiest cache, and dashed, in the line's colour, what each may be at most."""

    name, title = "barn", "Barn or depot"
    empty = "no barn in this boot"

    def look(self, boot):
        cache, levels = boot.barn_of()
        if not levels:
            return None
        drawn = [level for level in levels if level.unit == levels[0].unit]
        told = tuple(f"{level.label} {units.count(newest(level.values))}" for level in levels
                     if level.unit != levels[0].unit and newest(level.values) is not None)
        most = max([v for level in drawn for v in level.values if v is not None], default=0)
        limit = max(level.limit or 0 for level in drawn)  # may be passed a little
        decor = (cache, tuple((level.label, level.limit) for level in drawn),
                 limit if most <= 1.3 * limit else step_up(most), window(boot))
        content = tuple((tuple(level.times), tuple(level.values)) for level in drawn)
        return decor, (content, self.lost_spans(boot), round(boot.now, 1), told)

    def dress(self, decor):
        cache, lines, top, limits = decor
        super().dress((tuple(label for label, _ in lines), top, limits))
        self.axes.set_title(f"Barn: {shorten(cache, 20)}", pad=5)
        self.limits = [limit for _, limit in lines]
        self.axes.set_yticks([top * part / 5 for part in range(6)])
        for place, (_, limit) in enumerate(lines):
            self.lines[place].set(drawstyle="steps-mid", linewidth=1.3 if place else 2.8)
            if limit is not None:  # dashes in turn, where limits are equal
                dashes = 4 * place, (4, 4 * max(1, len(lines) - 1))
                self.axes.axhline(limit, color=colour(place), linestyle=dashes, linewidth=1.2)
        self.told = self.animate(self.axes.text(1, 1.025, "", transform=self.axes.transAxes,
                                                ha="right", fontsize=7.5))

    def fill(self, content):
        super().fill(content[:3])
        self.told.set_text(", ".join(content[3]))
        for text, (_, values), line, limit in zip(self.legend.get_texts(), content[0], self.lines,
                                                  self.limits):
            now = units.count(newest(values) or 0)
            text.set_text(f"{line.get_label()}: {now}" + (f" of {limit:,}" if limit else ""))


class Footprint(Panel):
    """Bytes by layer, one on top of the other."""

    name, title = "footprint", "Memory by layer"
    empty = "no sample yet"

    def look(self, boot):
        levels = [level for level in boot.footprint() if any(level.values)]
        if not levels:
            return None
        edges = [[0.0] * len(levels[0].values)]
        for level in levels:
            edges.append([below + (value or 0) for below, value in zip(edges[-1], level.values)])
        known = tuple(value is not None for value in levels[0].values)
        decor = (tuple(level.label.removesuffix("_bytes").replace("_", " ") for level in levels),
                 _power_up(max(edges[-1])), window(boot))
        content = tuple(levels[0].times), known, tuple(tuple(edge) for edge in edges)
        return decor, (content, self.lost_spans(boot), round(boot.now, 1))

    def dress(self, decor):
        labels, top, limits = decor
        self.now_line()
        self.spans = self.animate(self.axes.broken_barh([], (-1, 3), color="#dddddd", zorder=0))
        self.areas = [self.animate(self.axes.fill_between([], [], [], color=colour(place),
                                                          label=label, linewidth=0, alpha=0.8))
                      for place, label in enumerate(labels)]
        self.animate(self.axes.legend(loc="upper left", borderaxespad=0.2, labelspacing=0.2,
                                      handletextpad=0.3, handlelength=0.9, columnspacing=0.7,
                                      ncols=3, fontsize=7))
        self.axes.set_ylim(0, top * (1.25 + 0.16 * math.ceil(len(labels) / 3)))
        self.axes.set_yticks([top * part / 4 for part in range(5)])
        self.axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.bytes_(value)))
        self.time_axis(limits)

    def fill(self, content):
        (times, known, edges), spans, now = content
        self.now.set_xdata([now, now])
        top = self.axes.get_ylim()[1]
        self.spans.set_verts([[(x, 0), (x, top), (x + w, top), (x + w, 0)] for x, w in spans])
        for area, low, high in zip(self.areas, edges, edges[1:]):
            area.set_verts([[(times[i], low[i]) for i in piece] +
                            [(times[i], high[i]) for i in reversed(piece)]
                            for piece in _pieces(known)])


def _power_up(value: float) -> float:
    """The next power of two: a limit in bytes that seldom moves."""
    return 2.0 ** max(6, math.ceil(math.log2(max(value, 1))))


def _pieces(known) -> list[list[int]]:
    """Stretches of places that are all true."""
    pieces: list[list[int]] = []
    for place, good in enumerate(known):
        if good and (not place or not known[place - 1]):
            pieces.append([])
        if good:
            pieces[-1].append(place)
    return [piece for piece in pieces if len(piece) > 1]


class Latency(Panel):
    """A histogram a row, each to its own height; the square root keeps the tail visible."""

    name, title = "latency", "Cycles a call"
    empty = "no call was timed in this boot"

    def look(self, boot):
        rows = list(boot.latency.items())[:ROWS_MOST]
        if not rows:
            return None
        low = max(1, observed.lower(min((min(found.counts) for _, found in rows if found.counts),
                                        default=0)))
        high = max([10 * low, *(self._reach(found) for _, found in rows)])
        limits = math.floor(math.log10(low)), math.ceil(math.log10(high))
        decor = tuple(shorten(f"{level} {call}", 14) for (level, call), _ in rows), limits
        return decor, tuple(self._row(found) for _, found in rows)

    @staticmethod
    def _reach(found) -> float:
        """Where nearly all calls are over: the longest, told in figures, may be the host's doing."""
        return observed.percentile(found.counts, 0.999, found.most) or found.most

    @staticmethod
    def _row(found) -> tuple:
        """(outline of the histogram, median, what is written)."""
        most = max(found.counts.values(), default=0) or 1
        outline = []
        for bucket, count in sorted(found.counts.items()):
            outline.append((max(1, observed.lower(bucket)), max(1, observed.lower(bucket + 1)),
                            math.sqrt(count / most)))
        middle, tail = (observed.percentile(found.counts, share, found.most)
                        for share in (0.5, 0.99))
        said = f"{_whole(middle)} · {_whole(tail)} · {_whole(found.most)}"
        return tuple(outline), middle, tail, said

    def dress(self, decor):
        labels, (low, high) = decor
        self.axes.set_xscale("log")
        self.axes.set_xlim(10**low, 10**high)
        marks = [10**power for power in range(low, high + 1, max(1, math.ceil((high - low) / 6)))]
        self.axes.set_xticks(marks, [units.count(mark) for mark in marks])
        self.axes.xaxis.set_minor_formatter(NullFormatter())
        self.axes.minorticks_off()
        self.axes.set_ylim(max(3, len(labels)) - 0.05, -1.0)
        self.axes.set_yticks(range(len(labels)), labels)
        self.axes.grid(False, axis="y")
        self.axes.set_xlabel("bar: the median; ▸ the 99th percentile", labelpad=2)
        self.axes.text(1, 1.025, "p50 · p99 · max", transform=self.axes.transAxes, ha="right",
                       fontsize=7.5)
        calls = list(dict.fromkeys(label.rpartition(" ")[2] for label in labels))
        self.rows = []
        for row, label in enumerate(labels):
            paint = colour(calls.index(label.rpartition(" ")[2]))
            shape = self.axes.fill_between([], [], [], color=paint, linewidth=0, alpha=0.75)
            middle, = self.axes.plot([], [], "|", color="#222222", markersize=11,
                                     markeredgewidth=1.6)
            tail, = self.axes.plot([], [], ">", color="#222222", markersize=4)
            text = self.axes.text(0.995, row - 0.1, "", fontsize=7, ha="right", va="bottom",
                                  transform=self.axes.get_yaxis_transform(),
                                  bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.6,
                                        "edgecolor": "none"})
            self.rows.append(tuple(map(self.animate, (shape, middle, tail, text))))

    def fill(self, content):
        for row, (artists, (outline, middle, tail, said)) in enumerate(zip(self.rows, content)):
            shape, bar, arrow, text = artists
            shape.set_verts([[(left, row), (left, row - 0.85 * height),
                              (right, row - 0.85 * height), (right, row)]
                             for left, right, height in outline])
            bar.set_data([middle] if middle else [], [row - 0.3] if middle else [])
            arrow.set_data([tail] if tail else [], [row - 0.12] if tail else [])
            text.set_text(said)


def _whole(value: float | None) -> str:
    return "–" if value is None else units.count(round(value))


class Matrix(Panel):
    """Share of a test's frees by the CPU that allocated (down) and the CPU that freed (across)."""

    name, title = "matrix", "Who frees whose"
    empty = "nobody kept count in this boot"

    def look(self, boot):
        away, frees = boot.crossed
        if not frees:
            return None
        cpus = 1 + max(max(key) for key in (*boot.matrix, (max(boot.cpus, default=0),)))
        shares = tuple(tuple(boot.matrix.get((made_on, freed_on), 0) / frees
                             for freed_on in range(cpus)) for made_on in range(cpus))
        said = f"freed on CPU: {units.share(away / frees)} of {units.count(frees)} away"
        return (cpus,), (shares, said)

    def dress(self, decor):
        cpus, = decor
        self.axes.grid(False)
        self.axes.spines[:].set_visible(False)
        self.image = self.animate(self.axes.imshow([[0.0] * cpus] * cpus, cmap="Blues", vmin=0,
                                                   vmax=1, aspect="auto"))
        step = max(1, cpus // 8)
        self.axes.set_xticks(range(0, cpus, step))
        self.axes.set_yticks(range(0, cpus, step))
        self.axes.tick_params(length=0)
        self.axes.set_ylabel("allocated on CPU")
        self.said = self.animate(self.axes.text(0.5, -0.14, "", transform=self.axes.transAxes,
                                                ha="center", va="top", fontsize=7.5))
        places = [(made_on, freed_on) for made_on in range(cpus) for freed_on in range(cpus)]
        self.texts = {}
        if cpus <= TEXT_CPUS:
            for made_on, freed_on in places:
                text = self.axes.text(freed_on, made_on, "", ha="center", va="center",
                                      fontsize=8 if cpus <= 4 else 6)
                self.texts[made_on, freed_on] = self.animate(text)

    def fill(self, content):
        shares, said = content
        most = max(map(max, shares)) or 1
        self.image.set_data(shares)
        self.image.set_clim(0, most)
        self.said.set_text(said)
        for (made_on, freed_on), text in self.texts.items():
            share = shares[made_on][freed_on]
            text.set_text(units.share(share))
            text.set_color("white" if share > 0.55 * most else "#222222")
