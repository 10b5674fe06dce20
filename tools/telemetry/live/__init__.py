"""The live view: a process of its own that only reads a run's folder (state, panels, page,
terminal).

  start_view  for people
  Watched     for an experiment about the view itself: the page of one boot, with somebody who looks
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from .. import ROOT
from ..errors import EXIT_MACHINE, HayloftError
from ..machine import child

START_MOST = 60.0  # seconds: Matplotlib's first import builds a font cache


def start_view(run_dir: str | Path, kind: str, port: int | None = None,
               boot: str | None = None) -> subprocess.Popen:
    """Starts the view of a run's folder (boot: of that one alone); the process's `address` is the
    page's, or "" for a terminal's. It ends by itself with the run or the parent; child.end() ends it sooner. Main
    thread."""
    words = [sys.executable, "-m", "telemetry.live", kind, str(run_dir), "--parent",
             str(os.getpid())]
    if port:
        words += ["--port", str(port)]
    if boot:
        words += ["--boot", boot]
    environment = _environment()
    if kind == "term":
        view = child.start(words, env=environment)
        view.address = ""
        return view
    view = child.start(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        view.address = _first_line(view)
    except BaseException:
        child.end(view)
        raise
    return view


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "tools")}


def _first_line(view: subprocess.Popen) -> str:
    """The first line of a process's output, or the reason why there is none."""
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


class Watched:
    """The page of one boot and somebody who looks at it (looker.py), until end(). Both are there,
    and the first picture has been sent, before the constructor returns. Main thread."""

    def __init__(self, run_dir: str | Path, boot: str):
        self._view = start_view(run_dir, "web", boot=boot)
        self._looker = None
        try:
            words = [sys.executable, "-m", "telemetry.live.looker", self._view.address]
            self._looker = child.start(words, env=_environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            _first_line(self._looker)
        except BaseException:
            self.end()
            raise

    def cost(self) -> dict:
        """What it was so far: pictures drawn, and CPU seconds of the view and of who looked."""
        try:
            with urllib.request.urlopen(self._view.address + "panels.json", timeout=30) as answer:
                frames = json.load(answer)["frames"]
        except OSError as error:
            raise HayloftError(f"the live page was lost while a boot ran: {error}",
                               EXIT_MACHINE) from None
        return {"view": "web", "frames": frames, "cpu_seconds": _cpu_seconds(self._view.pid),
                "looker_cpu_seconds": _cpu_seconds(self._looker.pid)}

    def end(self) -> None:
        for process in (self._looker, self._view):
            if process is not None:
                child.end(process)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
