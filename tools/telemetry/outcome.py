"""What became of a boot: from how the process ended and what its telemetry said.

Pure. Only a bye with outcome ok says that a boot went well: QEMU also exits 0 after a triple fault, and a
process may end well while the stream was cut. Guest faults count against an arm; void boots do not. A boot that ran
out of time because the host had none for its CPUs is the host's fault, not the arm's; one that had time and said nothing
in it hung, however busy the host was.
"""

import re
import signal

from . import leftout
from .machine.qemu import EXIT_FAILED, EXIT_OK, EXIT_PANIC, EXIT_REFUSED

OK = "ok"
REFUSED = "refused"
PANIC = "panic"
RESET = "reset"
HANG = "hang"
TIMEOUT = "timeout"
INCOMPLETE = "incomplete"
SELF_CHECK = "self-check"
NOT_PARALLEL = "not parallel"
FAILED_START = "failed-start"
LEFT_OUT = "left out"  # something without which its figures would be read as facts and are none
FOREIGN = "foreign"  # never a boot's own: what lies in its folder is not of one boot (bound.py)

OUTCOMES = (OK, REFUSED, PANIC, RESET, HANG, TIMEOUT, INCOMPLETE, SELF_CHECK, NOT_PARALLEL, FAILED_START, LEFT_OUT, FOREIGN)
GUEST_FAULTS = (REFUSED, PANIC, RESET, HANG, TIMEOUT, SELF_CHECK)
VOID = (INCOMPLETE, NOT_PARALLEL, FAILED_START, LEFT_OUT, FOREIGN)
ABSENT_CPU = "the CPU with APIC id "  # how a warning begins that names a CPU which did not come
STARVED_SHARE = 0.5  # of the time that CPUs were ready to run: with less, running out of time says nothing of the kernel
# A kernel that samples sends something at least once a second, timed section or not. One that is silent for twice that,
# not counting what its CPU 0 waited for the host, is stuck.
HUNG_SECONDS = 2.0
# Knobs under which it may be silent for long, at other values than these.
SPEAKS = {"telemetry.hz": lambda value: value != "0", "kbench.ops": lambda value: value == "0"}


def _panic_text(panic):
    name = panic.get("name", "unknown kind")
    where = f" at {panic['file']}:{panic['line']}" if panic.get("file") else ""
    return f"{name}{where} on CPU {panic.get('cpu', '?')}"


def _refused_text(digest):
    texts = []
    for argument, reason, near in digest.get("refused") or []:
        texts.append(f"{argument}: {reason}" + (f" (nearest legal name: {near})" if near else ""))
    return "; ".join(texts)


def _console_says(console, mark, key):
    """The quoted text of a line that the kernel writes for programs to read; "" if there is none such."""
    found = re.search(rf'{mark} [^\n]*\b{key}="([^"\n]*)"', console)
    return found[1] if found else ""


def classify(exit_status, timed_out, digest, console=""):
    """(outcome, reason) of a boot. exit_status None: killed or unknown; digest: what digest_boot gave, or None;
    console: the console's text, which is asked where telemetry says nothing (it may be what is missing)."""
    digest = digest or {}
    hello, bye, panic = digest.get("hello"), digest.get("bye"), digest.get("panic")
    said = (bye or {}).get("outcome")
    if panic or exit_status == EXIT_PANIC:
        name = (panic or {}).get("name")
        if name == "deadline":
            return TIMEOUT, "the kernel's own deadline passed"
        if not panic:
            said = _console_says(console, "HAYLOFT-PANIC", "text")
            return PANIC, (f"{said} (from the console: no panic record came)" if said else
                           "exit status of a panic; no panic record came")
        return PANIC, _panic_text(panic)
    if said == "refused" or exit_status == EXIT_REFUSED:
        return REFUSED, _refused_text(digest) or (bye or {}).get("reason") or (
            _console_says(console, "HAYLOFT-REFUSED", "reason") or "the kernel refused its arguments")
    if timed_out:
        if not hello:
            return HANG, "nothing came before the time was up"
        return (HANG, "silent until the time was up") if not bye else (TIMEOUT, "did not end after its bye")
    if said == "self-check":
        return SELF_CHECK, (bye or {}).get("reason") or "the self-check failed"
    if said == "deadline":
        return TIMEOUT, (bye or {}).get("reason") or "the kernel's own deadline passed"
    if said == "ok":
        if exit_status != EXIT_OK:
            return INCOMPLETE, f"bye said ok, but the machine ended with {exit_status}"
        return _check_stream(digest)
    if said:
        return INCOMPLETE, f"bye said {said}"
    if exit_status == 0:
        return RESET, "the machine reset (a triple fault)" if hello else "the machine reset before its first record"
    if exit_status == EXIT_OK:
        return INCOMPLETE, "the machine ended well, but no bye came: the stream was cut"
    if exit_status == EXIT_FAILED:
        return SELF_CHECK, "exit status of a failed self-check; no bye came"
    how = _how_it_ended(exit_status)
    if not hello:
        return FAILED_START, f"the machine {how} before its first record"
    return INCOMPLETE, f"no bye; the machine {how}"


def starved(found, ran, waited, silent=0.0, knobs=None):
    """(outcome, reason) again, void if the time ran out while the CPUs waited for a host CPU for longer than they had
    one. ran, waited: seconds of each CPU, None where the host does not say; silent: seconds of the guest's own time."""
    if found[0] not in (TIMEOUT, HANG) or not ran or not waited or None in (*ran, *waited):
        return found
    if silent >= HUNG_SECONDS and knobs and all(speaks(knobs.get(name)) for name, speaks in SPEAKS.items()):
        return found
    had = sum(ran) / max(sum(ran) + sum(waited), 1e-9)
    if had >= STARVED_SHARE:
        return found
    return NOT_PARALLEL, f"{found[1]}; the host gave its CPUs {100 * had:.0f} % of the time they could have used"


def _how_it_ended(exit_status):
    if exit_status is None or exit_status >= 0:
        return f"ended with {exit_status}"
    try:
        return f"was killed from outside ({signal.Signals(-exit_status).name})"
    except ValueError:
        return f"was killed from outside (signal {-exit_status})"


def _missing_cpus(digest):
    """Why a boot ran on fewer CPUs than its machine has and its arguments allow; "" if it did not."""
    hello = digest.get("hello") or {}
    try:
        limit = int((hello.get("knobs") or {}).get("maxcpus", 64))
    except ValueError:
        return ""
    wanted, running = min(hello.get("cpus_found") or 0, limit), len(hello.get("cpus") or [])
    if running >= wanted:
        return ""
    told = [event["text"] for event in digest.get("events") or [] if event.get("text", "").startswith(ABSENT_CPU)]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return f"{running} of {wanted} CPUs started; " + (told[0] + more if told else "the console and the events tell why")


def _check_stream(digest):
    missing = _missing_cpus(digest)
    if missing:
        return NOT_PARALLEL, missing
    left_out = leftout.voiding(digest.get("left_out") or [])
    if left_out:  # before the probes: another try would leave it out again, while they may find a quieter host
        return LEFT_OUT, left_out
    parallel = digest.get("parallel") or {}
    if parallel.get("ok") is False:
        return NOT_PARALLEL, parallel.get("reason") or "the CPUs did not run in parallel"
    return OK, ""
