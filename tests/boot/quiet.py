"""How busy the host is beside the tests, and what follows from it: patience, waiting, and another try.

A test must not depend on who else works on this machine. So nothing here guesses: stretch() spins on every core for
a moment and looks at what it was given. From that come

  patient(seconds)  a limit that is seconds on a host at rest and as many times more as things take longer now. It is for
                    limits that only a fault comes near; what a test promises in seconds it promises on a host at rest.
  cores(n)          waits, for a bounded time, until n cores are to be had together; says what it found. Whoever goes on
                    without them cannot have asked for what needs them.
  again(...)        another try where the host spoiled one, and only there: how that shows is the caller's to say.

What was found and done is printed, so that it stands in a failed test's output.

Usable without pytest (tools/check.py).
"""

import os
import sys
import time

SPIN_SECONDS = 0.25  # some time slices of every neighbour
KEEP_SECONDS = 10.0  # a figure is used again for so long
MOST = 20.0  # times slower: beyond that patience ends
MOST_MORE = 900.0  # seconds on top of any limit: a hang must come to light some time
REST = 1.25  # times slower: as good as at rest
WAIT_SECONDS = 60.0

_last = (float('-inf'), 1.0)  # when it was measured, and what it was


def say(text):
    print(f'quiet: {text}', file=sys.stderr, flush=True)


def _spin(cpu, until):
    """In a child: what share of the time until then this core gives us, in 1/250."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        pass
    while time.monotonic() < until - SPIN_SECONDS:  # all begin together
        time.sleep(0.001)
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() < until:
        pass
    return round(250 * min(1.0, (time.process_time() - used) / max(1e-6, time.monotonic() - began)))


def shares():
    """Of each core that this process may use, what share it is given when it wants all of them at once."""
    cpus = sorted(os.sched_getaffinity(0))
    until = time.monotonic() + 0.02 + SPIN_SECONDS
    children = []
    for cpu in cpus:
        child = os.fork()
        if child == 0:
            status = 0
            try:
                status = _spin(cpu, until)
            finally:
                os._exit(status)
        children.append(child)
    return [max(1, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) / 250 for child in children]


def stretch(fresh=False):
    """How many times longer work takes now than on a host at rest: of the slowest core."""
    global _last
    when, found = _last
    if fresh or time.monotonic() - when > KEEP_SECONDS:
        found = min(MOST, 1 / min(shares()))
        _last = time.monotonic(), found
    return found


def patient(seconds):
    now = stretch()
    if now < REST:
        return seconds
    longer = round(min(seconds * now * 1.5, seconds + MOST_MORE), 1)  # neighbours come and go: half as much again
    say(f'the host is {now:.1f} times slower than at rest: {longer} s for {seconds} s')
    return longer


def ms(seconds):
    """The same for a knob or a setting in milliseconds."""
    return round(1000 * patient(seconds))


def cores(n, seconds=WAIT_SECONDS):
    """True if n cores were ours in the end. A host that has fewer has none to wait for."""
    until, waited = time.monotonic() + seconds, False
    while True:
        found = sorted(shares(), reverse=True)[:n]
        if len(found) == n and found[-1] >= 1 / REST:
            if waited:
                say(f'{n} cores are to be had now')
            return True
        if len(found) < n or time.monotonic() >= until:
            say(f'no {n} cores to be had{f" in {seconds:.0f} s" if waited else ""}: {[round(one, 2) for one in found]} of each')
            return False
        if not waited:
            say(f'waiting for {n} cores, at most {seconds:.0f} s: {[round(one, 2) for one in found]} of each')
        waited = True
        time.sleep(1)


def again(what, spoiled, tries=3, n=2):
    """What what() gives, or gives in another try where spoiled(it) says, in words, that the host is why it is no good.
    The last try's is returned, good or not: it is for the test to judge."""
    for left in reversed(range(tries)):
        found = what()
        why = spoiled(found)
        if not why or not left:
            break
        say(f'the host spoiled it, once more: {why}')
        cores(n)
    return found
