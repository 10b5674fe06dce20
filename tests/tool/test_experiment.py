"""Experiment files: what is legal is read as meant, what is not is one line with its place and the nearest name."""

import pathlib

import pytest
from hypothesis import given, settings, strategies as st

from telemetry import ROOT, defs, experiment
from telemetry.errors import HayloftError

GOOD = '''title = "A question?"
machine = { kind = "tcg", cpus = 2, memory = "512M", timeout = "40s" }
boot = "kbench=2 tests=malloc/64,yield/*"
pairs = 2
order = "abba"
minimum_effect = 0.20

[arms]
A = "front=none"
B = "front=bounded"
'''
KNOBS = defs.parse_knobs((ROOT / "base" / "knobs.def").read_text())


def fails(text, hosted=False, settings=()):
    with pytest.raises(HayloftError) as caught:
        found = experiment.parse(text, pathlib.Path("x.toml"), settings)
        experiment.check_arms(found, {arm.name: KNOBS for arm in found.arms}, hosted)
    assert caught.value.exit_code == 2
    message = str(caught.value)
    assert "\n" not in message
    return message


def good(text=GOOD, settings=()):
    return experiment.parse(text, pathlib.Path("x.toml"), settings)


def test_a_file_without_arms_is_named_without_a_key():
    assert fails('title = "A question?"\n') == "x.toml: there is no [arms] table; name at least A and B"


def test_a_contradiction_may_come_from_an_axis():
    axis = GOOD.replace("front=bounded", "lock=mcs") + '[axes]\novercommit = [0, 1]\n'
    assert "x.toml:10" in fails(axis) and "overcommit=1" in fails(axis)
    assert not experiment.check_arms(good(axis.replace("lock=mcs", "lock=mcs force=1")), {"A": KNOBS, "B": KNOBS}, True)


def test_an_arm_with_more_nodes_than_the_machine_has_cpus_is_refused():
    arms = good(GOOD.replace("front=bounded", "nodes=2"))
    knobs = {"A": KNOBS, "B": KNOBS}
    assert not experiment.check_arms(arms, knobs, True, cpus=2)
    with pytest.raises(HayloftError, match="nodes>maxcpus"):
        experiment.check_arms(arms, knobs, True, cpus=1)


def test_who_does_not_name_a_view_has_none_where_another_arm_has_one():
    assert [(arm.live, arm.told) for arm in good().arms] == [(None, "front=none"), (None, "front=bounded")]
    watched = good(GOOD.replace('B = "front=bounded"', 'B = { live = "web" }'))
    assert [(arm.live, arm.told) for arm in watched.arms] == [("off", "front=none live=off"), ("web", "live=web")]
    assert watched.line_at(watched.arms[1], {}) == "kbench=2 tests=malloc/64,yield/*", "it is not the kernel's"


@pytest.mark.parametrize("old, new, line, key, word", [
    ("front=bounded", "frnt=bounded", 10, "arms.B", "front"),
    ("front=bounded", "front=bonded", 10, "arms.B", "front=bounded"),
    ("front=bounded", "front=bounded front=none", 10, "arms.B", "named twice"),
    ("front=bounded", "front=bounded kbench=3", 10, "arms.B", "boot"),
    ("front=bounded", "front", 10, "arms.B", "NAME=VALUE"),
    ('B = "front=bounded"', 'B = 3', 10, "arms.B", "text"),
    ('B = "front=bounded"', 'B = { agrs = "front=bounded" }', 10, "arms.B.agrs", "args"),
    ('B = "front=bounded"', 'B = { rev = "x", image = "y" }', 10, "arms.B", "one build"),
    ('B = "front=bounded"', 'B = { live = "wbe" }', 10, "arms.B.live", "web"),
    ('B = "front=bounded"', 'A = "front=bounded"', 10, "arms.A", "line 9"),
    ('B = ', 'C = ', 10, "arms.C", "A, B"),
    ('B = "front=bounded"\n', '', 8, "arms", "compare"),
    ("[arms]", "[armz]", 8, "armz", "arms"),
    ("minimum_effect", "minimum_efect", 6, "minimum_efect", "minimum_effect"),
    ("= 0.20", "= -1", 6, "minimum_effect", "0 to 1"), ("= 0.20", "= 20", 6, "minimum_effect", "0 to 1"),
    ("minimum_effect = 0.20", 'pace = "adust"', 6, "adust", "adjust"),
    ("pairs = 2", "pairs = -2", 4, "pairs", "1.."),
    ("pairs = 2", 'pairs = "two"', 4, "pairs", "whole number"),
    ("pairs = 2", "pairs = true", 4, "pairs", "whole number"),
    ("pairs = 2", "pairs = { looks = [6, 3] }", 4, "pairs.looks", "grow"),
    ("pairs = 2", "pairs = { loks = [6] }", 4, "pairs.loks", "looks"),
    ("pairs = 2", "pairs = ", 4, "", "not TOML"),
    ("pairs = 2", "pairs = 2\npairs = 3", 5, "pairs", "line 4"),
    ('"abba"', '"abab"', 5, "order", "abba"),
    ('order = "abba"', 'scheme = "random-block"', 5, "scheme", "random-blocks"),
    ('order = "abba"', 'order = "abba"\nscheme = "pairs"', 5, "order", "name one"),
    ('kind = "tcg"', 'kind = "tgc"', 2, "machine.kind", "tcg"),
    ("cpus = 2", "cpu = 2", 2, "machine.cpu", "cpus"),
    ("cpus = 2", "cpus = 0", 2, "machine.cpus", "1..64"),
    ("cpus = 2", 'cpus = "all"', 2, "machine.cpus", "host"),
    ('"512M"', '"lots"', 2, "machine.memory", "2G"),
    ('"40s"', '"soon"', 2, "machine.timeout", "60s"),
    ("front=bounded", "kbench.ms=9 kbench.ops=9", 10, "arms.B", "by time or by operations"),
    ("front=bounded", "lock=mcs overcommit=1", 10, "arms.B", "lock=tas"),
    ("yield/*", "yield/*,", 3, "boot", "empty name"),
    ("yield/*", "yield$", 3, "boot", "test pattern"),
    ("kbench=2", "kbench=2000", 3, "boot", "0..1000"),
    ("kbench=2", "kbench=two", 3, "boot", "number"),
    ("kbench=2", "deadline=2x", 3, "boot", "number"),
    ('title = "A question?"', 'published = "magazine"', 1, "published", "magazines"),
    ('title = "A question?"', 'title = 3', 1, "title", "text"),
])
def test_bad_files(old, new, line, key, word):
    assert old in GOOD
    message = fails(GOOD.replace(old, new, 1))
    assert message.startswith(f"x.toml:{line}:"), message
    assert key in message, message
    assert word in message, message


@pytest.mark.parametrize("tail, word", [
    ('[axes]\n"machine.cpu" = [1]', "machine.cpus"),
    ('[axes]\n"machine.cpus" = [1, 0]', "1..64"),
    ('[axes]\n"machine.cpus" = []', "list"),
    ('[axes]\n"machine.cpus" = [2, 2]', "twice"),
    ('[axes]\n"lok" = ["tas"]', "lock"),
    ('[axes]\n"lock" = ["tas", "tsa"]', "lock=tas"),
    ('[axes]\n"front" = ["none"]', "axes"),
    ('[expect]\n"tst:malloc/64/solo" = "B < A"', "test"),
    ('[expect]\n"counter:alloc_fst" = "B < A"', "alloc_fast"),
    ('[expect]\n"counter:alloc_fst@malloc/64/solo" = "B < A"', "alloc_fast"),
    ('[expect]\n"lock:cash.contended_share" = "B < A"', "cache"),
    ('[expect]\n"figure:slabs_held" = "B < A"', "figure:NAME@TEST"),
    ('[expect]\n"test:malloc/64/solo" = "C < A"', "C"),
    ('[expect]\n"test:malloc/64/solo" = "B < __import__(1)"', "rule"),
    ('[expect]\n"test:malloc/64/solo" = 3', "rule"),
])
def test_bad_axes_and_expectations(tail, word):
    message = fails(f"{GOOD}\n{tail}\n")
    assert message.startswith("x.toml:13:") or message.startswith("x.toml:10:"), message
    assert word in message, message


def test_a_good_file_is_read_as_meant():
    found = good(GOOD + '\n[axes]\n"machine.cpus" = [1, 2]\n"lock" = ["tas", "mcs"]\n')
    assert [arm.name for arm in found.arms] == ["A", "B"]
    assert len(found.points) == 4
    assert found.machine_at({"machine.cpus": 1, "lock": "mcs"})["cpus"] == 1
    line = found.line_at(found.arms[1], {"machine.cpus": 1, "lock": "mcs"}, ["deadline=5"])
    assert line == "kbench=2 tests=malloc/64,yield/* lock=mcs front=bounded deadline=5"


def test_looks():
    found = good(GOOD.replace("pairs = 2", "pairs = { looks = [6, 12, 30] }"))
    assert (found.pairs, found.looks) == (30, [6, 12, 30])


def test_settings_override():
    found = good(settings=[("machine.cpus", "4"), ("kbench", "1"), ("pairs", "9"), ("machine.kind", "host")])
    assert found.machine["cpus"] == 4 and found.machine["kind"] == "host"
    assert found.pairs == 9
    assert found.boot.split() == ["tests=malloc/64,yield/*", "kbench=1"]


@pytest.mark.parametrize("key, value, word", [("mchine.cpus", "2", "machine.cpus"), ("kbnch", "1", "kbench"),
                                              ("pairs", "x", "number"), ("machine.cpu", "1", "machine.cpus")])
def test_bad_settings(key, value, word):
    message = fails(GOOD, settings=[(key, value)])
    assert "--set" in message and word in message


def test_an_arm_that_only_the_host_refuses_is_left_out():
    found = good(GOOD.replace("front=bounded", "front=bounded idle=poll"))
    left = experiment.check_arms(found, {"A": KNOBS, "B": KNOBS}, hosted=True)
    assert list(left) == ["B"] and "idle" in str(left["B"][0])
    assert experiment.check_arms(found, {"A": KNOBS, "B": KNOBS}, hosted=False) == {}


def test_lines_survive_strings_comments_and_multi_line_values():
    text = GOOD.replace("pairs = 2", 'pairs = { looks = [\n 6, # not a key = 3\n 12,\n] }').replace(
        'title = "A question?"', 'title = """\norder = "not a key"\n"""') + '\n[expect]\n"counter:nope" = "B < A"\n'
    assert fails(text).startswith("x.toml:18:")


def test_every_shipped_experiment_is_legal():
    files = experiment.shipped_files()
    assert {"quick", "magazines", "null"} <= {path.stem for path in files}
    for path in files:
        found = experiment.load(path)
        experiment.check_arms(found, {arm.name: KNOBS for arm in found.arms}, hosted=False)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 30), st.text(max_size=6))
def test_no_edit_escapes_as_anything_but_one_line(at, length, text):
    changed = GOOD[:at] + text + GOOD[at + length:]
    try:
        found = experiment.parse(changed, pathlib.Path("x.toml"))
        experiment.check_arms(found, {arm.name: KNOBS for arm in found.arms}, hosted=False)
    except HayloftError as error:
        assert error.exit_code == 2 and "\n" not in str(error)


@pytest.mark.parametrize("line, settings, order, exchange", [
    ('', (), "random-blocks", "boots"), ('order = "abba"', (), "abba", "boots"), ('scheme = "abba"', (), "abba", "boots"),
    ('scheme = "pairs"', (), "pairs", "pairs"), ('order = "random"', (), "random", "boots"),
    ('order = "abba"', (("scheme", "pairs"),), "pairs", "pairs"), ('scheme = "pairs"', (("order", "abba"),), "abba", "boots")])
def test_what_a_scheme_means(line, settings, order, exchange):
    found = experiment.parse(GOOD.replace('order = "abba"', line), pathlib.Path("x.toml"), settings)
    assert (found.order, found.exchange) == (order, exchange)
