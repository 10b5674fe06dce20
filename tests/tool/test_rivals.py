"""The verb `rivals`: what it computes from rounds, whom it refuses, and that drift does not reach a ratio."""

import importlib.util
import json

import pytest

from telemetry import ROOT, rivals
from telemetry.errors import EXIT_MACHINE, HayloftError

CONFIG = rivals.load()
SLOW = 1.75  # what a busy hyperthread makes of a core's speed


class FakeRunner:
    """A contender whose cost is known. The machine under it changes speed every so many rounds, and every third
    round of its first test is disturbed."""

    cost = {"on": 12.0, "off": 8.0, "glibc": 20.0, "tcmalloc": 10.0}
    rounds = 0
    slow_after = 16

    def __init__(self, contender, _cpus):
        self.contender, self.file, self.ended = contender, "/lib/fake.so", False

    def round(self, test, _ms):
        FakeRunner.rounds += 1
        slow = SLOW if FakeRunner.rounds // self.slow_after % 2 else 1.0
        disturbed = FakeRunner.rounds % 3 == 0
        return self.cost[self.contender.name] * slow * (5.0 if disturbed else 1.0), 0.5 if disturbed else 1.0

    def end(self):
        self.ended = True


@pytest.fixture(name="chosen")
def _chosen():
    return rivals.choose(CONFIG, "malloc/64", "glibc,tcmalloc")


def measured(chosen, starts=6, sweeps=8):
    arms, others, tests = chosen
    FakeRunner.rounds = 0
    return rivals.measure((*arms, *others), tests, 2, starts, sweeps, 10, runner=FakeRunner)


def test_ratios_are_free_of_the_machines_speed_and_of_disturbed_rounds(chosen):
    arms, others, tests = chosen
    found = measured(chosen)
    assert found.disturbed == 0 and found.total > 6 * 8 * 4 * len(tests)
    rows = rivals.analyse(found, arms, others, tests, CONFIG["judged"])
    assert [row["test"] for row in rows] == ["malloc/64/solo", "malloc/64/all-cpus"]
    for row in rows:
        assert row["fastest"] == "tcmalloc"
        assert row["versus"]["on"]["tcmalloc"]["ratio"] == pytest.approx(1.2, rel=0.02)
        assert row["versus"]["off"]["glibc"]["ratio"] == pytest.approx(0.4, rel=0.02)
        low, high = row["versus"]["on"]["tcmalloc"]["interval"]
        assert low <= 1.21 and high >= 1.19 and high / low < 1.1


def test_only_judged_rows_have_verdicts_and_the_interval_decides(chosen):
    arms, others, tests = chosen
    solo, both = rivals.analyse(measured(chosen), arms, others, tests, CONFIG["judged"])
    assert solo["versus"]["on"]["tcmalloc"]["verdict"] is None
    assert both["versus"]["on"]["tcmalloc"]["verdict"] == "kept"
    assert rivals.verdict({"interval": (1.0, 1.4)}, 1.5) == "kept"
    assert rivals.verdict({"interval": (1.51, 1.9)}, 1.5) == "missed"
    assert rivals.verdict({"interval": (1.4, 1.6)}, 1.5) == "undecided"
    assert rivals.verdict({"interval": None}, 1.5) == "undecided"


def test_too_few_starts_and_rounds_without_a_core_are_told(chosen, monkeypatch):
    monkeypatch.setattr(FakeRunner, "round", lambda self, test, ms: (10.0, 0.4))
    found = measured(chosen, starts=2, sweeps=1)
    assert found.disturbed == 2 * 1 * 4 * 2 and found.total == found.disturbed * rivals.TRIES
    texts = rivals.distrust(found, 2, [1.9, 1, 1])
    assert any("too few" in text for text in texts) and any("16 of 16 rounds" in text for text in texts)
    assert any("busy" in text for text in texts)


def test_every_runner_ends_even_if_one_cannot_start(chosen):
    arms, others, tests = chosen
    made = []

    class Failing(FakeRunner):
        def __init__(self, contender, cpus):
            super().__init__(contender, cpus)
            if len(made) == 2:
                raise HayloftError("no")
            made.append(self)

    with pytest.raises(HayloftError):
        rivals.measure((*arms, *others), tests, 2, 1, 1, 10, runner=Failing)
    assert len(made) == 2 and all(one.ended for one in made)


@pytest.mark.parametrize("words, said", [
    ({"tests": "maloc/64"}, "malloc/64"), ({"tests": ""}, "--tests"), ({"against": "jmalloc"}, "jemalloc"),
    ({"against": ""}, "--against"), ({"args": "frnt=none"}, "front"), ({"args": "objstate=side"}, "objstate"),
    ({"args": "idle=poll"}, "hosted"),
])
def test_what_cannot_be_compared_is_refused_by_name(words, said):
    with pytest.raises(HayloftError) as error:
        rivals.choose(CONFIG, **words)
    assert said in str(error.value) and error.value.exit_code == 2


@pytest.mark.parametrize("numbers, said", [((99, 6, 10, 10), "--cpus"), ((1, 0, 10, 10), "--starts"),
                                           ((1, 6, 0, 10), "--sweeps"), ((1, 6, 10, 0), "--ms")])
def test_counts_out_of_range_are_refused(numbers, said):
    with pytest.raises(HayloftError, match=said):
        rivals.check_counts(*numbers)


def test_a_library_that_is_not_loaded_is_no_rival():
    """The loader only warns: glibc would be measured under another's name."""
    runner = object.__new__(rivals.Runner)
    runner.contender = rivals.Contender("hoard", "hoard", package="libhoard", libraries=("libhoard.so",))
    runner.file = "/lib/x86_64-linux-gnu/libc.so.6"
    with pytest.raises(HayloftError, match="libhoard") as error:
        runner._check_file()  # pylint: disable=protected-access
    assert error.value.exit_code == EXIT_MACHINE
    runner.file = "/usr/lib/libhoard.so.1"
    runner._check_file()  # pylint: disable=protected-access


def test_the_tables_hold_every_row_and_every_contender(chosen, capsys):
    arms, others, tests = chosen
    result = {"title": "T", "how": "h", "reading": "r", "host": "cpu", "commit": "c", "warnings": ["careful"],
              "rivals": {one.name: one.name for one in others},
              "tests": rivals.analyse(measured(chosen), arms, others, tests, CONFIG["judged"])}
    text = rivals.markdown(result, arms, others)
    rivals.show(result, arms, others)
    for shown in (text, capsys.readouterr().out):
        for word in (*tests, "checks on", "checks off", "glibc", "tcmalloc", "kept", "careful"):
            assert word in shown
    assert text.count("\n| ") == 1 + len(tests)
    json.dumps(result)


CALLGRIND = """events: Ir
ob=/x/runner
fl=a.c
fn=malloc_run
12 30
+1 2
cob=/lib/libfast.so
cfn=malloc
calls=10 0
+2 500
* 8
ob=/lib/libfast.so
fn=malloc
0 400
-3 100
fn=(below main)
0 7
totals: 547
"""


def test_the_bill_counts_each_functions_own_instructions():
    spec = importlib.util.spec_from_file_location("count", ROOT / "tests" / "rivals" / "count.py")
    count = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(count)
    found = count.costs(CALLGRIND)
    assert found == {("runner", "malloc_run"): 40, ("libfast.so", "malloc"): 500, ("libfast.so", "(below main)"): 7}
    assert sum(found.values()) == 547
