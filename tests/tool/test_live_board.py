"""The picture itself: drawn in parts it must look as if drawn whole, and no name may break it."""

import itertools

import numpy
import pytest
import synth
from matplotlib.backends.backend_agg import FigureCanvasAgg
from telemetry.live.board import Board, snapshot
from telemetry.live.feed import RunFeed
from telemetry.live.state import RunState

PANELS = ("header", "contention-cpu", "contention-lock", "hits", "churn", "medians", "over")
LAYERS = ("barn", "footprint", "latency", "matrix")


class Screen:
    def __init__(self):
        self.board = Board()
        self.canvas = FigureCanvasAgg(self.board.figure)
        self.canvas.get_renderer().clear()

    def show(self, state) -> set[str]:
        panels = self.board.refresh(state)
        self.board.draw(self.canvas, panels)
        return {panel.name for panel in panels}

    def pixels(self):
        return numpy.array(self.canvas.buffer_rgba())


def run_of(tmp_path, **plans):
    run = tmp_path / "run"
    plans = plans or {arm: synth.plan_for(arm, rounds=2) for arm in "AB"}
    synth.write_run(run, plans, pairs=2)
    return run


def test_nothing_is_drawn_when_nothing_changed(tmp_path):
    feed, screen = RunFeed(run_of(tmp_path)), Screen()
    feed.poll()
    assert screen.show(feed.state) == set(PANELS)
    before = screen.pixels()
    assert screen.show(feed.state) == set()
    assert numpy.array_equal(before, screen.pixels())


def test_the_header_says_what_the_kernel_left_out(tmp_path):
    attic = {"name": "attic", "unit": "KiB", "amount": 100, "of": 5000, "doc": "what lay in the attic"}
    for number, (told, wanted) in enumerate(((None, ""), ((), ""), ((attic,), "left out: 100 of 5,000 KiB"))):
        plans = {arm: synth.plan_for(arm, rounds=1, left_out=told) for arm in "AB"}
        feed, screen = RunFeed(run_of(tmp_path / str(number), **plans)), Screen()
        feed.poll()
        screen.show(feed.state)
        header, = [panel for panel in screen.board.panels if panel.name == "header"]
        assert header.losses.get_text() == wanted


def test_drawn_in_parts_it_looks_as_drawn_whole(tmp_path):
    feed, screen = RunFeed(run_of(tmp_path)), Screen()
    for _ in range(20):
        feed.poll()
        screen.show(feed.state)
    whole = Screen()
    whole.show(feed.state)
    assert numpy.array_equal(screen.pixels(), whole.pixels())


SUBSETS = [subset for size in range(len(LAYERS) + 1)
           for subset in itertools.combinations(LAYERS, size)]


def provided(*names) -> RunState:
    state = RunState()
    state.provided = set(names)
    return state


@pytest.mark.parametrize("layers", SUBSETS, ids=lambda names: "+".join(names) or "none")
def test_panels_do_not_overlap_and_fill_the_picture(layers):
    owner = numpy.zeros((720, 1280), dtype=int)
    board = Board()
    board.refresh(provided(*layers))
    assert {panel.name for panel in board.panels} == {*PANELS, *layers}
    for panel in board.rectangles():
        x, y, w, h = panel["x"], panel["y"], panel["width"], panel["height"]
        assert x >= 0 and y >= 0 and x + w <= 1280 and y + h <= 720
        owner[y : y + h, x : x + w] += 1
    assert owner.max() == 1
    assert (owner == 1).mean() > 0.99


def test_no_panel_writes_outside_itself(tmp_path):
    """Each panel alone on an empty canvas leaves the others' rectangles white, but for rounding at
    the edges."""
    feed = RunFeed(run_of(tmp_path, **layered()))
    while not feed.ended:
        feed.poll()
    for number in range(len(PANELS) + len(LAYERS)):
        screen = Screen()
        screen.board.refresh(feed.state)
        screen.canvas.buffer_rgba()
        screen.board.draw(screen.canvas, [screen.board.panels[number]])
        pixels = screen.pixels()[:, :, :3].min(axis=2)
        alpha = screen.pixels()[:, :, 3]
        box = screen.board.rectangles()[number]
        top, left = max(0, box["y"] - 1), max(0, box["x"] - 1)
        pixels[top : box["y"] + box["height"] + 1, left : box["x"] + box["width"] + 1] = 255
        written = (pixels < 250) & (alpha > 0)
        assert not written.any(), f"{box['name']} writes outside its rectangle"


def layered(**changes) -> dict:
    """Plans with something for every panel."""
    return {arm: synth.plan_for(arm, observed=True, stored=share, **{"rounds": 2, **changes})
            for arm, share in (("A", 0.0), ("B", 0.9))}


def test_panels_join_when_there_is_something_for_them_and_stay(tmp_path):
    plans = layered()
    plans["B"] = synth.plan_for("B", rounds=2)
    order = synth.begin_run(tmp_path / "run", plans, 1)["order"]
    feed, screen = RunFeed(tmp_path / "run"), Screen()
    screen.show(feed.state)
    assert {panel.name for panel in screen.board.panels} == set(PANELS)
    for entry in order:
        synth.run_boot(tmp_path / "run", entry, plans[entry["arm"]])
        feed.poll()
        screen.show(feed.state)
        assert feed.state.current.arm == entry["arm"]
        assert {panel.name for panel in screen.board.panels} == {*PANELS, *LAYERS}
    whole = Screen()
    whole.show(feed.state)
    assert numpy.array_equal(screen.pixels(), whole.pixels()), "the old places left something"


def notices(board) -> dict:
    """What is written in the middle of each panel that draws nothing."""
    return {panel.name: [text.get_text() for text in panel.axes.texts]
            for panel in board.panels if panel.name != "header" and not panel.axes.axison}


def test_a_panel_with_nothing_to_draw_says_why(tmp_path):
    """Each of them, before the first boot and in a boot that has told nothing yet."""
    board, state = Board(), provided(*LAYERS)
    board.refresh(state)
    said = notices(board)
    assert set(said) == {*PANELS, *LAYERS} - {"header"}
    assert said.pop("over") == ["waiting for a result\nof each arm"]
    assert set(map(tuple, said.values())) == {("waiting for the first boot",)}

    plans = layered()
    entry = synth.begin_run(tmp_path / "run", plans, 1)["order"][0]
    synth.run_boot(tmp_path / "run", entry, plans[entry["arm"]])
    stream = tmp_path / "run" / "boots" / entry["id"] / "telemetry.bin"
    hello = stream.read_bytes().lstrip(b"\0").partition(b"\0")[0]
    stream.write_bytes(b"\0" + hello + b"\0")
    feed = RunFeed(tmp_path / "run")
    feed.poll()
    feed.state.provided = set(LAYERS)
    assert feed.state.current is not None
    board.refresh(feed.state)
    said = notices(board)
    assert set(said) == {*PANELS, *LAYERS} - {"header"}
    for name, texts in said.items():
        assert len(texts) == 1 and len(texts[0]) > 8, f"{name} says {texts}"
        assert "first boot" not in texts[0], f"{name} waits for what is there"


@pytest.mark.parametrize("cpus", [1, 3, 8, 64])
def test_any_number_of_cpus(tmp_path, cpus):
    plans = layered(cpus=cpus, rounds=1)
    feed = RunFeed(run_of(tmp_path, **plans))
    while not feed.ended:
        feed.poll()
    snapshot(feed.state, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_names_cannot_break_the_picture(tmp_path):
    evil = "$\\frac{1}{0}$ $x _^{ \x1b[31m <b> " + "long" * 60
    tests = tuple(synth.Test(f"malloc/64/{n}{evil}", 100.0 + n) for n in range(12))
    plans = {"A": synth.Plan(tests, rounds=1, round_ms=50),
             "$B$": synth.Plan(tests[:3], rounds=1, round_ms=50)}
    feed = RunFeed(run_of(tmp_path, **plans))
    while not feed.ended:
        feed.poll()
    feed.state.title = evil
    snapshot(feed.state, tmp_path / "picture.png")


def test_a_view_without_anything(tmp_path):
    snapshot(RunState(), tmp_path / "picture.png")
    snapshot(RunState("title", {"A": "x"}, "A"), tmp_path / "picture.png")


@pytest.mark.parametrize("arms", [3, 6])
def test_more_than_two_arms(tmp_path, arms):
    plans = {name: synth.plan_for("AB"[n % 2], rounds=1, args=f"seed={n}") for n,
             name in enumerate("ABCDEF"[:arms])}
    feed = RunFeed(run_of(tmp_path, **plans))
    while not feed.ended:
        feed.poll()
    over = feed.state.over("malloc/64/all-cpus")
    assert set(over) == set("BCDEF"[: arms - 1])
    snapshot(feed.state, tmp_path / "picture.png")
