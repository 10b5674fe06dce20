"""Raw units in, human text out. The kernel counts ticks, bytes and operations; people read ns and KiB.

Pure functions; nothing here knows a counter, a test or a machine.
"""

from __future__ import annotations

import math
from statistics import median


def middle(values) -> float | None:
    """The median of those values that there are (the rest are None); None if there are none."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def ns(ticks: float, tsc_hz: float) -> float:
    return ticks * 1e9 / tsc_hz


def number(value: float | None) -> str:
    """Four significant digits at most, thousands separated: 2,130  107.8  0.4512  1.2e+09 never."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 10:
        return f"{value:.2f}".rstrip("0").rstrip(".")
    if size >= 0.001:
        return f"{value:.3g}"
    return f"{value:.1e}"


def count(value: float | None) -> str:
    """A tally: whole numbers exactly, large ones shortened by magnitude."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size >= limit:
            return f"{value / limit:.3g} {unit}"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return number(value)


def bytes_(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1000 or unit == "GiB":
            return f"{value:.3g} {unit}"
        value /= 1024
    return ""


def share(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0 %"
    if value < 0.0001:
        return "<0.01 %"
    return f"{100 * value:.3g} %"


def change(value: float | None) -> str:
    """A relative change as people write it: +24.2 %, -97.7 %, x120."""
    if value is None or not math.isfinite(value):
        return "–"
    if value >= 9:
        return f"×{value + 1:.3g}"
    return f"{100 * value:+.1f} %"


def times(ratio: float) -> str:
    """'4.2 times' for a ratio above one; percent where that reads better."""
    if ratio >= 1.995:
        return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:.0f} times"
    return f"{100 * (ratio - 1):.0f} %"


def duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min"
