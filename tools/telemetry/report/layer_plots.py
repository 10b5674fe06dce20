"""The pictures of the allocator's layers, as PNG files.

  footprint.png  bytes by layer, stacked, one bar an arm: where is memory stranded?
  latency.png    median to 99.9th percentile of each level's calls, by arm: where is the tail?
  matrix.png     frees by allocating and freeing CPU: who frees whose objects?
  barn.png       sheaves in the barn while one boot of each arm ran: does a list stand at its limit?
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib

from .. import units
from . import plots, words
from .block import Figure

LAYER_COLOURS = ("#33658a", "#d1603d", "#2e8b6f", "#a05195", "#c29d0b", "#6b7075", "#7fa7c4", "#e6a58c")
LATENCY_ROWS = 36
LATENCY_SAMPLES = 100  # fewer in every arm: no picture of it
MATRICES = 12
BARN_LETTERS = 150  # so many of a test's name would fit in the whole width
LEAST_LETTERS = 8  # with room for fewer, as where short rounds of tests take turns, it is left out


def draw_all(results: dict, folder: Path) -> list[Figure]:
    with matplotlib.rc_context(plots.STYLE):
        found = [draw(results, folder) for draw in (footprint, latency, matrix, barn)]
    return [figure for figure in found if figure is not None]


def footprint(results: dict, folder: Path) -> Figure | None:
    """Only the layers that feed the panel of that name: tables that are the same for everybody would hide them."""
    entries = [entry for entry in results["footprint"] if entry.get("panel") == "footprint"]
    places = [(arm, point) for point in results["points"] for arm in results["arms"]]
    names = list(dict.fromkeys(entry["name"] for entry in entries))
    held = {(entry["name"], arm, str(entry["point"])): about.get("bytes") or 0
            for entry in entries for arm, about in entry["arms"].items()}
    if not any(held.values()) or len(places) > plots.ROWS_A_FIGURE:
        return None
    canvas, ax = plots._canvas(len(places), 0.42, 1.3 + 0.05 * len(names))
    ends = [0.0] * len(places)
    for number, name in enumerate(names):
        values = [held.get((name, arm, str(point)), 0) / 1024 for arm, point in places]
        if any(values):
            ax.barh(range(len(places)), values, 0.6, left=ends, color=LAYER_COLOURS[number % len(LAYER_COLOURS)],
                    label=name.removesuffix("_bytes").replace("_", " "))
            ends = [end + value for end, value in zip(ends, values)]
    for row, end in enumerate(ends):
        ax.annotate(units.bytes_(end * 1024), (end, row), xytext=(4, 0), textcoords="offset points", va="center",
                    fontsize=8.5, color=plots.SOFT)
    ax.set_xlim(0, max(ends) * 1.12)
    step = 2.0 ** math.ceil(math.log2(max(ends) / 6))
    ax.set_xticks([step * tick for tick in range(1 + int(max(ends) * 1.12 / step))])
    ax.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: units.bytes_(value * 1024)))
    ax.set_xlabel("held at rest")
    apart = words.arms_apart(results["arms"])
    plots._rows_down(ax, [f"{arm}  {apart[arm]}" + (f"  {words.point_text(point)}" if point else "")
                          for arm, point in places])
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=4, fontsize=8.5, handlelength=1, columnspacing=1.2)
    return Figure(plots._save(canvas, folder, "footprint.png"), "Bytes held by each layer at rest, by arm",
                  "Bytes in each layer after a test's rounds, at most over the tests. Nothing of it is in use: it is what "
                  "the arm's layers keep back, and what states and alignment take.")


def latency(results: dict, folder: Path) -> Figure | None:
    every = [entry for entry in results.get("latency") or []
             if any(about["samples"] >= LATENCY_SAMPLES for about in entry["arms"].values())]
    entries = every[:LATENCY_ROWS]
    if not entries:
        return None
    arms = [arm for arm in results["arms"] if any(arm in entry["arms"] for entry in entries)]
    canvas, ax = plots._canvas(len(entries), 0.26 + 0.09 * len(arms))
    seen, labelled = [], set()
    for row, entry in enumerate(entries):
        for place, arm in enumerate(arms):
            about = entry["arms"].get(arm)
            points = [about[key] for key in ("p50", "p99", "p999") if about[key]] if about else []
            if not points:
                continue
            y = row + (place - (len(arms) - 1) / 2) * 0.7 / len(arms)
            paint = plots.colour(results, arm)
            ax.plot([points[0], points[-1]], [y, y], color=paint, linewidth=1.6, alpha=0.7)
            ax.scatter(points[:1], [y], s=30, color=paint, zorder=3, label=None if arm in labelled else
                       f"{arm}  {words.arms_apart(results['arms'])[arm]}")
            ax.scatter(points[1:2], [y] * len(points[1:2]), s=30, color=paint, marker="|", zorder=3)
            ax.scatter(points[2:], [y] * len(points[2:]), s=16, color=paint, marker=">", zorder=3)
            labelled.add(arm)
            seen += points
    if not seen:
        return None
    low, high = min(seen), max(seen)
    ax.set_xscale("log")
    ax.set_xlim(low / 1.3, high * 1.3)
    plots._log_axis(ax.xaxis, low, high)
    ax.set_xlabel(f"{entries[0]['unit']} a call, logarithmic (left is quicker)")
    plots._rows_down(ax, [f"{words.test_label(e | {'name': e['test']})} · {e['level']} {e['call']}" for e in entries])
    plots._legend_above(ax)
    more = len(every) - len(entries)
    return Figure(plots._save(canvas, folder, "latency.png"), "How long calls took, by level",
                  "Dot: the median call; bar: the 99th percentile; arrow: the 99.9th. A call contains what the levels "
                  "below it took." + (f" {more} more rows are in results.json." if more else ""))


def matrix(results: dict, folder: Path) -> Figure | None:
    shown = [(entry, arm) for entry in results.get("matrix") or [] for arm in results["arms"]
             if (entry["arms"].get(arm) or {}).get("remote_share")]
    left_out, shown = len(shown) - MATRICES, shown[:MATRICES]
    if not shown:
        return None
    cpus = 1 + max(cpu for entry, arm in shown for cell in entry["arms"][arm]["cells"] for cpu in cell[:2])
    most = max(cell[2] / (sum(c[2] for c in entry["arms"][arm]["cells"]) or 1)
               for entry, arm in shown for cell in entry["arms"][arm]["cells"])
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    canvas = plots.Canvas(figsize=(plots.WIDTH, 2.6 * rows + 0.3), dpi=plots.DPI, facecolor="white", layout="constrained")
    for at, (entry, arm) in enumerate(shown):
        ax = canvas.add_subplot(rows, columns, at + 1)
        _one_matrix(ax, entry, arm, cpus, most)
        if at % columns == 0:
            ax.set_ylabel("allocated on CPU", fontsize=8.5)
        if at >= len(shown) - columns:
            ax.set_xlabel("freed on CPU", fontsize=8.5)
    return Figure(plots._save(canvas, folder, "matrix.png"), "Frees by allocating and freeing CPU",
                  "Share of a test's frees by the CPU that allocated (down) and the CPU that freed (across); the "
                  "diagonal is what stayed at home. Tests in which nothing crossed are not shown."
                  + (f" {left_out} more are in results.json." if left_out > 0 else ""))


def _one_matrix(ax, entry: dict, arm: str, cpus: int, most: float) -> None:
    """most: the largest share in the picture, so that shares of many CPUs are seen too."""
    about = entry["arms"][arm]
    total = sum(cell[2] for cell in about["cells"]) or 1
    shares = [[0.0] * cpus for _ in range(cpus)]
    for made, freed, count in about["cells"]:
        shares[made][freed] = count / total
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=most, aspect="equal")
    ax.set_title(f"{words.test_label(entry | {'name': entry['test']})} · {arm}", fontsize=8.5, loc="left", color=plots.INK)
    step = max(1, cpus // 8)
    ax.set_xticks(range(0, cpus, step))
    ax.set_yticks(range(0, cpus, step))
    ax.tick_params(length=0, labelsize=8)
    if cpus <= 8:
        for made in range(cpus):
            for freed in range(cpus):
                share = shares[made][freed]
                ax.text(freed, made, units.share(share) if share else "0", ha="center", va="center",
                        fontsize=8 if cpus <= 4 else 6, color="white" if share > 0.55 * most else plots.INK)


def barn(results: dict, folder: Path) -> Figure | None:
    entries = [entry for entry in results.get("barn") or [] if entry["levels"]]
    if not entries:
        return None
    canvas = plots.Canvas(figsize=(plots.WIDTH, 1.75 * len(entries) + 0.6), dpi=plots.DPI, facecolor="white",
                          layout="constrained")
    end = max(entry["seconds"] for entry in entries)
    one_unit = len({entry["levels"][0]["unit"] for entry in entries}) == 1
    first = None
    for at, entry in enumerate(entries):
        ax = first = canvas.add_subplot(len(entries), 1, at + 1, sharex=first, sharey=first if one_unit else None)
        _one_barn(ax, entry, end, words.arms_apart(results["arms"]).get(entry["arm"], ""))
        ax.tick_params(labelbottom=at == len(entries) - 1)
    first.set_xlabel("seconds since the boot's first record", fontsize=8.5)
    return Figure(plots._save(canvas, folder, "barn.png"), "What lay in the barn while a boot ran, by arm",
                  "One boot of each arm; the cache is the one that was exchanged with most. Dashed: the limit of the line "
                  "of that colour. A value is drawn until the next sample, of which there are at most four a second in timed sections.")


def _one_barn(ax, entry: dict, end: float, apart: str) -> None:
    unit = entry["levels"][0]["unit"]
    shown = [level for level in entry["levels"] if level["unit"] == unit]
    for place, level in enumerate(shown):
        paint = LAYER_COLOURS[place % len(LAYER_COLOURS)]
        points = level["points"] or [[0, 0]]
        times, values = zip(*(*points, [entry["seconds"], points[-1][1]]))
        ax.plot(times, [math.nan if value is None else value for value in values], color=paint, drawstyle="steps-post",
                linewidth=2.2 - 0.5 * place, label=level["name"].replace("_", " "))
        if level["limit"] is not None:
            ax.axhline(level["limit"], color=paint, linestyle=(5 * place, (5, 5 * max(1, len(shown) - 1))), linewidth=1)
    most = max(max([value or 0 for _, value in level["points"]] + [level["limit"] or 0]) for level in shown)
    ax.set_ylim(-0.05 * most, 1.3 * max(most, ax.get_ylim()[1] / 1.3))
    ax.set_xlim(0, end)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncol=len(shown), fontsize=8.5, borderaxespad=0, handlelength=1.4)
    ax.set_ylabel(unit, fontsize=8.5)
    ax.set_title(f"{entry['arm']}  {apart}  ·  {entry['cache']}  ·  boot {entry['boot']}", fontsize=8.5, loc="left",
                 color=plots.INK)
    ax.grid(axis="y", color=plots.LINE, linewidth=0.6)
    begins = [began for _, began in entry["tests"]]
    for (name, began), until in zip(entry["tests"], [*begins[1:], end]):
        room = int((until - began) / end * BARN_LETTERS)
        if room < min(len(name), LEAST_LETTERS):
            continue
        ax.axvline(began, color=plots.SOFT, linewidth=0.7)
        ax.annotate(name if len(name) <= room else name[:room - 1] + "…", (began, 1), xycoords=("data", "axes fraction"), xytext=(3, -10), textcoords="offset points",
                    fontsize=7.5, color=plots.SOFT)
