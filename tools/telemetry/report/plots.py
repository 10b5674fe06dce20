"""The pictures of a report, as PNG files. Each answers one question; its caption says which and how to read it.

  medians.png     every boot as a dot, one row a test: how large, how scattered?
  ratios.png      each arm over the reference with its interval: which differences stand?
  contention.png  share of lock acquisitions that found the lock taken: where was the waiting?
  order.png       every boot over the order in which it ran: did the machine drift?
  axes.png        medians over a numeric axis: how does it scale?

Those of the allocator's layers are in layer_plots.py. Agg only, no state of pyplot kept; colours are told apart by colour-blind readers too.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure as Canvas  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

from .. import store, units  # noqa: E402
from . import words  # noqa: E402
from .content import Figure  # noqa: E402

ARM_COLOURS = ("#33658a", "#d1603d", "#2e8b6f", "#a05195", "#c29d0b", "#6b7075")
VERDICT_COLOURS = {"faster": "#0b6e4f", "slower": "#b3371e", "no difference": "#5a6570", "refused": "#b9c0c6",
                   "unreliable": "#c29d0b"}
OPEN_COLOUR = "#8d98a1"
INK, SOFT, LINE = "#1c2126", "#5a6570", "#dfe3e6"
STYLE = {
    "font.family": "sans-serif", "font.size": 9.5, "axes.edgecolor": LINE, "axes.labelcolor": SOFT,
    "xtick.color": SOFT, "ytick.color": INK, "text.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "ytick.major.size": 0, "axes.axisbelow": True,
    "legend.frameon": False,
}
ROWS_A_FIGURE = 60
WIDTH = 9.0
DPI = 144
LEAST_SHARE = 0.001


def draw_all(results: dict, folder: Path) -> list[Figure]:
    found = []
    with matplotlib.rc_context(STYLE):
        for draw in (medians, ratios, contention, axes, order):
            figure = draw(results, folder)
            if figure is not None:
                found.append(figure)
    return found


def colour(results: dict, arm: str) -> str:
    return ARM_COLOURS[list(results["arms"]).index(arm) % len(ARM_COLOURS)]


def _canvas(rows: int, row_height: float = 0.34, extra: float = 1.1):
    canvas = Canvas(figsize=(WIDTH, max(1.8, rows * row_height + extra)), dpi=DPI, facecolor="white")
    return canvas, canvas.add_subplot()


def _save(canvas, folder: Path, name: str) -> str:
    with store.aside(folder / name) as made:
        canvas.savefig(made, format="png", bbox_inches="tight", pad_inches=0.15, facecolor="white")
    return f"plots/{name}"


def _rows_down(ax, labels: list[str]) -> None:
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(axis="x", color=LINE, linewidth=0.8)
    for at in range(len(labels) - 1):
        ax.axhline(at + 0.5, color=LINE, linewidth=0.5)


def _log_axis(axis, low: float, high: float) -> None:
    """Plain figures at 1-2-5 steps where the range is short, else at powers of ten."""
    steps = (1.0,) if high / low > 300 else (1.0, 2.0, 5.0) if high / low > 4 else (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def medians(results: dict, folder: Path) -> Figure | None:
    tests = [t for t in results["tests"] if any(arm["median"] for arm in t["arms"].values())][:ROWS_A_FIGURE]
    if not tests:
        return None
    arms = list(results["arms"])
    canvas, ax = _canvas(len(tests), 0.3 + 0.09 * len(arms))
    everything = []
    for row, test in enumerate(tests):
        for place, arm in enumerate(arms):
            y = row + (place - (len(arms) - 1) / 2) * 0.72 / len(arms)
            values = [v for v in test["arms"][arm]["boots"] if v]
            if not values:
                continue
            everything += values
            ax.scatter(values, [y] * len(values), s=17, color=colour(results, arm), alpha=0.55, linewidths=0,
                       label=f"{arm}  {words.arms_apart(results['arms'])[arm]}" if row == _first_row(tests, arm) else None)
            median = test["arms"][arm]["median"]
            ax.plot([median, median], [y - 0.28 / len(arms) - 0.06, y + 0.28 / len(arms) + 0.06],
                    color=colour(results, arm), linewidth=2.2, solid_capstyle="butt")
    ax.set_xscale("log")
    low, high = min(everything), max(everything)
    ax.set_xlim(low / 1.15, high * 1.15)
    _log_axis(ax.xaxis, low, high)
    unit = {test["unit"] for test in tests}
    ax.set_xlabel(f"{' or '.join(sorted(unit))}, logarithmic (left is faster)")
    _rows_down(ax, [words.test_label(test) for test in tests])
    _legend_above(ax)
    name = _save(canvas, folder, "medians.png")
    return Figure(name, "Time an operation, every boot as a dot",
                  "Each dot is one boot (the geometric mean of its rounds), the bar is the arm's median.")


def _first_row(tests: list[dict], arm: str) -> int:
    return next((row for row, test in enumerate(tests) if any(v for v in test["arms"][arm]["boots"])), -1)


def _legend_above(ax, **extra) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.0), ncol=1, fontsize=9,
                  handletextpad=0.4, borderaxespad=0.3, **extra)


def ratios(results: dict, folder: Path) -> Figure | None:
    rows = []
    for test in results["tests"]:
        for arm, versus in test["versus"].items():
            if versus.get("ratio"):
                rows.append((test, arm, versus))
    rows = rows[:ROWS_A_FIGURE]
    if not rows:
        return None
    canvas, ax = _canvas(len(rows))
    many = len(results["arms"]) > 2
    extent = [1.0]
    for at, (test, arm, versus) in enumerate(rows):
        low, high = versus["interval"]
        shade = VERDICT_COLOURS.get(versus["verdict"], OPEN_COLOUR)
        if low and high:
            ax.plot([low, high], [at, at], color=shade, linewidth=2.4, solid_capstyle="round")
            extent += [low, high]
        ax.scatter([versus["ratio"]], [at], s=34, color=shade, zorder=3)
        extent.append(versus["ratio"])
        published = words.published_for(results, test, arm)
        if published:
            theirs = published[arm] / published[results["reference"]]
            ax.scatter([theirs], [at], s=34, marker="D", facecolors="white", edgecolors=INK, linewidths=1, zorder=2,
                       label="published" if not ax.get_legend_handles_labels()[0] else None)
            extent.append(theirs)
        ax.annotate(versus["verdict"], (1.012, at), xycoords=("axes fraction", "data"), va="center", fontsize=9,
                    color=shade if versus["verdict"] in words.CLAIMS else SOFT)
    band = 1 + results["minimum_effect"]
    ax.axvspan(1 / band, band, color="#eef1f3", zorder=0)
    ax.axvline(1, color=INK, linewidth=0.9)
    ax.set_xscale("log")
    low, high = min([*extent, 1 / band]), max([*extent, band])
    ax.set_xlim(low / 1.12, high * 1.12)
    _log_axis(ax.xaxis, low, high)
    reference = results["reference"]
    ax.set_xlabel(f"time an operation, over arm {reference} (below 1 is faster), logarithmic")
    _rows_down(ax, [words.test_label(t) + (f"  {arm}/{reference}" if many else "") for t, arm, _ in rows])
    _legend_above(ax)
    name = _save(canvas, folder, "ratios.png")
    shown = "; the diamond is the published ratio" if any(words.published_for(results, t, a) for t, a, _ in rows) else ""
    return Figure(name, "Ratio of each arm to the reference with its interval",
                  f"Ratio with its exact interval{shown}. The shaded band is the minimum effect: an interval inside it "
                  f"is no difference, one that leaves it entirely and survives the run-wide test is a verdict.")


def contention(results: dict, folder: Path) -> Figure | None:
    arms = list(results["arms"])
    rows = []
    for entry in results["locks"]:
        if entry["test"] is None:
            continue
        keys = [key for arm in arms for key in words.shares(entry["arms"].get(arm) or {})[:1]]
        if keys and max((entry["arms"][a].get(keys[0]) or 0) for a in arms if a in entry["arms"]) >= LEAST_SHARE:
            rows.append((entry, keys[0]))
    if not rows:
        return None
    rows.sort(key=lambda row: -max(row[0]["arms"][a].get(row[1]) or 0 for a in arms))
    rows = rows[:24]
    canvas, ax = _canvas(len(rows), 0.26 + 0.12 * len(arms))
    height = 0.7 / len(arms)
    for place, arm in enumerate(arms):
        y = [row + (place - (len(arms) - 1) / 2) * height for row in range(len(rows))]
        values = [100 * (entry["arms"].get(arm, {}).get(key) or 0) for entry, key in rows]
        ax.barh(y, values, height * 0.86, color=colour(results, arm),
                label=f"{arm}  {words.arms_apart(results['arms'])[arm]}")
        for at, value in zip(y, values):
            ax.annotate(units.share(value / 100), (value, at), xytext=(3, 0), textcoords="offset points",
                        va="center", fontsize=8, color=SOFT)
    ax.set_xlim(0, max(1.0, *(100 * (e["arms"].get(a, {}).get(k) or 0) for e, k in rows for a in arms)) * 1.1)
    ax.set_xlabel("acquisitions that found the lock taken, %")
    _rows_down(ax, [f"{entry['name']} lock · {words.test_label(entry | {'name': entry['test']})}" for entry, _ in rows])
    _legend_above(ax)
    name = _save(canvas, folder, "contention.png")
    return Figure(name, "Lock contention by arm",
                  "Share of acquisitions that found the lock taken, by lock class and test, medians over boots. Locks "
                  "that are free practically always are left out.")


def axes(results: dict, folder: Path) -> Figure | None:
    """Medians over the first numeric axis, one small panel a test; only where nothing else varies."""
    points = results["points"]
    keys = [k for k in points[0] if len({p[k] for p in points}) > 1] if points and points[0] else []
    if len(keys) != 1 or not all(isinstance(p[keys[0]], (int, float)) for p in points):
        return None
    key = keys[0]
    names = list(dict.fromkeys(test["name"] for test in results["tests"]))[:12]
    if not names:
        return None
    columns = min(3, len(names))
    lines = math.ceil(len(names) / columns)
    canvas = Canvas(figsize=(WIDTH, 2.5 * lines + 0.4), dpi=DPI, facecolor="white", layout="constrained")
    for at, name in enumerate(names):
        ax = canvas.add_subplot(lines, columns, at + 1)
        for arm in results["arms"]:
            series = sorted((t["point"][key], t["arms"][arm]["median"]) for t in results["tests"]
                            if t["name"] == name and t["arms"][arm]["median"])
            ax.plot([x for x, _ in series], [y for _, y in series], marker="o", markersize=4,
                    color=colour(results, arm), label=arm)
        ax.set_title(name, fontsize=9.5, loc="left", color=INK)
        ax.set_ylim(bottom=0)
        ax.set_xticks(sorted({p[key] for p in points}))
        ax.grid(color=LINE, linewidth=0.6)
        if at == 0:
            ax.legend(fontsize=8.5)
    canvas.supxlabel(key.removeprefix("machine."), fontsize=9.5, color=SOFT)
    return Figure(_save(canvas, folder, "axes.png"), f"Medians over {key}",
                  f"Median time an operation over {key.removeprefix('machine.')}, by arm.")


def order(results: dict, folder: Path) -> Figure | None:
    """Every boot's time over its arm's median, in the order in which boots ran, and the trend over all tests."""
    used = [boot for boot in results["boots"] if boot["used"]]
    if len(used) < 4:
        return None
    started = sorted(range(len(used)), key=lambda i: (used[i].get("started") or "", i))
    place = {used[i]["id"]: number + 1 for number, i in enumerate(started)}
    seen: dict[str, int] = {}
    where = []  # (arm, point, index among that arm's boots) of each used boot, as analyse lists them
    for boot in used:
        key = f"{boot['arm']} {boot['point']}"
        where.append((boot, seen.get(key, 0)))
        seen[key] = seen.get(key, 0) + 1
    canvas, ax = _canvas(6, 0.42)
    trend: dict[int, list[float]] = {}
    for arm in results["arms"]:
        xs, ys = [], []
        for boot, index in where:
            if boot["arm"] != arm:
                continue
            for test in results["tests"]:
                about = test["arms"][arm]
                if test["point"] == (boot["point"] or {}) and about["median"] and about["boots"][index]:
                    xs.append(place[boot["id"]])
                    ys.append(100 * (about["boots"][index] / about["median"] - 1))
        ax.scatter(xs, ys, s=13, color=colour(results, arm), alpha=0.5, linewidths=0, label=arm)
        for x, y in zip(xs, ys):
            trend.setdefault(x, []).append(y)
    middle = sorted((x, sorted(ys)[len(ys) // 2]) for x, ys in trend.items())
    if not middle:
        return None
    ax.plot([x for x, _ in middle], [y for _, y in middle], color=INK, linewidth=1.1, alpha=0.8)
    largest = max(abs(y) for ys in trend.values() for y in ys)
    ax.set_ylim(-max(5, min(largest * 1.1, 300)), max(5, min(largest * 1.1, 300)))
    ax.axhline(0, color=LINE)
    ax.grid(axis="y", color=LINE, linewidth=0.6)
    ax.set_xlabel("boots in the order in which they ran")
    ax.set_ylabel("% off the arm's median")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=len(results["arms"]), fontsize=9)
    return Figure(_save(canvas, folder, "order.png"), "Boots in the order in which they ran",
                  "Each dot is one test of one boot against its arm's median; the line is the middle of a boot's tests. "
                  "A slope or a step means that the machine changed during the run.")
