"""The picture: a header and six to ten panels on one Matplotlib figure, redrawn in parts.

Six panels are always there. Those of the allocator's layers (layer_panels.py) join them in a row
that grows, once a boot of the run has told something for them (RunState.provided); with more than
two of them the results get a row of their own.

A whole draw of such a figure takes about a third of a second, which a watched machine would feel.
So the board draws only the panels that changed, and each of these draws mostly what moves on it
(panels.py).
"""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from .. import leftout
from .layer_panels import Barn, Footprint, Latency, Matrix
from .panels import (COLOURS, Churn, Contention, Hits, Locks, Medians, Over, Panel, arm_colour,
                     shorten)
from .state import RunState

SIZE = (12.8, 7.2)  # inches at 100 dots
DPI = 100
HEADER = 0.075  # of the height
PLAIN = (0.047, 0.064, 0.012, 0.052)  # margins: left, bottom, right, top
# of each panel: its kind, how wide it is beside its neighbours, its margins
ALWAYS = ((Contention, 1.0, PLAIN), (Locks, 1.3, (0.1, 0.064, 0.02, 0.052)), (Hits, 1.0, PLAIN),
          (Churn, 0.9, PLAIN))
LAYERS = ((Barn, 0.9, (0.033, *PLAIN[1:])), (Footprint, 1.0, PLAIN),
          (Latency, 1.1, (0.075, 0.064, 0.024, 0.052)), (Matrix, 0.7, (0.04, *PLAIN[1:])))
RESULTS = ((Medians, 1.35, (0.118, 0.064, 0.024, 0.052)), (Over, 0.85, (0.014, *PLAIN[1:])))
LAYERS_BESIDE = 2  # as many share a row with the results

STYLE = {
    "font.size": 8.5, "axes.titlesize": 10, "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 7.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7, "axes.axisbelow": True, "axes.edgecolor": "#888888",
    "lines.linewidth": 1.6,
    "legend.frameon": False, "legend.handlelength": 1.4, "legend.columnspacing": 1.0,
    "path.simplify": True, "figure.facecolor": "white", "font.family": "DejaVu Sans",
    "toolbar": "None",
    "text.parse_math": False,  # titles and names are other people's text
}


class Header(Panel):
    """One line: what runs, and where it is."""

    name = "header"

    def gather(self, state):
        boot = state.current
        warning = "over-committed: more CPUs than the host has" if state.over_committed else ""
        losses = ""
        if boot is not None and (boot.lost or boot.damaged):
            losses = f"{boot.lost:,} records lost, {boot.damaged:,} frames damaged"
        elif boot is not None and boot.left_out:
            losses = shorten("left out: " + "; ".join(map(leftout.amount, boot.left_out)), 60)
        if boot is not None and boot.skipped():
            losses += ("; " if losses else "") + f"{len(boot.skipped())} tests skipped"
        paint = arm_colour(state, boot.arm) if boot is not None else "#444444"
        return (state.title, warning), (state.where(), paint, losses)

    def dress(self, decor):
        title, warning = decor
        self.axes.set_axis_off()
        self.axes.set_title("")
        self.axes.text(0, 0.72, shorten(title or "Hayloft", 78), transform=self.axes.transAxes,
                       fontsize=13, fontweight="bold", va="center")
        self.axes.text(1, 0.72, warning, transform=self.axes.transAxes, ha="right", va="center",
                       color=COLOURS[1])
        self.where = self.animate(self.axes.text(0, 0.12, "", transform=self.axes.transAxes,
                                                 fontsize=10, va="center"))
        self.losses = self.animate(self.axes.text(1, 0.12, "", transform=self.axes.transAxes,
                                                  ha="right",
                                                  va="center", color=COLOURS[1]))

    def fill(self, content):
        text, paint, losses = content
        self.where.set_text(shorten(text, 110))
        self.where.set_color(paint)
        self.losses.set_text(losses)


class Board:
    """The figure with its panels."""

    def __init__(self):
        matplotlib.rcParams.update(STYLE)
        self.figure = Figure(figsize=SIZE, dpi=DPI)
        self.header = Header(self.figure, (0, 1 - HEADER, 1, HEADER), (0.012, 0.005, 0.012, 0.012))
        self.made: dict[str, Panel] = {}
        self.panels: list[Panel] = []
        self._shown: set[str] = set()
        self._moved = False  # since the last draw
        self._arrange(set())

    def _arrange(self, provided: set[str]) -> None:
        """Places the panels in rows of equal height, edge to edge."""
        layers = [entry for entry in LAYERS if entry[0].name in provided]
        rows = [ALWAYS, (*layers, *RESULTS)] if len(layers) <= LAYERS_BESIDE else \
            [ALWAYS, layers, RESULTS]
        self.panels = [self.header]
        height = (1 - HEADER) / len(rows)
        for number, row in enumerate(rows):
            x, whole = 0.0, sum(width for _, width, _ in row)
            for kind, width, margins in row:
                place = (x, 1 - HEADER - (number + 1) * height, width / whole, height)
                panel = self.made.get(kind.name) or kind(self.figure, place, margins)
                panel.place(place)
                self.made[kind.name] = panel
                self.panels.append(panel)
                x += width / whole
        self._shown = set(provided)
        self._moved = True
        self.forget()

    def refresh(self, state: RunState) -> list[Panel]:
        """The panels that must be drawn anew."""
        if state.provided != self._shown:
            self._arrange(state.provided)
        return [panel for panel in self.panels if panel.refresh(state)]

    def draw(self, canvas, panels) -> None:
        renderer = canvas.get_renderer()
        if self._moved:
            renderer.clear()
            self._moved = False
        for panel in panels:
            panel.draw(canvas, renderer)

    def forget(self) -> None:
        for panel in self.panels:
            panel.forget()

    def rectangles(self) -> list[dict]:
        """Where each panel is, in pixels from the picture's upper left corner."""
        width, height = SIZE[0] * DPI, SIZE[1] * DPI
        found = []
        for panel in self.panels:
            x, y, w, h = panel.rectangle
            left, right = round(x * width), round((x + w) * width)
            top, bottom = round((1 - y - h) * height), round((1 - y) * height)
            found.append({"name": panel.name, "title": panel.title, "x": left, "y": top,
                          "width": right - left, "height": bottom - top})
        return found


def snapshot(state: RunState, path, fmt="png") -> None:
    """The picture as it is now, in a file (tests, and people who want to keep it)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    board = Board()
    canvas = FigureCanvasAgg(board.figure)
    renderer = canvas.get_renderer()
    renderer.clear()
    board.refresh(state)
    board.draw(canvas, board.panels)
    matplotlib.image.imsave(path, canvas.buffer_rgba(), format=fmt)
