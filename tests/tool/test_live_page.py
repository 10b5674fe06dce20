"""The live page as a person sees it: headless Chromium, a machine that is played, two pictures
compared.

Every panel's rectangle must differ between two pictures while records come, and be equal while none
come. The same process is also tried without a browser: whom it outlives, and what a hostile page
can do to it.
"""

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy
import pytest
import synth
import tornado.httpclient
import tornado.ioloop
import tornado.websocket
from browser import CHROMIUM, DRIVER, HEIGHT, WIDTH, Browser
from PIL import Image
from telemetry import ROOT, live
from telemetry.machine import child

PATIENCE = 90  # seconds: the machines that run this are shared and slow
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'tests/tool'}"}


def about(view) -> dict:
    with urllib.request.urlopen(view.address + "panels.json", timeout=30) as answer:
        return json.load(answer)


def wait_for(what, seconds=PATIENCE, pause=0.3):
    """The first true value of what(), or the last false one when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(pause)


def pixels_of(picture: bytes) -> numpy.ndarray:
    return numpy.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def crop(picture: bytes, panel: dict) -> numpy.ndarray:
    pixels = pixels_of(picture)
    x, y = panel["x"], panel["y"]
    return pixels[y : y + panel["height"], x : x + panel["width"]]


def differing(one: bytes, other: bytes, panels: list[dict]) -> set[str]:
    return {panel["name"] for panel in panels
            if not numpy.array_equal(crop(one, panel), crop(other, panel))}


@pytest.fixture
def started():
    """Processes to be ended whatever happens."""
    processes = []
    yield processes
    for process in processes:
        process.send_signal(signal.SIGCONT)
        child.end(process)


def play(run: Path, started, *words) -> subprocess.Popen:
    """A run of played boots, in real time, by a process of its own."""
    command = [sys.executable, str(ROOT / "tests/tool/synth.py"), "--run", str(run), "--pace", "1",
               *words]
    process = child.start(command, env=ENVIRONMENT)
    started.append(process)
    return process


@pytest.mark.skipif(not (CHROMIUM and DRIVER),
                    reason="chromium and chromium-driver are not installed")
@pytest.mark.parametrize("words, joining", [
    ((), set()), (("--layers",), {"barn", "footprint", "latency", "matrix"})], ids=["few", "all"])
def test_every_panel_moves_with_the_feed_and_only_with_it(tmp_path, started, words, joining):
    run = tmp_path / "run"
    view = live.start_view(run, "web")
    started.append(view)
    with Browser(tmp_path) as browser:
        browser.open(view.address)
        assert browser.title() == "Hayloft live: waiting"
        assert browser.script("return [innerWidth, innerHeight]") == [WIDTH, HEIGHT]
        assert browser.script("return document.documentElement.scrollHeight") <= HEIGHT
        few = {panel["name"] for panel in about(view)["panels"]}
        assert few == {"header", "contention-cpu", "contention-lock", "hits", "churn", "medians",
                       "over"}
        wait_for(lambda: pixels_of(browser.screenshot()).std() > 5)
        waiting = browser.screenshot()

        writer = play(run, started, "--pairs", "50", "--rounds", "5", *words)
        assert wait_for(lambda: about(view)["boots"] >= 3), about(view)
        panels = about(view)["panels"]
        names = {panel["name"] for panel in panels}
        assert names == few | joining
        first = browser.screenshot()
        assert wait_for(lambda: differing(waiting, browser.screenshot(), panels) == names)
        moved = wait_for(lambda: differing(first, browser.screenshot(), panels) == names, pause=1.5)
        assert moved, f"these never moved: {names - differing(first, browser.screenshot(), panels)}"

        os.kill(writer.pid, signal.SIGSTOP)
        frames = None
        while frames != (frames := about(view)["frames"]):
            time.sleep(3)
        still = browser.screenshot()
        time.sleep(4)
        assert differing(still, browser.screenshot(), panels) == set()

        os.kill(writer.pid, signal.SIGCONT)
        assert wait_for(lambda: "contention-cpu" in differing(still, browser.screenshot(), panels))
        # the page's own, as it was when it was loaded
        assert browser.title() == "Hayloft live: waiting"
        browser.open(view.address)
        assert browser.title() == "Hayloft live: A synthetic run"
        late = wait_for(lambda: differing(waiting, browser.screenshot(), panels) == names)
        assert late, "a page that is opened late has no picture"


def test_the_view_ends_soon_after_the_run(tmp_path, started):
    run = tmp_path / "run"
    synth.write_run(run, {arm: synth.plan_for(arm, rounds=1) for arm in "AB"}, pairs=1)
    view = live.start_view(run, "web")
    started.append(view)
    assert view.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_view_ends_with_its_parent(tmp_path, number):
    text = ("import sys, time; from telemetry import live; "
            "view = live.start_view(sys.argv[1], 'web'); "
            "print(view.pid, flush=True); time.sleep(600)")
    parent = subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], env=ENVIRONMENT,
                              stdout=subprocess.PIPE)
    try:
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        parent.send_signal(number)
        assert wait_for(lambda: gone(pid), 20)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def gone(pid: int) -> bool:
    """Whether a process that is nobody's child here is dead (it may be a zombie of init's for a
    while)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_only_this_machine_can_look(tmp_path, started):
    view = live.start_view(tmp_path, "web")
    started.append(view)
    assert view.address.startswith("http://127.0.0.1:")
    port = int(view.address.rsplit(":", 1)[1].strip("/"))
    listeners = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    bound = {fields[1] for fields in listeners if fields[3] == "0A"
             and int(fields[1].split(":")[1], 16) == port}
    assert bound == {f"0100007F:{port:04X}"}


def test_a_port_that_is_taken_is_one_line(tmp_path, started):
    first = live.start_view(tmp_path, "web")
    started.append(first)
    port = int(first.address.rsplit(":", 1)[1].strip("/"))
    with pytest.raises(live.HayloftError) as caught:
        live.start_view(tmp_path, "web", port)
    assert f"port {port} cannot be used" in str(caught.value)
    assert "--port" in str(caught.value)


def test_what_a_page_sends_cannot_hurt(tmp_path, started):
    run = tmp_path / "run"
    synth.begin_run(run, {"A": synth.plan_for("A")}, 1)
    view = live.start_view(run, "web")
    started.append(view)
    messages = ["", "{", "[]", "5", "null", '{"type": 7}',
                '{"type": "resize", "width": 1e9, "height": 1e9}',
                '{"type": "button_press", "x": "a"}',
                '{"type": "set_device_pixel_ratio", "device_pixel_ratio": 1e9}',
                '{"type": "set_device_pixel_ratio"}',
                '{"type": "toolbar_button", "name": "__init__"}', "x" * 100_000]

    async def talk():
        socket = await tornado.websocket.websocket_connect(view.address.replace("http", "ws") +
                                                           "ws")
        for message in messages:
            await socket.write_message(message)
        await socket.write_message('{"type": "draw"}')
        while True:
            answer = await socket.read_message()
            if answer is None or isinstance(answer, bytes):
                socket.close()
                return answer

    picture = tornado.ioloop.IOLoop().run_sync(talk, timeout=PATIENCE)
    assert Image.open(io.BytesIO(picture)).size == (WIDTH, HEIGHT)
    assert view.poll() is None
    assert about(view)["size"] == [WIDTH, HEIGHT]


def test_titles_are_escaped(tmp_path, started):
    run = tmp_path / "run"
    described = synth.begin_run(run, {"A": synth.plan_for("A")}, 1)
    synth.write_json(run / "run.json",
                     {**described, "title": "<script>alert(1)</script> $\\frac{1}{0}$ $x"})
    view = live.start_view(run, "web")
    started.append(view)
    wait_for(lambda: "script" in about(view)["title"])
    with urllib.request.urlopen(view.address, timeout=30) as answer:
        page = answer.read().decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert view.poll() is None
