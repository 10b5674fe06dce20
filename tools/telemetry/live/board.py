"""The picture: a header and seven panels on one Matplotlib figure, redrawn in parts.

A whole draw of such a figure takes about a third of a second, which a watched machine would feel.
So the board draws only the panels that changed, and each of these draws mostly what moves on it
(panels.py).
"""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from .panels import (COLOURS, Barn, Churn, Contention, Hits, Locks, Medians, Over, Panel,
                     arm_colour, shorten)
from .state import RunState

SIZE = (12.8, 7.2)  # inches at 100 dots
DPI = 100
HEADER = 0.075  # of the height

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
        top, half = 1 - HEADER, (1 - HEADER) / 2
        third = 1 / 3
        plain = (0.05, 0.07, 0.012, 0.055)
        self.panels = [
            Header(self.figure, (0, top, 1, HEADER), (0.012, 0.005, 0.012, 0.012)),
            Contention(self.figure, (0, half, third, half), plain),
            Locks(self.figure, (third, half, third, half), (0.1, 0.07, 0.012, 0.055)),
            Hits(self.figure, (2 * third, half, third, half), plain),
            Barn(self.figure, (0, 0, 0.21, half), (0.033, 0.07, 0.012, 0.055)),
            Churn(self.figure, (0.21, 0, 0.25, half), (0.043, 0.07, 0.012, 0.055)),
            Medians(self.figure, (0.46, 0, 0.34, half), (0.118, 0.07, 0.015, 0.055)),
            Over(self.figure, (0.80, 0, 0.20, half), (0.012, 0.07, 0.015, 0.055)),
        ]

    def refresh(self, state: RunState) -> list[Panel]:
        """The panels that must be drawn anew."""
        return [panel for panel in self.panels if panel.refresh(state)]

    def draw(self, canvas, panels) -> None:
        renderer = canvas.get_renderer()
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
