"""Ctrl-C, SIGTERM and SIGHUP all end what runs, in order: no machine is left, nothing is half-written.

The handler raises KeyboardInterrupt where the program stands. Python drops an exception that comes up inside a
destructor or a fork hook (seen: every tenth Ctrl-C while boots were starting), so the request is also kept,
and check() raises again at the places that wait. A second signal while the first is being obeyed does not
disturb the cleaning up; from the third on it raises again, for whoever really means it.

Contexts: the main thread.
"""

import contextlib
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_asked = 0


def _handle(_number, _frame):
    global _asked
    _asked += 1
    if _asked != 2:
        raise KeyboardInterrupt


def check():
    """Raises KeyboardInterrupt if somebody has asked to stop."""
    if _asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def stop_by_signal():
    global _asked
    _asked = 0
    before = {number: signal.signal(number, _handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked = 0


@contextlib.contextmanager
def held_off():
    """Signals that arrive meanwhile come at its end: for a step that must be whole. Yields the mask before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
