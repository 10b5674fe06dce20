"""The live view: a process of its own that only reads a run's folder (state, panels, page,
terminal)."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from .. import ROOT
from ..errors import EXIT_MACHINE, HayloftError
from ..machine import child

START_MOST = 60.0  # seconds: Matplotlib's first import builds a font cache


def start_view(run_dir: str | Path, kind: str, port: int | None = None) -> subprocess.Popen:
    """Starts the view of a run's folder; the process's `address` is the page's, or "" for a
    terminal's. It ends by itself with the run or the parent; child.end() ends it sooner. Main
    thread."""
    words = [sys.executable, "-m", "telemetry.live", kind, str(run_dir), "--parent",
             str(os.getpid())]
    if port:
        words += ["--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    if kind == "term":
        view = child.start(words, env=environment)
        view.address = ""
        return view
    view = child.start(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        view.address = _address(view)
    except BaseException:
        child.end(view)
        raise
    return view


def _address(view: subprocess.Popen) -> str:
    """The first line of the view's output, or the reason why there is none."""
    deadline, line = time.monotonic() + START_MOST, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([view.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise HayloftError(f"the live page did not start within {START_MOST:.0f} s; "
                               "try --live term", EXIT_MACHINE)
        piece = os.read(view.stdout.fileno(), 4096)
        if not piece:
            said = view.stderr.read().decode("utf-8", "replace").strip().splitlines()
            raise HayloftError(said[-1] if said else "the live page did not start; try --live term",
                               EXIT_MACHINE)
        line += piece
    return line.decode("utf-8", "replace").splitlines()[0]
