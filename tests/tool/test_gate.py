"""The gate asked for one test: a name that no test has is a failure, whatever else there is to run."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("gate_by_name", ROOT / "tools" / "check.py")
gate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gate)

SLOW = ("model", "mutants", "asan", "tsan", "fuzz")


@pytest.fixture
def started(monkeypatch):
    """What the gate would have started; nothing is."""
    found = []

    def spawn(command, env=None, timeout=600):
        found.append(list(command))
        return 0, "1 passed, 0 failed\n"

    monkeypatch.setattr(gate, "spawn", spawn)
    built = gate.Step("build", lambda options: gate.Result(1, 0), 1)
    steps = [built, *(step for step in gate.STEPS if step.name in SLOW)]
    monkeypatch.setattr(gate, "STEPS", steps)
    return found


def test_a_name_that_no_test_has_is_red(started, capsys):
    assert gate.main(["no-such-test-anywhere"]) == 1
    assert 'no test has "no-such-test-anywhere" in its name' in capsys.readouterr().out
    assert started == []


@pytest.mark.parametrize("step", SLOW)
def test_every_step_heeds_the_name(step, started):
    chosen = next(s for s in gate.STEPS if s.name == step)
    result = chosen.run(gate.Options(False, "no-such-test-anywhere"))
    assert (result.passed, result.failed) == (0, 0) and started == []


def test_mutants_of_the_named_test_only(started):
    name = gate.configure.mutants()[0][4]
    gate.step_mutants(gate.Options(False, name))
    assert len([command for command in started if command[0] == "ninja"]) == 1
    assert all(command[1] == name for command in started if command[0] != "ninja")
