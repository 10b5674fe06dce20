"""The view in a plain terminal: what it says, on any kind of terminal, and that it ends."""

import io
import os
import pty
import re
import subprocess
import sys
import time

import pytest
import synth
from rich.console import Console
from telemetry import ROOT, decode
from telemetry.live import term
from telemetry.live.feed import BootFeed, RunFeed
from telemetry.live.state import BootState, RunState

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}


def run_of(tmp_path, **changes):
    run = tmp_path / "run"
    plans = {arm: synth.plan_for(arm, **{"rounds": 2, "noise": 0.0, "round_ms": 900, **changes})
             for arm in "AB"}
    synth.write_run(run, plans, pairs=2)
    return run


def console(encoding="utf-8", width=100):
    return Console(file=io.TextIOWrapper(io.BytesIO(), encoding), width=width, highlight=False,
                   color_system=None)


def said(console_):
    console_.file.flush()
    return console_.file.buffer.getvalue().decode(console_.file.encoding)


def test_it_says_what_was_planted(tmp_path):
    screen = console()
    term.show(RunFeed(run_of(tmp_path)), linger=0, console=screen)
    text = said(screen).rpartition("A synthetic run")[2]
    assert "run done" in text
    assert re.search(r"CPU 1 +\S.* 70\.0%", text)
    assert re.search(r"cache kmalloc-4096 +█+ +70\.0%", text)
    assert "no barn in this boot" in text
    assert re.search(r"malloc/64/all-cpus +900\.0 \(2\) +107\.0 \(2\) +8\.41", text)


def test_it_says_what_the_kernel_left_out(tmp_path):
    attic = {"name": "attic", "unit": "KiB", "amount": 100, "of": 5000, "doc": "what lay in the attic", "detail": "in boxes"}
    screen = console()
    term.show(RunFeed(run_of(tmp_path, left_out=(attic,))), linger=0, console=screen)
    assert "left out: 100 of 5,000 KiB: what lay in the attic (in boxes)" in said(screen)


def test_a_terminal_without_unicode(tmp_path):
    screen = console("ascii")
    term.show(RunFeed(run_of(tmp_path)), linger=0, console=screen)
    text = said(screen)
    assert text.isascii()
    assert re.search(r"cache kmalloc-4096 +#+ +70\.0%", text)


@pytest.mark.parametrize("width", [20, 40, 300])
def test_any_width(tmp_path, width):
    screen = console(width=width)
    term.show(RunFeed(run_of(tmp_path, cpus=40)), linger=0, console=screen)
    assert max(map(len, said(screen).splitlines())) <= width


def test_nothing_yet_is_said():
    screen = console()
    screen.print(term.picture(RunState(), term.Marks(screen)))
    assert "waiting for the first boot" in said(screen)


def test_markup_in_names_is_only_text(tmp_path):
    run = tmp_path / "run"
    tests = (synth.Test("malloc/64/[bold red]x[/nope]", 100.0),)
    synth.write_run(run, {"A": synth.Plan(tests, rounds=1)}, pairs=1)
    screen = console(width=160)
    term.show(BootFeed(run / "boots" / "01-A", 0), linger=0, console=screen)
    assert "malloc/64/[bold red]x[/nope]" in said(screen)


@pytest.mark.parametrize("kind", ["dumb", "xterm", "none"])
def test_as_a_process_on_a_terminal(tmp_path, kind):
    """A terminal that can place its cursor gets a picture that stays; one that cannot gets no
    control codes."""
    run = run_of(tmp_path)
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "telemetry.live", "term", str(run), "--linger", "0"]
    environment = {**ENVIRONMENT, "TERM": "dumb" if kind == "none" else kind, "LANG": "C.UTF-8",
                   "COLUMNS": "100"}
    out = slave if kind != "none" else subprocess.PIPE
    view = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    os.close(slave)
    try:
        text = read_all(master if kind != "none" else view.stdout.fileno(), view)
        assert view.wait(30) == 0
    finally:
        view.kill()
        view.wait()
        os.close(master)
        if view.stdout:
            view.stdout.close()
    assert "malloc/64/all-cpus" in text
    assert ("\x1b[" in text) == (kind == "xterm")


def read_all(descriptor, view):
    data, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the terminal's other end was closed
            break
        if not piece:
            break
        data += piece
    return data.decode("utf-8", "replace")


def test_layers_times_and_crossings_are_shown():
    """What latency= and matrix= told of the newest round, and the bytes that each layer holds."""
    boot = BootState("01-A", "A")
    reader = decode.Decoder()
    data = synth.capture(synth.plan_for("A", observed=True, rounds=2))
    for item in reader.feed(data) + reader.finish():
        boot.take(item)
    assert set(boot.latency) == {("front", "alloc"), ("front", "free")}
    away, frees = boot.crossed  # the last test runs on both CPUs: a quarter is freed by the other
    assert frees and abs(away / frees - 0.25) < 0.001
    held = {line.label: line.values[-1] for line in boot.footprint()}
    assert held["front_bytes"] == 2 * 4096 * 2, "of two size classes, the newest value of each"
    screen = console()
    screen.print(term.memory(boot, term.Marks(screen)), term.times(boot))
    text = said(screen)
    assert "front_bytes" in text and "16 KiB" in text
    assert "front" in text and "5,000" in text and "elsewhere" in text and "25 %" in text


def test_barns_are_shown_with_their_limits(tmp_path):
    screen = console()
    term.show(RunFeed(run_of(tmp_path, stored=0.9)), linger=0, console=screen)
    text = said(screen).rpartition("A synthetic run")[2]
    assert re.search(r"CPU 1 +\S.* 90\.0%$", text, re.M), text
    assert re.search(r"^kmalloc-4096 *$", text, re.M)
    assert re.search(r"barn_full .* \d of 10$", text, re.M)
    assert "no barn" not in text
