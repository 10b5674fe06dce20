"""What became of a boot: from how the process ended and what its telemetry said.

Pure. Only a bye with outcome ok says that a boot went well: QEMU also exits 0 after a triple fault, and a
process may end well while the stream was cut. Guest faults count against an arm; void boots do not. A boot that ran
out of time because the host had none for its CPUs is the host's fault, not the arm's.
"""

import signal

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
FOREIGN = "foreign"  # never a boot's own: what lies in its folder is not of one boot (bound.py)

OUTCOMES = (OK, REFUSED, PANIC, RESET, HANG, TIMEOUT, INCOMPLETE, SELF_CHECK, NOT_PARALLEL, FAILED_START, FOREIGN)
GUEST_FAULTS = (REFUSED, PANIC, RESET, HANG, TIMEOUT, SELF_CHECK)
VOID = (INCOMPLETE, NOT_PARALLEL, FAILED_START, FOREIGN)
STARVED_SHARE = 0.5  # of the time that CPUs were ready to run: with less, running out of time says nothing of the kernel


def _panic_text(panic):
    name = panic.get("name", "unknown kind")
    where = f" at {panic['file']}:{panic['line']}" if panic.get("file") else ""
    return f"{name}{where} on CPU {panic.get('cpu', '?')}"


def _refused_text(digest):
    texts = []
    for argument, reason, near in digest.get("refused") or []:
        texts.append(f"{argument}: {reason}" + (f" (nearest legal name: {near})" if near else ""))
    return "; ".join(texts)


def classify(exit_status, timed_out, digest):
    """(outcome, reason) of a boot. exit_status None: killed or unknown; digest: what digest_boot gave, or None."""
    digest = digest or {}
    hello, bye, panic = digest.get("hello"), digest.get("bye"), digest.get("panic")
    said = (bye or {}).get("outcome")
    if panic or exit_status == EXIT_PANIC:
        name = (panic or {}).get("name")
        if name == "deadline":
            return TIMEOUT, "the kernel's own deadline passed"
        return PANIC, _panic_text(panic) if panic else "exit status of a panic; no panic record came"
    if said == "refused" or exit_status == EXIT_REFUSED:
        return REFUSED, _refused_text(digest) or (bye or {}).get("reason") or "the kernel refused its arguments"
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


def starved(found, ran, waited):
    """(outcome, reason) again, void if the time ran out while the CPUs waited for a host CPU for longer than they had
    one. ran, waited: seconds of each CPU, None where the host does not say."""
    if found[0] not in (TIMEOUT, HANG) or not ran or not waited or None in (*ran, *waited):
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


def _missing_cpus(hello):
    """Why a boot ran on fewer CPUs than its machine has and its arguments allow; "" if it did not."""
    try:
        limit = int((hello.get("knobs") or {}).get("maxcpus", 64))
    except ValueError:
        return ""
    wanted, running = min(hello.get("cpus_found") or 0, limit), len(hello.get("cpus") or [])
    return f"{running} of {wanted} CPUs started; the console and the events tell why" if running < wanted else ""


def _check_stream(digest):
    missing = _missing_cpus(digest.get("hello") or {})
    if missing:
        return NOT_PARALLEL, missing
    parallel = digest.get("parallel") or {}
    if parallel.get("ok") is False:
        return NOT_PARALLEL, parallel.get("reason") or "the CPUs did not run in parallel"
    return OK, ""
