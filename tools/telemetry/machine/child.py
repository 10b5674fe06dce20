"""Starts children that cannot outlive the tool.

Every child gets a parent-death signal, set between fork and exec, and a process group of its own, so that
Ctrl-C in the terminal reaches the tool alone and the tool can end a child with all that it started. The
signal is sent when the *thread* that forked ends, so children are started from the main thread only;
starting one elsewhere is a bug and raises at once. Never a shell: arguments are a list.

Deliberately not here: what the children mean.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time

from .. import interrupt

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def start(argv, death_signal=signal.SIGKILL, **options):
    """A Popen in its own process group that gets death_signal when the tool dies, however it dies."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("children are started from the main thread: the parent-death signal needs it")
    parent = os.getpid()

    def before_exec():
        for number in interrupt.SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # our handlers are not for the child, short as it is ours
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # the tool died before the signal was armed
            os._exit(127)

    options.setdefault("stdin", subprocess.DEVNULL)
    process = None
    try:
        with interrupt.held_off() as mask:  # else a child may be started that nobody knows of
            process = subprocess.Popen([str(word) for word in argv], preexec_fn=before_exec, **options)
    except KeyboardInterrupt:
        if process is not None:
            end(process)
        raise
    return process


def wait(process, patience=None, impatient=None):
    """Waits for the end, or for somebody asking to stop; returns the status. After `patience` seconds impatient() is
    called, once."""
    began = time.monotonic()
    while True:
        interrupt.check()
        try:
            return process.wait(0.2)
        except subprocess.TimeoutExpired:
            if impatient and time.monotonic() - began >= patience:
                impatient()
                impatient = None


def run(argv, timeout=60.0, **options):
    """Runs a short command to its end: a CompletedProcess with its output as text. Main thread."""
    process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **options)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        end(process)
        process.stdout.close()
        process.stderr.close()
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def end(process, grace=0.0):
    """Ends a child and its group; waits until it is gone. grace: seconds between asking and killing."""
    if process.poll() is None and grace > 0:
        _signal_group(process.pid, signal.SIGTERM)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            pass
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _signal_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass
