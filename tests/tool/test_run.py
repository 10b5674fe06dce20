"""Whole runs on a fake machine: what is archived, what is tried again, what any way of stopping leaves."""

import json
import os
import signal
import subprocess
import time

import pytest

import fake_machine
from telemetry import ROOT, experiment as experiments, run as runs
from telemetry.machine import base


class Lab:
    """A folder with a fake QEMU and the tool, run as a user runs it."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "bin"
        self.out = folder / "run"
        fake_machine.install(self.bin)

    def tool(self, *words, plan="", pace=0.0):
        return subprocess.run([ROOT / "hayloft", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=False,
                              env=fake_machine.environment(self.bin, plan, pace))

    def run(self, plan="", pairs=2, extra="", arms=("front=none", "front=bounded")):
        path = fake_machine.experiment(self.folder / "x", pairs, extra, arms)
        return self.tool("run", path, "--out", self.out, "--live", "off", plan=plan)

    def start(self, pace, pairs=2):
        path = fake_machine.experiment(self.folder / "x", pairs)
        return subprocess.Popen([ROOT / "hayloft", "run", path, "--out", self.out, "--live", "off"],
                                env=fake_machine.environment(self.bin, "", pace), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def json(self, name):
        return json.loads((self.out / name).read_text())

    def boots(self):
        return {path.name: json.loads((path / "boot.json").read_text())
                for path in sorted((self.out / "boots").iterdir())}

    def outcomes(self):
        return {name: boot["outcome"] for name, boot in self.boots().items()}

    def machines(self):
        """Processes that still work in a boot's folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd").startswith(str(self.out)):
                    found.append(pid)
            except OSError:
                pass
        return found

    def wait_until(self, what, seconds=60.0):
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.02)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that went well, for the tests that look at it and leave it as it is."""
    lab = Lab(tmp_path_factory.mktemp("finished"))
    lab.done = lab.run()
    assert lab.done.returncode == 0, lab.done.stdout + lab.done.stderr
    return lab


def test_a_run_leaves_the_whole_archive(finished):
    lab = finished
    for name in ("experiment.toml", "run.json", "results.json", "report.md", "report.html"):
        assert (lab.out / name).is_file(), name
    assert (lab.out / "experiment.toml").read_bytes() == (lab.folder / "x" / "fake.toml").read_bytes()
    run = lab.json("run.json")
    assert run["state"] == "done" and [entry["id"] for entry in run["order"]] == ["01-A", "01-B", "02-B", "02-A"]
    [(checksum, image)] = run["images"].items()
    assert (lab.out / image).is_file()
    for name, boot in lab.boots().items():
        assert boot["id"] == name and boot["outcome"] == "ok" and boot["image"] == checksum
        assert boot["args"].startswith("kbench=2 tests=malloc/64,malloc/4096 front=")
        assert boot["knobs"]["front"] == ("none" if boot["arm"] == "A" else "bounded")
        files = sorted(path.name for path in (lab.out / "boots" / name).iterdir())
        assert files == ["boot.json", "console.log", "qemu.log", "result.json", "telemetry.bin"]
    assert str(lab.out / "report.html") in lab.done.stdout
    results = lab.json("results.json")
    assert results["tests"][0]["versus"]["B"]["verdict"] == "undecided"


def test_report_needs_the_bytes_only(finished):
    before = finished.json("results.json")
    (finished.out / "results.json").unlink()
    for path in finished.out.glob("boots/*/result.json"):
        path.unlink()
    assert finished.tool("report", finished.out).returncode == 0
    assert finished.json("results.json") == before
    assert len(list(finished.out.glob("boots/*/result.json"))) == 4


def test_resuming_a_finished_run_boots_nothing(finished):
    count = (finished.bin / "boots").read_text()
    assert finished.tool("resume", finished.out, "--live", "off").returncode == 0
    assert (finished.bin / "boots").read_text() == count


def test_export(finished):
    assert finished.tool("export", finished.out, "--to", "csv", "--out", finished.folder / "csv").returncode == 0
    rows = (finished.folder / "csv" / "tests.csv").read_text().splitlines()
    assert rows[0] == "boot,pair,arm,test,unit,value,raw" and len(rows) == 1 + 4 * 4


def test_resume_refuses_a_changed_image(finished):
    [image] = finished.json("run.json")["images"].values()
    before = (finished.out / image).read_bytes()
    try:
        (finished.out / image).write_bytes(before + b"x")
        done = finished.tool("resume", finished.out, "--live", "off")
    finally:
        (finished.out / image).write_bytes(before)
    assert done.returncode == 2 and "not the image" in done.stderr


def test_a_failed_boot_is_kept_and_its_pair_run_again(lab):
    done = lab.run(plan="ok,panic,hang,ok,ok")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.outcomes() == {"01-A": "ok", "01-B": "panic", "01-A.2": "hang", "01-A.3": "ok", "01-B.3": "ok",
                              "02-A": "ok", "02-B": "ok"}
    used = [boot["id"] for boot in lab.json("results.json")["boots"] if boot["used"]]
    assert sorted(used) == ["01-A.3", "01-B.3", "02-A", "02-B"]


def test_a_pair_that_cannot_be_completed(lab):
    done = lab.run(plan="nostart,reset,cut")
    assert done.returncode == 3
    assert lab.outcomes() == {"01-A": "failed-start", "01-A.2": "reset", "01-A.3": "incomplete", "02-A": "ok", "02-B": "ok"}
    assert "told not to start" in lab.boots()["01-A"]["reason"]


def test_a_guest_that_always_fails_ends_the_run(lab):
    done = lab.run(plan="panic," * 30, pairs=6)
    assert done.returncode == 3
    assert len(lab.outcomes()) == 6 and set(lab.outcomes().values()) == {"panic"}
    assert "rest is not tried" in done.stdout


def test_void_boots_are_tried_again(lab):
    assert lab.run(plan="void").returncode == 0
    assert lab.outcomes()["01-A"] == "not parallel"


def test_an_arm_that_the_kernel_refuses_here_is_left_out(lab):
    """Three arms; the second names lock=, its last argument but the tool's, and the machine takes no part in it."""
    done = lab.run(plan="ok,refused", arms=("front=none", "front=bounded deadline=4s", "front=bounded lock=mcs"))
    assert done.returncode == 0, done.stdout + done.stderr
    run = lab.json("run.json")
    assert list(run["arms"]) == ["A", "C"]
    assert run["skipped"] == [{"name": "arm B", "reason": "deadline=4s: not here"}]
    assert "arm B" in [entry["name"] for entry in lab.json("results.json")["skipped"]]


def test_fewer_than_two_arms_left(lab):
    done = lab.run(plan="ok,refused", arms=("front=none", "front=bounded deadline=4s"))
    assert done.returncode == 4 and done.stderr.count("\n") == 1
    assert lab.json("run.json")["state"] == "interrupted"


def test_a_refusal_of_what_is_not_an_arm_s_own_ends_the_run(lab):
    done = lab.run(plan="refused")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "01-A was refused" in done.stderr
    assert lab.outcomes() == {"01-A": "refused"}


@pytest.mark.parametrize("rule, pairs, strict, code, held", [
    ("B < A", 4, [], 0, True), ("B > A", 4, [], 1, False), ("B < A", 2, [], 0, None), ("B < A", 2, ["--strict"], 1, None)])
def test_expectations_turn_a_run_into_a_test(lab, rule, pairs, strict, code, held):
    path = fake_machine.experiment(lab.folder / "x", pairs)
    path.write_text(path.read_text() + f'[expect]\n"test:malloc/64/all-cpus" = "{rule}"\n')
    done = lab.tool("run", path, "--out", lab.out, "--live", "off", *strict)
    assert done.returncode == code, done.stdout + done.stderr
    assert lab.json("results.json")["expectations"][0]["held"] is held
    said = {True: "held", False: "FAILED", None: "cannot tell"}[held]
    assert f"expected test:malloc/64/all-cpus: {rule}: {said}" in done.stdout


def test_bad_files_create_nothing(lab):
    done = lab.run(arms=("front=none", "frnt=bounded"))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "front)" in done.stderr
    assert not lab.out.exists() and not (lab.bin / "boots").exists()


@pytest.mark.parametrize("how, status, when", [
    (signal.SIGINT, 130, "first boot"), (signal.SIGINT, 130, "between"), (signal.SIGTERM, 130, "second boot"),
    (signal.SIGKILL, -9, "second boot"), (signal.SIGKILL, -9, "between")])
def test_stopping_leaves_no_machine_and_a_run_that_resume_completes(lab, how, status, when):
    tool = lab.start(pace=1.0)
    boots = lab.out / "boots"
    moment = {"first boot": lambda: (boots / "01-A" / "telemetry.bin").exists(),
              "second boot": lambda: (boots / "01-B" / "telemetry.bin").exists(),
              "between": lambda: (boots / "01-A" / "boot.json").exists()}[when]
    try:
        lab.wait_until(moment)
        tool.send_signal(how)
        out, _ = tool.communicate(timeout=20)
    finally:
        tool.kill()
    assert tool.returncode == status, out
    lab.wait_until(lambda: not lab.machines(), 3.0)
    for path in lab.out.rglob("*.json"):
        json.loads(path.read_text())
    assert lab.json("run.json")["state"] == ("running" if how == signal.SIGKILL else "interrupted")
    before = {path: path.read_bytes() for path in lab.out.glob("boots/*/*") if (path.parent / "boot.json").exists()}
    done = lab.tool("resume", lab.out, "--live", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.json("run.json")["state"] == "done"
    assert {path: path.read_bytes() for path in before} == before, "archived boots stay as they are"
    used = [boot["id"] for boot in lab.json("results.json")["boots"] if boot["used"]]
    assert len(used) == 4


def test_a_run_stopped_before_its_order_was_drawn_resumes(lab):
    lab.run(pairs=1)
    run = lab.json("run.json")
    run.update(order=[], images={}, arm_images={}, state="running")
    (lab.out / "run.json").write_text(json.dumps(run))
    for path in sorted(lab.out.glob("boots/*/*")):
        path.unlink()
    for path in sorted(lab.out.glob("boots/*")):
        path.rmdir()
    done = lab.tool("resume", lab.out, "--live", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(lab.outcomes().values()) == {"ok"} and len(lab.outcomes()) == 2


def test_a_run_is_written_by_one_only(lab):
    tool = lab.start(pace=1.0)
    try:
        lab.wait_until(lambda: lab.out.exists())
        done = lab.tool("resume", lab.out, "--live", "off")
        assert done.returncode == 2 and "another hayloft" in done.stderr
    finally:
        tool.send_signal(signal.SIGINT)
        tool.communicate(timeout=20)


def test_planned_looks_stop_when_all_is_decided(lab):
    path = fake_machine.experiment(lab.folder / "x", 2)
    path.write_text(path.read_text().replace("pairs = 2", "pairs = { looks = [6, 12] }").replace(
        "tests=malloc/64,malloc/4096", "tests=malloc/64/all-cpus"))
    done = lab.tool("run", path, "--out", lab.out, "--live", "off")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {test["versus"]["B"]["verdict"] for test in lab.json("results.json")["tests"]}
    assert len(lab.outcomes()) == (24 if "undecided" in verdicts else 12), verdicts


def test_axes(lab):
    done = lab.run(pairs=1, extra='[axes]\n"bounded.objects" = [16, 32]\n')
    assert done.returncode == 0, done.stdout + done.stderr
    boots = lab.boots()
    assert sorted(boots) == ["01-A-p1", "01-A-p2", "01-B-p1", "01-B-p2"]
    assert "bounded.objects=16" in boots["01-B-p1"]["args"] and boots["01-B-p1"]["point"] == {"bounded.objects": 16}


# -- the parts that need no process -------------------------------------------------------------------------

KNOBS = runs.defs.parse_knobs((ROOT / "base" / "knobs.def").read_text())


def test_what_the_tool_adds():
    spec = base.Machine("tcg", "tcg", 60, "1G", 60.0)
    assert runs.added_arguments("front=none", spec, KNOBS) == ["deadline=54000", "overcommit=1"]
    assert runs.added_arguments("deadline=1s overcommit=0", spec, KNOBS) == []
    exact = base.Machine("icount", "icount", 1, "1G", 60.0)
    assert runs.argument_line("kbench.ms=100 front=none", exact, KNOBS).split() == [
        "front=none", "deadline=54000", f"kbench.ops={runs.ICOUNT_OPERATIONS}"]


@pytest.mark.parametrize("sent, echoed, word", [
    ("front=none", {"front": "none"}, ""),
    ("deadline=60s", {"deadline": "60000"}, ""),
    ("front=none", {"front": "bounded"}, "front=bounded"),
    ("front=none", {}, "front"),
    ("front=none", None, "front"),
])
def test_the_kernel_must_echo_what_it_was_sent(sent, echoed, word):
    found = runs.echo_mismatch(sent, {"knobs": echoed}, KNOBS)
    assert (found == "") == (word == "") and word in found


def test_shipped_experiments_finish_in_time():
    """Within 4 minutes on host and 10 on tcg. Seconds a boot, on two cores at rest: magazines.toml 9.6 and 12.2; those that
    have more or longer rounds, or more boots, as seen on host."""
    seen = {"scaling.toml": 18, "bounded-depth.toml": 5, "counters-cost.toml": 3, "barn-size.toml": 2}
    for path in experiments.shipped_files():
        found = experiments.load(path)
        boots = len(found.points) * len(found.arms) * found.pairs
        host, tcg = seen.get(path.name, 10), 20 * (found.machine["kind"] != "host")
        assert boots * host <= 4 * 60 and boots * tcg <= 10 * 60, f"{path}: {boots} boots"


def views(run):
    """Live views of this run and those who look at them: their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if "telemetry.live" in words and str(run) in words or "telemetry.live.looker" in words:
            found.append(words)
    return found


def test_an_arm_may_have_a_live_view_that_is_looked_at(lab):
    path = fake_machine.experiment(lab.folder / "x", pairs=1)
    path.write_text(path.read_text().replace('args = "front=bounded"', 'args = "front=bounded", live = "web"'))
    before = views(lab.out)
    done = lab.tool("run", path, "--out", lab.out, "--live", "web", pace=2.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "live view: http" not in done.stdout, "each arm has its own view, and the run none"
    boots = lab.boots()
    assert boots["01-A"]["live"] == {"view": "off"}
    assert boots["01-B"]["live"]["view"] == "web"
    assert boots["01-B"]["live"]["frames"] >= 1, "somebody looks, so it is drawn"
    assert boots["01-B"]["live"]["cpu_seconds"] > 0
    assert "live" not in boots["01-B"]["args"]
    assert lab.json("results.json")["arms"] == {"A": "front=none live=off", "B": "front=bounded live=web"}
    assert views(lab.out) == before
