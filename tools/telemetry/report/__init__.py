"""The report of a run: report.md, report.html and plots/*.png, from results.json alone.

Files are written aside and renamed, pictures first, so that a reader never sees a page without them. Plots
of an earlier report that this one does not have are removed.
"""

from __future__ import annotations

from pathlib import Path

from .. import store
from . import content, layer_plots, plots, render


def write_report(run_dir: Path, results: dict) -> None:
    run_dir = Path(run_dir)
    folder = run_dir / "plots"
    folder.mkdir(exist_ok=True)
    figures = plots.draw_all(results, folder) + layer_plots.draw_all(results, folder)
    kept = {Path(figure.file).name for figure in figures}
    for old in folder.glob("*.png"):
        if old.name not in kept:
            old.unlink()
    blocks = content.blocks(results, figures)
    store.write_text(run_dir / "report.md", render.markdown(blocks))
    store.write_text(run_dir / "report.html", render.page(blocks, run_dir))
