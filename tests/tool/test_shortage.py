"""A test that ran out of memory: a reason and its figures by arm, no result, no verdict, and everything else as ever."""

import dataclasses
import io
import json

import pytest
import synth
from rich.console import Console
from telemetry import analyse, decode, digest, export, progress, report, verdicts
from telemetry.live import state as live
from telemetry.live import term

NAME = "malloc/4096/all-cpus"
WANTED = "wanted 64 KiB on top of 40 MiB, had 41 MiB"


def short(plan, name=NAME, round_=1):
    tests = tuple(dataclasses.replace(test, short_in=round_) if test.name == name else test for test in plan.tests)
    return dataclasses.replace(plan, tests=tests)


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """make(A, B, C): a run of these arms, in which the ones named True are short from round 1 on; a number: in so many
    of their boots, the last."""
    made = {}

    def one(**arms):
        key = tuple(arms.items())
        if key not in made:
            folder = tmp_path_factory.mktemp("run") / "run"
            synth.write_run(folder, {arm: short(synth.plan_for("AB"[arm != "A"])) if is_short is True else
                                     synth.plan_for("AB"[arm != "A"]) for arm, is_short in arms.items()}, pairs=6)
            for arm, is_short in arms.items():
                for at, boot in enumerate(sorted((folder / "boots").glob(f"*-{arm}"))[:0 if is_short is True else is_short]):
                    plan = dataclasses.replace(short(synth.plan_for("AB"[arm != "A"])), seed=100 + at)
                    (boot / "telemetry.bin").write_bytes(synth.capture(plan))
                    (boot / "result.json").unlink(missing_ok=True)
            made[key] = folder, analyse.analyse_run(folder, rebuild=True)
        return made[key]

    return one


def named(results, name=NAME):
    return [test for test in results["tests"] if test["name"] == name]


def test_a_boot_that_was_short_has_no_result_of_that_test_and_says_why(tmp_path):
    (tmp_path / "telemetry.bin").write_bytes(synth.capture(short(synth.plan_for("A"))))
    found = digest.digest_boot(tmp_path)
    assert found["bye"]["outcome"] == "ok" and found["lost"] == found["damaged"] == 0
    assert found["skipped"] == [{"name": NAME, "reason": "short of memory in round 1", "shortage":
                                 {"round": 1, "asked": 65536, "held": 40 << 20, "had": 41 << 20}}]
    assert NAME not in [test["name"] for test in found["tests"]]
    others = [test for test in found["tests"]]
    assert len(others) == len(synth.plan_for("A").tests) - 1 and all(len(test["rounds"]) == 3 for test in others)


def test_one_arm_that_was_short_is_named_and_not_judged(make):
    _, results = make(A=0, B=True)
    assert all(boot["used"] for boot in results["boots"])
    [told] = results["skipped"]
    assert told["name"] == NAME and told["reason"] == f"short of memory in 6 of 6 boots of B ({WANTED})"
    assert told["shortage"] == {"B": {"boots": 6, "of": 6, "round": 1, "asked": 65536, "held": 40 << 20, "had": 41 << 20}}
    [test] = named(results)
    assert test["versus"]["B"]["verdict"] == "none" and test["versus"]["B"]["why"] == told["reason"]
    assert test["versus"]["B"]["ratio"] is None and test["versus"]["B"]["p"] is None
    assert test["arms"]["A"]["median"] > 0 and test["arms"]["B"]["median"] is None


def test_other_tests_are_judged_as_if_that_one_had_not_been_there(make):
    _, results = make(A=0, B=True)
    _, whole = make(A=0, B=0)
    assert {test["name"]: test["versus"]["B"]["verdict"] for test in results["tests"] if test["name"] != NAME} == {
        test["name"]: test["versus"]["B"]["verdict"] for test in whole["tests"] if test["name"] != NAME}


def test_sums_over_all_tests_leave_it_out_in_both_arms(make):
    """Else the arm that was short did less of everything."""
    _, results = make(A=0, B=True)
    assert not any(entry["test"] == NAME for entry in results["counters"])
    [total] = [entry for entry in results["counters"] if entry["name"] == "alloc_slow" and not entry["test"] and not entry["cache"]]
    parts = [entry for entry in results["counters"] if entry["name"] == "alloc_slow" and entry["test"] and not entry["cache"]]
    assert total["arms"]["A"]["median"] == pytest.approx(sum(entry["arms"]["A"]["median"] for entry in parts), rel=0.1)


def test_boots_that_got_by_are_no_figure_of_an_arm(make):
    _, results = make(A=0, B=2)
    [told] = results["skipped"]
    assert told["reason"] == f"short of memory in 2 of 6 boots of B ({WANTED})"
    [test] = named(results)
    assert test["versus"]["B"]["verdict"] == "none" and test["arms"]["B"] == {
        **test["arms"]["B"], "median": None, "boots": [None] * 6, "means": [None] * 6, "mean": None, "worst": None, "spread": None}
    assert set(test["versus"]["B"]) == {key for other in results["tests"] if other["name"] != NAME
                                        for key in other["versus"]["B"]} - {"measured", "adjusted"}


def test_arms_that_were_not_short_are_compared(make):
    _, results = make(A=0, B=0, C=True)
    [test] = named(results)
    assert test["versus"]["B"]["verdict"] == "faster" and test["versus"]["C"]["verdict"] == "none"
    _, reference = make(A=True, B=0, C=0)
    [test] = named(reference)
    assert [test["versus"][arm]["verdict"] for arm in "BC"] == ["none", "none"]


def test_a_test_that_was_short_everywhere_is_in_the_list_only(make):
    _, results = make(A=True, B=True)
    assert named(results) == []
    [told] = results["skipped"]
    assert told["reason"] == f"short of memory in 6 of 6 boots of A ({WANTED}) and in 6 of 6 boots of B ({WANTED})"


@pytest.mark.parametrize("arms", [{"A": 0, "B": True}, {"A": True, "B": True}, {"A": 0, "B": 2}])
def test_report_and_terminal_say_it(make, arms, tmp_path, capsys):
    folder, results = make(**arms)
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    report.write_report(tmp_path, results)
    reason = results["skipped"][0]["reason"]
    assert f"{NAME}: {reason}" in (tmp_path / "report.md").read_text().replace("`", "")
    assert WANTED in (tmp_path / "report.html").read_text()
    verdicts.show(folder, results)
    assert f"skipped: {NAME}: {reason}" in " ".join(capsys.readouterr().out.split())


def test_an_expectation_of_it_cannot_be_told(make):
    folder, _ = make(A=0, B=True)
    text = (folder / "experiment.toml").read_text()
    try:
        (folder / "experiment.toml").write_text(text + f'\n[expect]\n"test:{NAME}" = "B < 10 * A"\n')
        [entry] = analyse.analyse_run(folder)["expectations"]
    finally:
        (folder / "experiment.toml").write_text(text)
    assert entry["held"] is None and entry["outcome"] == "cannot tell" and "short of memory" in entry["reason"]


def test_a_run_says_it_boot_by_boot(make, tmp_path):
    (tmp_path / "telemetry.bin").write_bytes(synth.capture(short(synth.plan_for("A"))))
    out = io.StringIO()
    plain = progress.Plain(out, quiet=True)
    plain.begin(["A"], 2)
    plain.ended({"id": "01-A", "seconds": 1.0, "outcome": "ok", "reason": ""}, digest.digest_boot(tmp_path), 2, 1)
    assert out.getvalue() == f"boot 01-A: skipped {NAME}: short of memory in round 1\n"


def test_the_live_view_says_it_and_drops_its_rounds():
    boot = live.BootState()
    for item in decode.Decoder(False).feed(synth.capture(short(synth.plan_for("A")))):
        boot.take(item)
    assert [(test.name, test.skip) for test in boot.skipped()] == [(NAME, "short of memory in round 1")]
    assert NAME not in boot.figures() and len(boot.figures()) == len(synth.plan_for("A").tests) - 1
    run = live.RunState()
    run.current = boot
    console = Console(file=io.StringIO(), width=120)
    console.print(term.header(run))
    assert f"skipped: {NAME}: short of memory in round 1" in console.file.getvalue()
