"""Tests and rules: what is misspelt is found before anything boots, all of it at once; what a machine cannot judge leaves a
run whole, and says so."""

import json

from pathlib import Path

import fake_machine
import pytest
import synth
from telemetry import analyse, checks, experiment, image
from telemetry.errors import HayloftError

NAMES = ["malloc/64/solo", "malloc/64/all-cpus", "remote/64/one-to-one"]


@pytest.mark.parametrize("pattern, name, fits", [
    ("malloc/64", "malloc/64/solo", True), ("malloc/6", "malloc/64/solo", False), ("malloc/64/solo", "malloc/64/solo", True),
    ("*", "larson", True), ("*/solo", "malloc/64/solo", True), ("m*4/s*", "malloc/64/solo", True), ("", "larson", False),
    ("malloc", "xmalloc", False), ("*ll*ll*", "malloc", False),
])
def test_patterns_mean_what_they_mean_to_the_kernel(pattern, name, fits):
    assert checks.matches(pattern, name) is fits


def test_an_image_tells_the_names_of_its_tests(tmp_path):
    assert image.read_tests(fake_machine.make_image(tmp_path / "new.elf", tests=NAMES)) == NAMES
    assert image.read_tests(fake_machine.make_image(tmp_path / "old.elf", tests=None)) is None
    assert image.read_knobs(tmp_path / "new.elf").by_name == image.read_knobs(tmp_path / "old.elf").by_name


def file(expect, boot="kbench=1 tests=malloc/64", arms=("front=none", "front=bounded")):
    rules = "\n".join(f'"{key}" = "{rule}"' for key, rule in expect.items())
    lines = "\n".join(f'{name} = "{args}"' for name, args in zip("ABC", arms))
    return experiment.parse(f'boot = "{boot}"\n[arms]\n{lines}\n[expect]\n{rules}\n', Path("x.toml"))


def wrong(found, names=NAMES):
    try:
        checks.check(found, {arm.name: names for arm in found.arms})
    except HayloftError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", ["test:malloc/46/solo", "counter:alloc_fast@malloc/46/solo", "figure:x@malloc/46/solo",
                                 "lock:cache.acquisitions@malloc/46/solo"])
def test_a_rule_about_a_test_that_does_not_exist(key):
    assert "no test is called 'malloc/46/solo' (nearest legal name: malloc/64/solo)" in wrong(file({key: "B <= A"}))
    assert "x.toml:6" in wrong(file({key: "B <= A"}))
    assert wrong(file({key: "B <= A"}), None) == ""  # an old image does not tell


def test_a_rule_about_a_test_that_never_runs():
    never = {"test:remote/64/one-to-one": "B < A"}
    assert "never runs in arms A, B: tests= does not choose it" in wrong(file(never))
    assert wrong(file(never, "kbench=1")) == ""
    assert "kbench=0 runs none" in wrong(file({"test:malloc/64/solo": "B < A"}, "tests=malloc/64"))
    assert "never runs in arm B" in wrong(file({"test:malloc/64/solo": "B < A"}, "kbench=1",
                                               ("tests=malloc", "tests=remote", "tests=remote")))


def test_all_mistakes_at_once():
    found = wrong(file({"test:malloc/46/solo": "B < A", "counter:alloc_fast@larsen": "B < A"}, "kbench=1 tests=mallok,remote"))
    assert "tests=mallok: no test has such a name (nearest legal name: malloc)" in found
    assert "malloc/46/solo" in found and "larsen" in found


def run_of(folder, expect, arms="AB"):
    """A finished run whose file has three arms; those that are not in `arms` were left out on its machine."""
    plans = {arm: synth.plan_for(arm, rounds=1, round_ms=20) for arm in "AB"}
    synth.write_run(folder, plans, 4)
    rules = "\n".join(f'"{key}" = "{rule}"' for key, rule in expect.items())
    (folder / "experiment.toml").write_text(f'pairs = 4\n[arms]\nA = ""\nB = ""\nC = "idle=poll"\n[expect]\n{rules}\n')
    run = json.loads((folder / "run.json").read_text())
    run["skipped"] = [{"name": "arm C", "reason": "idle is for booted machines only"},
                      {"name": "yield/solo", "reason": "needs the scheduler"}]
    (folder / "run.json").write_text(json.dumps(run))
    return {entry["test"]: entry for entry in analyse.analyse_run(folder)["expectations"]}


def test_rules_that_a_run_cannot_judge_leave_it_whole(tmp_path):
    found = run_of(tmp_path / "run", {
        "test:malloc/64/solo": "C < A", "counter:alloc_fast@nosuch/test": "B <= A", "test:yield/solo": "B < A",
        "counter:page_alloc": "B <= 2 * A + 100", "test:malloc/64/all-cpus": "B < 0.8 * A"})
    assert list(found) == ["test:malloc/64/solo", "counter:alloc_fast@nosuch/test", "test:yield/solo",
                           "counter:page_alloc", "test:malloc/64/all-cpus"]
    assert found["test:malloc/64/solo"]["held"] is None
    assert "arm C did not run here: idle is for booted machines only" in found["test:malloc/64/solo"]["reason"]
    assert found["counter:alloc_fast@nosuch/test"]["held"] is None  # 0 for all arms would have held
    assert "did not run" in found["counter:alloc_fast@nosuch/test"]["reason"]
    assert "needs the scheduler" in found["test:yield/solo"]["reason"]
    assert found["test:malloc/64/all-cpus"]["held"] is True and found["counter:page_alloc"]["held"] is True
