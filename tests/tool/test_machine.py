"""Machines without a kernel: what is refused, what QEMU is told, that no child outlives the tool."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import fake_machine
from telemetry import ROOT, build, machine
from telemetry.errors import HayloftError
from telemetry.machine import base, child, facts, probe, qemu

needs_qemu = pytest.mark.skipif(not shutil.which(qemu.PROGRAM), reason="qemu-system-x86_64 is not installed")


@pytest.mark.parametrize("text, size", [("2G", 2 << 30), ("512M", 512 << 20), ("64K", 65536), ("7", 7), ("", None),
                                        ("G", None), ("-1G", None), ("1.5G", None), ("2g", None)])
def test_sizes(text, size):
    assert machine.parse_size(text) == size


@pytest.mark.parametrize("text, seconds", [("60s", 60), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("7", 7),
                                           ("", None), ("soon", None), ("-1s", None)])
def test_times(text, seconds):
    assert machine.parse_seconds(text) == seconds


@pytest.mark.parametrize("settings, word", [
    ({"kind": "tgc"}, "tcg"), ({"cpus": 0}, "1..64"), ({"cpus": 65}, "1..64"), ({"cpus": True}, "whole number"),
    ({"memory": "1K"}, "16M"), ({"timeout": "0s"}, "above 0"), ({"topology": "socks=2"}, "sockets"),
    ({"topology": "cores=x"}, "whole number"), ({"topology": "cores=2,cores=2"}, "once"),
    ({"topology": "cores=3", "cpus": 2}, "makes 3"), ({"topology": "cores=2", "kind": "host"}, "means nothing"),
])
def test_settings_that_no_host_can_satisfy(settings, word):
    with pytest.raises(HayloftError, match=word) as caught:
        machine.resolve({"kind": "tcg", **settings})
    assert str(caught.value).startswith("machine.")


def test_resolving():
    cores = len(facts.usable_cpus())
    found = machine.resolve({"kind": "tcg"})
    assert found.cpus == min(cores, 8) and not found.over_committed
    assert machine.resolve({"kind": "tcg", "cpus": min(cores + 1, 64)}).over_committed
    assert not machine.resolve({"kind": "icount", "cpus": min(cores + 1, 64)}).over_committed
    assert machine.resolve({"kind": "tcg", "topology": "sockets=2,cores=3,threads=1"}).cpus == 6


def test_what_qemu_is_told():
    spec = base.Machine("tcg", "auto", 6, "512M", 60.0, "sockets=2,cores=3,threads=1")
    if not shutil.which(qemu.PROGRAM):
        pytest.skip("qemu-system-x86_64 is not installed")
    words = qemu.command(spec, pathlib.Path("/a,b/x.iso"), 7, 8)
    text = " ".join(words)
    assert "-smp 6,sockets=2,cores=3,threads=1" in text and "size=512M" in text
    assert "file=/a,,b/x.iso," in text, "commas in a path are doubled"
    assert "thread=multi" in text and "type=11,path=/dev/fd/7" in text and "-no-reboot" in text
    assert "shift=0,align=off,sleep=off" in " ".join(qemu.command(
        base.Machine("icount", "icount", 1, "512M", 60.0), pathlib.Path("x"), None, 8))


@pytest.mark.parametrize("seconds, tty, told", [(1, True, True), (1, False, False), (0, True, False)])
def test_people_are_told_of_a_build_that_takes_long(tmp_path, monkeypatch, capsys, seconds, tty, told):
    program = tmp_path / "ninja"
    program.write_text(f"#!/bin/sh\nexec sleep {seconds}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(build, "PATIENCE", 0.3 if seconds else 60)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    build.ninja(["build/host/hayloft-host"], tmp_path / "build.log", tmp_path)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("building build/host/hayloft-host") == said.err.count("\n") == told
    assert (str(tmp_path / "build.log") in said.err) == told


def test_an_iso_is_made_anew_when_what_makes_it_changes(tmp_path, monkeypatch):
    """The kernel alone does not tell which ISO it is: the menu and the maker go into it too."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "IMAGES", tmp_path / "images")
    maker, config = tmp_path / "tools" / "mkiso.py", tmp_path / "arch" / "x86_64" / "grub.cfg"
    for path in (maker, config):
        path.parent.mkdir(parents=True)
    program = "import sys; open(sys.argv[-1], 'w').write(open(sys.argv[4]).read() + 'by {}')"
    elf = tmp_path / "kernel.elf"
    elf.write_bytes(b"kernel")
    config.write_text("menu one ")
    maker.write_text(program.format("hand"))
    first = build.open_image(elf, hosted=False).iso
    assert first.read_text() == "menu one by hand"
    first.write_text("kept")
    assert build.open_image(elf, hosted=False).iso.read_text() == "kept"
    config.write_text("menu two ")
    assert build.open_image(elf, hosted=False).iso.read_text() == "menu two by hand"
    maker.write_text(program.format("machine"))
    assert build.open_image(elf, hosted=False).iso.read_text() == "menu two by machine"


@needs_qemu
def test_the_probe_guest_runs():
    assert probe.try_boot(qemu.accelerator("tcg"), limit=20.0) == (True, "the probe guest ran")


@needs_qemu
def test_a_machine_that_emulates_is_found_out():
    """The same guest with no time to do it in stands for a KVM that emulates every instruction."""
    works, reason = probe.try_boot(qemu.accelerator("tcg"), limit=0.01)
    assert not works and "emulates" in reason


@needs_qemu
def test_a_qemu_that_cannot_start_gives_its_own_words():
    works, reason = probe.try_boot(["-accel", "nonesuch"], limit=20.0)
    assert not works and "nonesuch" in reason


def test_kvm_answer_is_kept_for_this_boot_of_the_host(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(qemu, "version", lambda: "1")
    asked = []
    monkeypatch.setattr(probe, "try_boot", lambda *_: asked.append(1) or (False, "it emulates"))
    assert probe.kvm() == probe.kvm() == (False, "it emulates")
    assert len(asked) == 1
    monkeypatch.setattr(facts, "boot_id", lambda: "another")
    probe.kvm()
    assert len(asked) == 2
    probe.cache_file().write_text("{")
    assert probe.kvm() == (False, "it emulates") and len(asked) == 3


def gone(pid, seconds=5.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_children_die_with_the_tool_however_it_dies():
    code = ("import sys, time\nfrom telemetry.machine import child\n"
            "print(child.start(['sleep', '600']).pid, flush=True)\ntime.sleep(600)")
    tool = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
    pid = int(tool.stdout.readline())
    assert not gone(pid, 0.2)
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    tool.stdout.close()
    assert gone(pid)


def test_children_are_started_from_the_main_thread_only():
    caught = []

    def other():
        try:
            child.start(["true"])
        except RuntimeError as error:
            caught.append(error)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_ending_a_child_ends_its_whole_group():
    process = child.start(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    grandchild = int(process.stdout.readline())
    child.end(process)
    process.stdout.close()
    assert gone(grandchild)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake_machine.install(tmp_path / "bin")
    for name, value in fake_machine.environment(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    iso = tmp_path / "x.iso"
    iso.touch()
    elf = fake_machine.make_image(tmp_path / "x.elf")
    folder = tmp_path / "boot"
    folder.mkdir()
    return base.Machine("tcg", "tcg", 2, "512M", 3.0), base.Image(elf, iso, "", False), folder


def test_one_boot(fake):
    spec, image, folder = fake
    done = machine.start(spec, image, "front=none", folder).wait()
    assert (done.exit_status, done.timed_out) == (33, False)
    assert (folder / "telemetry.bin").stat().st_size > 1000
    assert (folder / "console.log").read_bytes() == b"fake kernel\n"
    assert sorted(path.name for path in folder.iterdir()) == ["console.log", "qemu.log", "telemetry.bin"]


def test_a_boot_that_hangs_is_ended_when_its_time_is_up(fake, monkeypatch):
    monkeypatch.setenv("FAKE_PLAN", "hang")
    spec, image, folder = fake
    running = machine.start(spec, image, "front=none", folder)
    done = running.wait()
    assert done.timed_out and done.exit_status is None and 3.0 <= done.seconds < 10
    assert gone(running.pid, 0.5)


def test_leaving_a_boot_by_an_exception_ends_it(fake, monkeypatch):
    monkeypatch.setenv("FAKE_PLAN", "hang")
    spec, image, folder = fake
    running = machine.start(spec, image, "front=none", folder)

    def tick(_elapsed):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        running.wait(tick)
    assert gone(running.pid, 0.5)


def test_a_machine_that_does_not_start(fake, monkeypatch):
    monkeypatch.setenv("FAKE_PLAN", "nostart")
    spec, image, folder = fake
    done = machine.start(spec, image, "front=none", folder).wait()
    assert done.exit_status == 1
    assert "told not to start" in qemu.start_failure(folder)
