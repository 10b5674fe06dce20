"""The live page where something is not as it should be: screens of different density, browsers that stop reading, a
line that is unplugged, boots that fail, the end of a run."""

import asyncio
import io
import json
import types

import numpy
import pytest
import synth
from browser import CHROMIUM, DRIVER, Browser
from PIL import Image
from telemetry import live, replay
from telemetry.errors import HayloftError
from telemetry.live import web
from telemetry.live.feed import RunFeed, SerialFeed
from telemetry.machine import child
from test_live_page import about, wait_for

needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")


def pixels(browser):
    """The page's picture at one dot a pixel."""
    found = Image.open(io.BytesIO(browser.screenshot())).convert("L")
    return numpy.asarray(found.resize((1280, 720)))


def drawn(browser, panels):
    """Panels with something on them."""
    seen = pixels(browser)
    return {panel["name"] for panel in panels
            if seen[panel["y"]:panel["y"] + panel["height"], panel["x"]:panel["x"] + panel["width"]].std() > 3}


@pytest.fixture
def view(tmp_path):
    """The page of a run that goes on and has no new records."""
    run = tmp_path / "run"
    plans = {arm: synth.plan_for(arm, rounds=2) for arm in "AB"}
    for entry in synth.begin_run(run, plans, 1)["order"]:
        synth.run_boot(run, entry, plans[entry["arm"]])
    process = live.start_view(run, "web")
    process.run = run
    yield process
    child.end(process)


@needs_browser
def test_a_finer_screen_leaves_the_others_the_whole_picture(view, tmp_path):
    names = {panel["name"] for panel in about(view)["panels"]}
    with Browser(tmp_path / "plain") as plain:
        plain.open(view.address)
        assert wait_for(lambda: drawn(plain, about(view)["panels"]) == names)
        with Browser(tmp_path / "fine", scale=2) as fine:
            fine.open(view.address)
            assert wait_for(lambda: drawn(fine, about(view)["panels"]) == names)
            # both look: the finer one gets its dots, the plain one the whole picture
            assert wait_for(lambda: fine.script("return figure.canvas.width") == 2560)
            assert wait_for(lambda: drawn(plain, about(view)["panels"]) == names)
        plain.open(view.address)
        assert wait_for(lambda: drawn(plain, about(view)["panels"]) == names)
        assert wait_for(lambda: plain.script("return figure.canvas.width") == 1280)


@needs_browser
def test_the_page_says_that_the_run_is_over_and_where_its_report_is(view, tmp_path):
    with Browser(tmp_path / "profile") as browser:
        browser.open(view.address)
        assert "first picture" in browser.script("return document.getElementById('wait').textContent")
        assert wait_for(lambda: browser.script("return getComputedStyle(document.getElementById('wait')).display") == "none")
        description = json.loads((view.run / "run.json").read_text())
        synth.write_json(view.run / "run.json", {**description, "state": "done"})
        assert wait_for(lambda: browser.script("return getComputedStyle(document.getElementById('gone')).display") == "block")
        text = browser.script("return document.getElementById('gone').textContent")
        assert "The run is done" in text and str(view.run / "report.html") in text
        on_top = browser.script("const box = document.getElementById('gone').getBoundingClientRect();"
                                "return document.elementFromPoint(box.x + 5, box.y + 5).id")
        assert on_top == "gone"


def test_the_last_picture_is_of_the_end(tmp_path):
    """Who asks the view to end gets what was still to be read, and pages are told."""
    run = tmp_path / "run"
    plan = synth.plan_for("A", rounds=1)
    entry = synth.begin_run(run, {"A": plan}, 1)["order"][0]
    shown = web.View(RunFeed(run))
    told = []
    shown.manager.web_sockets = [types.SimpleNamespace(send_json=told.append, send_binary=lambda blob: None, ratio=1)]
    synth.run_boot(run, entry, plan)
    description = json.loads((run / "run.json").read_text())
    synth.write_json(run / "run.json", {**description, "state": "done"})
    shown.finish()
    assert shown.feed.ended and shown.feed.state.where() == "run done: 1 of 1 boots ok"
    assert any(message.get("type") == "ended" for message in told)


class Slow:
    """The connection of a browser that takes what it is sent when it likes."""

    def __init__(self):
        self.sent, self.pending = [], []

    def __call__(self, message, binary=False):
        self.sent.append(message)
        self.pending.append(asyncio.get_event_loop().create_future())
        return self.pending[-1]


def test_a_browser_that_stops_reading_is_sent_nothing_more(tmp_path):
    async def talk():
        shown = web.View(RunFeed(tmp_path))
        page = web._Socket.__new__(web._Socket)
        page.ratio, page.unsent, page.behind, page.view = 1, 0, False, shown
        page.write_message = slow = Slow()
        shown.manager.web_sockets.add(page)
        for _ in range(1000):
            page.send_binary(b"x" * 100_000)
        assert sum(map(len, slow.sent)) <= web.UNSENT_MOST + 100_000 and page.behind
        asked = []
        shown.manager.handle_json = asked.append
        for sent in slow.pending:
            sent.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asked == [{"type": "refresh"}] and not page.behind  # the whole picture, not a difference
        page.send_binary(b"y")
        assert slow.sent[-1] == b"y"

    asyncio.new_event_loop().run_until_complete(talk())


class Unplugged:
    def __init__(self, data):
        self.data = [data]

    def read(self, count):
        if self.data:
            return self.data.pop()
        raise OSError("device reports readiness to read but returned no data")


def test_an_unplugged_line_ends_the_feed_once(capsys):
    feed = SerialFeed(Unplugged(synth.capture(synth.plan_for("A", rounds=1))), "/dev/ttyX")
    assert feed.poll() and not feed.ended
    for _ in range(3):
        feed.poll()
    assert feed.ended and "no data" in feed.gone
    with pytest.raises(HayloftError, match="the line is gone"):
        replay.show_feed(feed, "term", None)


def test_a_fault_of_the_decoder_is_not_blamed_on_the_line(monkeypatch):
    feed = SerialFeed(Unplugged(synth.capture(synth.plan_for("A", rounds=1))), "/dev/ttyX")

    def broken(data):
        raise ValueError("ours")

    monkeypatch.setattr(feed._decoder, "feed", broken)
    with pytest.raises(ValueError, match="ours"):
        feed.poll()
    assert not feed.ended and not feed.gone


def test_a_fault_of_the_view_ends_it_once(monkeypatch, tmp_path):
    turns = []

    def turn(self):
        turns.append(1)
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(web.View, "turn", turn)
    with pytest.raises(ZeroDivisionError):
        web.serve(RunFeed(tmp_path), say=lambda address: None)
    assert len(turns) == 1


def test_failed_boots_are_shown_as_failed(tmp_path):
    run = tmp_path / "run"
    plans = {arm: synth.plan_for(arm, panic_after=0) for arm in "AB"}
    feed = RunFeed(run)
    for entry in synth.begin_run(run, plans, 3)["order"]:
        synth.run_boot(run, entry, plans[entry["arm"]], exit_status=35, outcome="panic")
        feed.poll()
    for _ in range(20):
        feed.poll()
    assert "6 failed (6 panic)" in feed.state.where()
    assert "ended early: panic" in feed.state.instead("no sample yet")
    description = json.loads((run / "run.json").read_text())
    synth.write_json(run / "run.json", {**description, "state": "done"})
    for _ in range(20):
        feed.poll()
    assert feed.state.where() == "run done: 0 of 6 boots ok; 6 failed (6 panic)"
