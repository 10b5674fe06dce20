"""`./hayloft rivals` for real: every workload of its list on both runners, and a short comparison with glibc.

The other rivals are packages that the gate does not ask for; tests/tool/test_rivals.py has what tells them apart.
"""

import json
import os
import subprocess
import sys

import pytest

from telemetry import ROOT, build, rivals
from telemetry.errors import EXIT_BOOTS, HayloftError
from telemetry.machine import facts

CONFIG = rivals.load()
CPUS = min(2, len(facts.usable_cpus()))


@pytest.fixture(scope="module", autouse=True)
def _built(tmp_path_factory):
    build.ninja(list(rivals.RUNNERS.values()), tmp_path_factory.mktemp("rivals") / "build.log")


@pytest.mark.parametrize("name", ["on", "off", "glibc"])
def test_every_listed_workload_runs(name):
    arms, others, tests = rivals.choose(CONFIG, against="glibc")
    runner = rivals.Runner(next(one for one in (*arms, *others) if one.name == name), CPUS)
    try:
        assert "libc.so" in runner.file
        for test in tests:
            ns, share = runner.round(test, 2)
            # The host counts a thread's time in ticks: of two milliseconds that says little.
            assert ns > 1 and 0 <= share < 4, test
    finally:
        runner.end()
    assert runner.process.poll() is not None


@pytest.mark.parametrize("test, why", [("malloc/65/solo", "no test is called"), ("yield/solo", "needs the scheduler")])
def test_what_a_runner_cannot_run_it_names(test, why):
    arms, _, _ = rivals.choose(CONFIG)
    runner = rivals.Runner(arms[0], CPUS)
    try:
        with pytest.raises(HayloftError, match=why) as error:
            runner.round(test, 2)
        assert error.value.exit_code == EXIT_BOOTS
        assert runner.round("malloc/64/solo", 2)[0] > 1  # and goes on
    finally:
        runner.end()


@pytest.mark.parametrize("name", ["on", "glibc"])
def test_a_round_of_so_many_operations_is_exact(name):
    """What tests/rivals/count.py divides by."""
    arms, others, _ = rivals.choose(CONFIG, against="glibc")
    runner = rivals.Runner(next(one for one in (*arms, *others) if one.name == name), CPUS)
    try:
        for test, cpus in (("malloc/64/solo", 1), ("batch/64/alloc", CPUS)):
            runner.process.stdin.write(f"COUNT {test} 12000\n")
            runner.process.stdin.flush()
            words = runner.process.stdout.readline().split()
            assert words[0] == "ok" and int(words[2]) == 12000 * cpus
    finally:
        runner.end()


def test_arguments_that_the_allocator_refuses_end_it():
    with pytest.raises(HayloftError, match="pcp.limits"):
        rivals.Runner(rivals.Contender("x", "x", "pcp.limits=9"), CPUS)


def test_the_loops_call_what_they_are_said_to():
    """runner-malloc's loops reach malloc through the linker's table, runner-hayloft's the heap's calls through the heap."""
    calls = {}
    for kind, program in rivals.RUNNERS.items():
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=malloc_run", ROOT / program],
                              capture_output=True, text=True, check=True).stdout
        calls[kind] = [line.partition("call")[2].rpartition("<")[2].strip() for line in text.splitlines() if "call" in line]
    assert any(name.startswith("malloc@") for name in calls["malloc"])
    assert any(name.startswith("free@") for name in calls["malloc"])
    assert not any(name.startswith(("malloc@", "free@")) for name in calls["hayloft"])
    assert sum(name.startswith("*") for name in calls["hayloft"]) >= 2


def test_the_verb_compares_and_reports(tmp_path):
    words = ["rivals", "--tests", "malloc/64/solo,batch/64", "--against", "glibc", "--starts", "1", "--sweeps", "2",
             "--ms", "2", "--out", tmp_path / "out"]
    done = subprocess.run([sys.executable, "-m", "telemetry", *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "rivals.json").read_text())
    assert [row["test"] for row in result["tests"]] == ["malloc/64/solo", "batch/64/alloc", "batch/64/free"]
    for row in result["tests"]:
        assert set(row["ns"]) == {"on", "off", "glibc"} and row["fastest"] == "glibc"
        assert row["versus"]["on"]["glibc"]["ratio"] > 0
        assert row["test"] in done.stdout
    assert (tmp_path / "out" / "rivals.md").read_text().count("\n| ") == 4
    assert any("too few" in text for text in result["warnings"])
