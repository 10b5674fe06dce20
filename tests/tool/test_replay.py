"""The verbs replay and watch: what they refuse, and that they show the same as a run."""

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
import synth
from telemetry import ROOT, replay, watch
from telemetry.errors import HayloftError

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "TERM": "dumb"}


def run_of(tmp_path):
    run = tmp_path / "run"
    synth.write_run(run, {arm: synth.plan_for(arm, rounds=1) for arm in "AB"}, pairs=1)
    return run


def hayloft(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "telemetry", *words], env=ENVIRONMENT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_replay_in_a_terminal_ends_by_itself(tmp_path, capsys):
    run = run_of(tmp_path)
    assert replay.main(run / "boots" / "01-B", speed=0, kind="term") == 0
    text = capsys.readouterr().out
    assert "replay of 01-B" in text
    assert "malloc/64/all-cpus" in text


def test_replay_refuses_what_is_no_boot(tmp_path):
    with pytest.raises(HayloftError, match="no telemetry.bin"):
        replay.main(tmp_path)


@pytest.mark.parametrize("speed", [-1.0, float("nan"), float("inf"), 1e9])
def test_replay_refuses_an_absurd_speed(tmp_path, speed):
    with pytest.raises(HayloftError, match="--speed"):
        replay.main(run_of(tmp_path) / "boots" / "01-A", speed=speed)


@pytest.mark.parametrize("arguments, said", [
    ({"run": "x", "serial": "y"}, "not both"),
    ({"run": "x", "args": "front=none"}, "are for a boot"),
    ({"serial": "/dev/nothing-here"}, "/dev/nothing-here"),
    ({"run": "no-such-run"}, "no such run"),
])
def test_watch_refuses_in_one_line(arguments, said):
    with pytest.raises(HayloftError) as caught:
        watch.main(**arguments)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("verb", ["replay", "watch"])
def test_the_page_of_a_verb_stays_until_ctrl_c(tmp_path, verb):
    run = run_of(tmp_path)
    what = str(run / "boots" / "01-A") if verb == "replay" else str(run)
    process = hayloft(verb, what)
    try:
        line = process.stdout.readline()
        assert "live view: http://127.0.0.1:" in line
        address = line.split("live view: ")[1].split()[0]
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"<title>Hayloft live: " in answer.read()
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode in (0, 130)
        assert "Traceback" not in out + err
    finally:
        process.kill()
        process.communicate()


def test_a_serial_line_is_watched(tmp_path):
    """A pseudo-terminal plays the line; the view is the terminal's."""
    master, slave = pty.openpty()
    import tty

    tty.setraw(slave)
    process = hayloft("watch", "--serial", os.ttyname(slave), "--live", "term")
    data = b"GRUB loading\r\n" + synth.capture(synth.plan_for("A", rounds=1))
    stop = threading.Event()

    def send():
        time.sleep(3)  # pyserial throws away what came before it opened the line
        at = 0
        while at < len(data) and not stop.is_set():
            at += os.write(master, data[at : at + 500])
            time.sleep(0.02)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        text, deadline = "", time.monotonic() + 60
        while "malloc/4096/all-cpus" not in text and time.monotonic() < deadline:
            ready, _, _ = select.select([process.stdout], [], [], 1)
            text += os.read(process.stdout.fileno(), 65536).decode() if ready else ""
        assert "the machine at" in text
        assert "malloc/4096/all-cpus" in text
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        stop.set()
        process.kill()
        process.communicate()
        sender.join()
        os.close(master)
        os.close(slave)


def test_a_watched_boot_repeats_its_tests_unless_told_otherwise():
    class Spec:
        timeout, over_committed, kind = 0, False, "host"

    knobs = {"deadline", "repeat", "kbench"}
    words = watch.arguments_for("front=none kbench=1", Spec, knobs).split()
    assert words[:2] == ["front=none", "kbench=1"]
    assert {"repeat=1", "deadline=0"} <= set(words)
    assert "kbench=3" not in words
    assert len([word for word in words if word.startswith("deadline=")]) == 1
