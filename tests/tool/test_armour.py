"""What the tool does when the machine, the disk or somebody else fails it: the outcome, its reason, the exit code, one
line, and an archive that is whole and that resume completes. On the fake machine; the kernel's own failures are for
tests/boot.

The disk that is full and the archive that cannot be written are mounts in a mount namespace of their own, which ends
with the shell that made it, so nothing stays mounted whatever happens. It takes root, or user namespaces.
"""

import json
import os
import shlex
import shutil
import subprocess

import pytest

import fake_machine
from telemetry import ROOT, machine, store
from telemetry.errors import EXIT_MACHINE, HayloftError
from telemetry.machine import probe, qemu


class Lab:
    """The tool with the fake machine, run as a user runs it."""

    def __init__(self, folder, pairs=1):
        self.folder, self.out = folder, folder / "run"
        fake_machine.install(folder / "bin")
        self.experiment = fake_machine.experiment(folder / "x", pairs)

    def words(self, *words):
        return [str(ROOT / "hayloft"), *map(str, words)]

    def call(self, argv, plan=""):
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                              env=fake_machine.environment(self.folder / "bin", plan))

    def tool(self, *words, plan=""):
        return self.call(self.words(*words), plan)

    def run(self, plan=""):
        return self.tool("run", self.experiment, "--out", self.out, "--live", "off", plan=plan)

    def boots(self):
        return {path.parent.name: json.loads(path.read_text()) for path in self.out.glob("boots/*/boot.json")}


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that went well; those who take it copy it."""
    lab = Lab(tmp_path_factory.mktemp("finished"))
    done = lab.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return lab.out


def one_line(done, code):
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("hayloft: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# -- machines ---------------------------------------------------------------------------------------------------

def test_streams_and_machines_that_break_off(lab):
    """One attempt each: a stream torn in mid-frame, a machine killed in mid-frame; the pair is given up, all of it is
    kept, and resume makes it whole."""
    done = lab.run(plan="torn,killed,nostart")
    assert done.returncode == 3, done.stdout + done.stderr
    boots = lab.boots()
    assert {name: (boot["outcome"], boot["exit_status"]) for name, boot in boots.items()} == {
        "01-A": ("incomplete", 33), "01-A.2": ("incomplete", -9), "01-A.3": ("failed-start", 1)}
    assert "no bye" in boots["01-A"]["reason"] and "cut" in boots["01-A"]["reason"]
    assert "killed from outside (SIGKILL)" in boots["01-A.2"]["reason"]
    assert "told not to start" in boots["01-A.3"]["reason"]
    for name in ("01-A", "01-A.2"):
        assert boots[name]["damaged"] == 1, "the torn frame is one damaged segment"
        assert (lab.out / "boots" / name / "telemetry.bin").stat().st_size > 500
        assert json.loads((lab.out / "boots" / name / "result.json").read_text())["hello"]
    assert "told not to start" in (lab.out / "boots" / "01-A.3" / "qemu.log").read_text()
    for name, boot in boots.items():
        assert f"boot {name}: {boot['outcome']}: {boot['reason']}" in done.stdout
    again = lab.tool("resume", lab.out, "--live", "off")
    assert again.returncode == 0, again.stdout + again.stderr
    assert {name: boot for name, boot in lab.boots().items() if name in boots} == boots
    assert sorted(boot["outcome"] for name, boot in lab.boots().items() if name not in boots) == ["ok", "ok"]


@pytest.fixture
def lying_kvm(tmp_path, monkeypatch):
    """A /dev/kvm that is there and may be opened. lying_kvm(how): what a guest on it comes to."""
    there, may = os.path.exists, os.access
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/dev/kvm" or there(path))
    monkeypatch.setattr(os, "access", lambda path, mode: path == "/dev/kvm" or may(path, mode))
    monkeypatch.setattr(probe, "LIMIT_SECONDS", 1.0)
    monkeypatch.setattr(probe.try_boot, "__defaults__", (1.0,))
    fake_machine.install(tmp_path / "bin")

    def how(fate):
        for name, value in fake_machine.environment(tmp_path / "bin").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("FAKE_PROBE", fate)
        assert qemu.program() == str(tmp_path / "bin" / "qemu-system-x86_64")
    return how


@pytest.mark.parametrize("fate, word", [("slow", "it emulates"), ("broken", "the fake says no")])
def test_a_kvm_that_lies_is_found_out(lying_kvm, fate, word):
    lying_kvm(fate)
    with pytest.raises(HayloftError, match=word) as caught:
        machine.resolve({"kind": "kvm", "cpus": 1})
    assert caught.value.exit_code == EXIT_MACHINE and "--machine tcg" in str(caught.value)
    assert machine.resolve({"kind": "auto", "cpus": 1}).kind == "tcg", "auto takes what works"


def test_a_kvm_that_works_is_taken(lying_kvm):
    lying_kvm("works")
    assert machine.resolve({"kind": "auto", "cpus": 1}).kind == "kvm"


# -- disks --------------------------------------------------------------------------------------------------------

def namespace():
    """The command that gives its command mounts of its own, or a skip where nobody may."""
    for options in (["--mount"], ["--mount", "--map-root-user"]):
        words = ["unshare", *options]
        if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                          check=False).returncode == 0:
            return words
    return pytest.skip("mounting takes root or user namespaces")


def in_namespace(lab, *steps):
    """Runs steps, each shell text or the tool's words, with `disk` mounted as they say; gives each tool call's
    (exit code, stderr). The disk's content is copied out to `kept` at the end."""
    script = ["set -u"]
    for number, step in enumerate(steps):
        if isinstance(step, str):
            script.append(f"{step} || exit 99")
        else:
            script.append(f"{shlex.join(lab.words(*step))} >out.{number} 2>err.{number} </dev/null; echo $? >code.{number}")
    script.append("cp -a disk kept")
    done = subprocess.run([*namespace(), "sh", "-c", "\n".join(script)], cwd=lab.folder, capture_output=True, text=True,
                          timeout=240, check=False, env=fake_machine.environment(lab.folder / "bin"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = []
    for number, step in enumerate(steps):
        if not isinstance(step, str):
            code = int((lab.folder / f"code.{number}").read_text())
            found.append((code, (lab.folder / f"err.{number}").read_text(), (lab.folder / f"out.{number}").read_text()))
    return found


@pytest.mark.parametrize("kilobytes, where", [(8, "image"), (200, "boots"), (600, "plots")])
def test_a_full_disk(lab, kilobytes, where):
    """Full while the image, a boot, or the report is written: one line, nothing half-written, and with more room
    resume completes the run with the boots that were archived."""
    (lab.folder / "disk").mkdir()
    experiment = fake_machine.experiment(lab.folder / "x", 2)
    run = lab.folder / "disk" / "run"
    first, second = in_namespace(
        lab, f"mount -t tmpfs -o size={kilobytes}k none disk", ("run", experiment, "--out", run, "--live", "off"),
        "cp -a disk full", "mount -o remount,size=60m disk", ("resume", run, "--live", "off"))
    code, line, _ = first
    assert code == EXIT_MACHINE and line.count("\n") == 1, first
    assert f"{run}/{where}/" in line and "No space left" in line and "resume" in line, line
    full, kept = lab.folder / "full" / "run", lab.folder / "kept" / "run"
    assert [path for path in full.rglob(".*")] == [], "half-written files were left"
    for path in full.rglob("*.json"):
        json.loads(path.read_text())
    assert second[0] == 0, second
    for path in full.glob("boots/*/boot.json"):
        for file in path.parent.iterdir():
            assert (kept / file.relative_to(full)).read_bytes() == file.read_bytes(), file
    assert json.loads((kept / "run.json").read_text())["state"] == "done"
    used = [boot for boot in json.loads((kept / "results.json").read_text())["boots"] if boot["used"]]
    assert len(used) == 4


def test_a_read_only_archive(lab, finished):
    """It can be looked at and exported elsewhere; what would write to it says so in a line and changes nothing."""
    run = lab.folder / "disk" / "run"
    (lab.folder / "disk").mkdir()
    shutil.copytree(finished, run)
    done = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**done, "state": "interrupted"}))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    resume, report, new, export = in_namespace(
        lab, "mount --bind disk disk", "mount -o remount,bind,ro disk", ("resume", run, "--live", "off"), ("report", run),
        ("run", lab.experiment, "--out", lab.folder / "disk" / "other", "--live", "off"),
        ("export", run, "--out", lab.folder / "csv"))
    for code, line, _ in (resume, report, new):
        assert code == 2 and line.count("\n") == 1 and "Read-only file system" in line, (code, line)
    assert export[0] == 0 and (lab.folder / "csv" / "tests.csv").stat().st_size > 100
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


# -- writers --------------------------------------------------------------------------------------------------------

def test_a_second_writer_of_any_kind_is_refused(lab, finished):
    shutil.copytree(finished, lab.out)
    before = {path: path.read_bytes() for path in lab.out.rglob("*") if path.is_file()}
    with store.open_run(lab.out, locked=True):
        for words in (("resume", lab.out, "--live", "off"), ("report", lab.out)):
            assert "another hayloft" in one_line(lab.tool(*words), 2)
        assert "not empty" in one_line(lab.run(), 2)
        assert lab.tool("export", lab.out, "--out", lab.folder / "csv").returncode == 0, "reading needs no lock"
    assert {path: path.read_bytes() for path in lab.out.rglob("*") if path.is_file()} == before


def test_what_a_killed_writer_left_aside_is_removed_by_the_next(lab, finished):
    shutil.copytree(finished, lab.out)
    left = [lab.out / ".run.json.123", lab.out / "image" / ".fake-A.elf.45", lab.out / "boots" / "01-A" / ".boot.json.6"]
    mine = lab.out / ".notes"
    for path in (*left, mine):
        path.write_text("half")
    store.open_run(lab.out).close()
    assert all(path.exists() for path in left), "a reader leaves them alone"
    assert lab.tool("resume", lab.out, "--live", "off").returncode == 0
    assert not any(path.exists() for path in left) and mine.exists()
