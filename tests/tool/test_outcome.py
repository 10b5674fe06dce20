"""What became of a boot: every way to end has its name, and nothing but a good bye is ok."""

import pytest

from telemetry import outcome
from telemetry.machine import base

HELLO = {"knobs": {}}
LEFT_OUT = {"name": "beds", "unit": "beds", "amount": 4, "of": 0, "doc": "beds without a number", "detail": "", "voids": False}


@pytest.mark.parametrize("status, timed_out, digest, expected", [
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}}, "ok"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "parallel": {"ok": True}}, "ok"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "parallel": {"ok": None}}, "ok"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "parallel": {"ok": False, "reason": "slow"}}, "not parallel"),
    (33, False, {"hello": {"knobs": {}, "cpus": [[0], [1]], "cpus_found": 3}, "bye": {"outcome": "ok"}}, "not parallel"),
    (33, False, {"hello": {"knobs": {"maxcpus": "2"}, "cpus": [[0], [1]], "cpus_found": 3}, "bye": {"outcome": "ok"}},
     "ok"),
    (0, False, {"hello": HELLO, "bye": {"outcome": "ok"}}, "incomplete"),
    (33, False, {"hello": HELLO}, "incomplete"),
    (33, False, None, "incomplete"),
    (0, False, {"hello": HELLO}, "reset"),
    (0, False, {}, "reset"),
    (35, False, {"hello": HELLO, "panic": {"name": "trap", "file": "a.c", "line": 1, "cpu": 1}}, "panic"),
    (35, False, {}, "panic"),
    (0, False, {"hello": HELLO, "panic": {"name": "trap"}}, "panic"),
    (35, False, {"hello": HELLO, "panic": {"name": "deadline"}}, "timeout"),
    (37, False, {"hello": HELLO, "bye": {"outcome": "refused"}, "refused": [["a=b", "no", "c"]]}, "refused"),
    (37, False, {}, "refused"),
    (None, True, {}, "hang"),
    (None, True, {"hello": HELLO}, "hang"),
    (None, True, {"hello": HELLO, "bye": {"outcome": "ok"}}, "timeout"),
    (39, False, {"hello": HELLO, "bye": {"outcome": "self-check", "reason": "balance"}}, "self-check"),
    (39, False, {"hello": HELLO}, "self-check"),
    (39, False, {"hello": HELLO, "bye": {"outcome": "deadline"}}, "timeout"),
    (1, False, {}, "failed-start"),
    (-11, False, {}, "failed-start"),
    (1, False, {"hello": HELLO}, "incomplete"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "interrupted"}}, "incomplete"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "left_out": [{**LEFT_OUT, "voids": True}]}, "left out"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "left_out": [LEFT_OUT]}, "ok"),
    (33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "left_out": []}, "ok"),
    (39, False, {"hello": HELLO, "bye": {"outcome": "self-check", "reason": "x"}, "left_out": [{**LEFT_OUT, "voids": True}]},
     "self-check"),
])
def test_classify(status, timed_out, digest, expected):
    found, reason = outcome.classify(status, timed_out, digest)
    assert found == expected
    assert found in outcome.OUTCOMES
    assert (reason == "") == (found == "ok"), "every failure says why"


def test_a_boot_that_is_void_for_what_it_left_out_says_what_that_was():
    entries = [{**LEFT_OUT, "of": 9, "detail": "the attic", "voids": True}, LEFT_OUT]
    _, reason = outcome.classify(33, False, {"hello": HELLO, "bye": {"outcome": "ok"}, "left_out": entries})
    assert reason == "4 of 9 beds: beds without a number (the attic)"


def test_a_refusal_names_the_nearest():
    _, reason = outcome.classify(37, False, {"hello": HELLO, "bye": {"outcome": "refused"},
                                             "refused": [["frnt=x", "no such knob", "front"]]})
    assert "frnt=x" in reason and "front)" in reason


SAID = ('[    0.000000 cpu0] HAYLOFT-REFUSED reason="there is no serial port COM2" have=1\n',
        'HAYLOFT-PANIC kind=3 name=boot cpu=0 at=a.c:1 text="the CPU has no local APIC"\n')


@pytest.mark.parametrize("status, digest, says", [
    (37, {}, "there is no serial port COM2"),
    (37, None, "there is no serial port COM2"),
    (37, {"bye": {"outcome": "refused", "reason": "too little memory"}}, "too little memory"),
    (35, {}, "the CPU has no local APIC (from the console: no panic record came)"),
    (35, {"panic": {"name": "trap"}}, "trap on CPU ?"),
])
def test_the_console_is_asked_where_telemetry_says_nothing(status, digest, says):
    assert outcome.classify(status, False, digest, "GRUB\n" + "".join(SAID))[1] == says
    assert outcome.classify(status, False, digest)[1]


def test_a_missing_cpu_is_told_with_its_reason():
    hello = {"knobs": {}, "cpus": [[0]], "cpus_found": 3}
    events = [{"kind": "warning", "text": "the CPU with APIC id 1 was left out: its PAT is 1, CPU 0's is 7"},
              {"kind": "warning", "text": "the CPU with APIC id 2 was left out: it did not answer"}]
    _, reason = outcome.classify(33, False, {"hello": hello, "bye": {"outcome": "ok"}, "events": events})
    assert reason == ("1 of 3 CPUs started; the CPU with APIC id 1 was left out: its PAT is 1, CPU 0's is 7 "
                      "(and 1 more)")


def test_guest_faults_and_void_boots_share_nothing():
    assert not set(outcome.GUEST_FAULTS) & set(outcome.VOID)
    assert set(outcome.GUEST_FAULTS) | set(outcome.VOID) | {"ok"} == set(outcome.OUTCOMES)


@pytest.mark.parametrize("found, ran, waited, expected", [
    ("timeout", [1.6, 4.5], [36.9, 28.3], "not parallel"),  # a boot that was seen, on a host with a load of 17
    ("hang", [0.0, 0.0], [30.0, 30.0], "not parallel"),
    ("timeout", [50.0, 50.0], [4.0, 4.0], "timeout"),
    ("hang", [54.0, 0.1], [0.2, 0.0], "hang"),  # one spins, the other halts
    ("timeout", [0.1, 0.1], [0.0, 0.0], "timeout"),  # all sleep
    ("timeout", [], [], "timeout"),
    ("timeout", [1.0, 1.0], [None, None], "timeout"),
    ("panic", [1.0, 1.0], [50.0, 50.0], "panic"),
    ("self-check", [1.0, 1.0], [50.0, 50.0], "self-check"),
    ("ok", [1.0, 1.0], [50.0, 50.0], "ok"),
])
def test_time_that_ran_out_on_a_starved_host_is_not_the_arms_fault(found, ran, waited, expected):
    outcome_, reason = outcome.starved((found, "why"), ran, waited)
    assert outcome_ == expected
    assert "why" in reason and (("the host gave" in reason) == (expected != found))


SENDS = {"telemetry.hz": "20", "kbench.ops": "0"}


@pytest.mark.parametrize("found", ["hang", "timeout"])
@pytest.mark.parametrize("silent, knobs, stands", [
    (3.3, SENDS, True),
    (0.9, SENDS, False),  # a timed section that has just begun
    (3.3, {**SENDS, "telemetry.hz": "0"}, False),
    (3.3, {**SENDS, "kbench.ops": "1000"}, False),
    (3.3, None, False),  # it never said hello, so nobody knows what it should have sent
])
def test_a_kernel_that_had_time_and_said_nothing_hung_on_a_starved_host_too(found, silent, knobs, stands):
    outcome_, _ = outcome.starved((found, "why"), [5.0, 1.0], [20.0, 20.0], silent, knobs)
    assert outcome_ == (found if stands else "not parallel")


def test_the_hosts_share_is_not_held_against_a_silent_guest(tmp_path):
    """What CPU 0 waits for the host is no silence, and neither is what passes before the first byte."""
    running = base.Running.__new__(base.Running)
    running.threads, running.used, running.heard, running.silent = [7], {7: (0.0, 0.0)}, None, 0.0
    running.outputs = (tmp_path / "console.log", tmp_path / "telemetry.bin")
    for path in running.outputs:
        path.touch()
    clock = [100.0]

    def listen(seconds, waited):
        clock[0] += seconds
        running.used[7] = 0.0, running.used[7][1] + waited
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(base.time, "monotonic", lambda: clock[0])
            running.listen()
        return round(running.silent, 6)

    assert listen(50, 0) == 0  # nothing yet: firmware
    running.outputs[0].write_bytes(b"Hayloft")
    assert listen(1, 0) == 0
    assert listen(10, 9) == 1
    running.outputs[1].write_bytes(b"hello")
    assert listen(10, 9) == 1  # heard again
    assert listen(4, 1) == 3
    running.outputs[1].write_bytes(b"hello, sample")
    assert listen(1, 0) == 3, "the longest counts"
