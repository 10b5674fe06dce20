"""What every machine has in common: its description, and one boot from start to exit status.

A Machine is a resolved description (kind, CPUs, memory, timeout); qemu.py and host.py turn it into a
process. A Running boot owns that process: it samples the vCPU threads' CPU time while waiting, since a
thread's figures vanish with it, and it ends the process group when told to, when the time is up, or when
the caller leaves by an exception. What the bytes mean is not known here.
"""

import dataclasses
import datetime
import os
import pathlib
import re
import subprocess
import time

from .. import interrupt
from ..errors import HayloftError, did_you_mean
from . import child, facts

KINDS = ("auto", "kvm", "tcg", "icount", "host")
POLL_SECONDS = 0.05  # how often a wait looks up; also bounds what a vCPU's CPU time may be short by
MOST_CPUS = 64

_SIZE = re.compile(r"^([0-9]+)([KMG]?)$")
_TIME = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?$")
_TIME_UNIT = {"ms": 0.001, "s": 1, None: 1, "m": 60, "h": 3600}


def parse_size(text):
    """Bytes of '2G', '512M', or a plain number; None if it is none of these."""
    found = _SIZE.match(str(text))
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]] if found else None


def parse_seconds(text):
    found = _TIME.match(str(text))
    return float(found[1]) * _TIME_UNIT[found[2]] if found else None


@dataclasses.dataclass(frozen=True)
class Machine:
    kind: str  # kvm, tcg, icount or host: what really runs
    requested: str  # what was asked for, so perhaps auto
    cpus: int
    memory: str  # as written, e.g. "2G"
    timeout: float  # seconds from start to the end of the boot
    topology: str = ""  # "sockets=2,cores=3,threads=1", or "" for QEMU's own choice

    @property
    def hosted(self):
        return self.kind == "host"

    @property
    def over_committed(self):
        """More CPUs than the host has: waits are then the host scheduler's. icount has one thread anyway."""
        return self.kind != "icount" and self.cpus > len(facts.usable_cpus())

    @property
    def memory_bytes(self):
        return parse_size(self.memory)

    def describe(self):
        """The run.json form."""
        return {"kind": self.kind, "requested": self.requested, "cpus": self.cpus, "memory": self.memory,
                "timeout": self.timeout, "topology": self.topology or None,
                "over_committed": self.over_committed}


@dataclasses.dataclass(frozen=True)
class Image:
    """What boots: the ELF file, and for QEMU the ISO made from it. hosted: a process, not a kernel."""

    elf: pathlib.Path
    iso: pathlib.Path | None
    checksum: str  # of the ELF file
    hosted: bool


@dataclasses.dataclass
class Finished:
    exit_status: int | None  # None if it had to be killed
    timed_out: bool
    seconds: float
    started: str
    ended: str
    vcpu_seconds: list  # each vCPU thread's time on a host CPU
    vcpu_wait_seconds: list  # ... and its time waiting for one: what a busy host took
    host: dict  # load, steal
    pinned: list = dataclasses.field(default_factory=list)
    silent_seconds: float = 0.0  # the longest that nothing came, less what CPU 0 waited for a host CPU meanwhile


def topology_cpus(topology):
    """CPUs of "sockets=2,cores=3,threads=1"; HayloftError where it is nothing of the kind."""
    cpus, seen = 1, set()
    for word in topology.split(","):
        name, _, number = word.strip().partition("=")
        if name not in ("sockets", "dies", "cores", "threads") or name in seen:
            legal = ("sockets", "dies", "cores", "threads")
            raise HayloftError(f"machine.topology: '{word}' names no level once{did_you_mean(name, legal)}")
        if not number.isdigit() or int(number) < 1:
            raise HayloftError(f"machine.topology: '{word}' needs a whole number above 0")
        seen.add(name)
        cpus *= int(number)
    return cpus


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


class Running:
    """One boot's process. threads: tids of the vCPUs, in order, as far as known."""

    def __init__(self, process, timeout, threads=(), pinned=()):
        self.process = process
        self.timeout = timeout
        self.threads = list(threads)
        self.pinned = list(pinned)
        self.started = now()
        self.began = time.monotonic()
        self.used = {}  # tid → (ran, waited)
        self.outputs = ()  # what the guest writes to, where that can be watched
        self.heard = None  # (bytes so far, when the last came, what CPU 0 had waited then); None: nothing yet
        self.silent = 0.0
        self.times_before = facts.cpu_times()

    @property
    def pid(self):
        return self.process.pid

    def sample(self):
        for tid in self.threads:
            seconds = facts.thread_seconds(self.process.pid, tid)
            if seconds is not None:
                self.used[tid] = seconds
        self.listen()

    def listen(self):
        """How long the guest has said nothing of its own accord: time in which CPU 0 waited for the host does not count,
        nor what passes before its first byte."""
        try:
            size = sum(os.stat(path).st_size for path in self.outputs)
        except OSError:
            return
        waited = (self.used.get(self.threads[0], (0.0, 0.0))[1] if self.threads else None)
        now = time.monotonic()
        if size and waited is not None:
            if self.heard is None or size != self.heard[0]:
                self.heard = size, now, waited
            self.silent = max(self.silent, now - self.heard[1] - (waited - self.heard[2]))

    def thread_times(self, which):
        times = [self.used.get(tid, (0.0, 0.0))[which] for tid in self.threads]
        return [round(seconds, 3) if seconds is not None else None for seconds in times]

    def wait(self, tick=None):
        """Waits for the end, the timeout or an exception; the process is gone afterwards in any case.
        tick(seconds so far) is called at each look."""
        timed_out = False
        try:
            while self.process.poll() is None:
                elapsed = time.monotonic() - self.began
                if self.timeout and elapsed > self.timeout:
                    timed_out = True
                    self.last_words()
                    break
                interrupt.check()
                self.sample()
                if tick:
                    tick(elapsed)
                try:
                    self.process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
        finally:
            self.kill()
        return self.finished(timed_out)

    def last_words(self):
        """Its time is up: what can still be had of it before it is ended, in a bounded time."""

    def finished(self, timed_out):
        return Finished(
            exit_status=None if timed_out else self.process.returncode, timed_out=timed_out,
            seconds=round(time.monotonic() - self.began, 3), started=self.started, ended=now(),
            vcpu_seconds=self.thread_times(0), vcpu_wait_seconds=self.thread_times(1),
            host={"load": facts.load(), "steal": facts.steal_share(self.times_before, facts.cpu_times())},
            pinned=self.pinned, silent_seconds=round(self.silent, 3))

    def kill(self):
        child.end(self.process)


def pin(threads, wanted):
    """Pins one vCPU thread to one host CPU where there are enough; returns the CPUs, or [] if not."""
    cpus = facts.usable_cpus()
    if len(threads) != wanted or wanted > len(cpus):
        return []
    try:
        for tid, cpu in zip(threads, cpus):
            os.sched_setaffinity(tid, {cpu})
    except OSError:
        return []
    return cpus[:wanted]
