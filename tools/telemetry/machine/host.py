"""Runs the kernel code as a process: CPUs are its threads, which it pins itself.

The arguments travel through an anonymous memory file. Exit statuses are mapped to QEMU's, so that what
reads them need not know which machine it was: 0 → 33; panic, refused and failed are the same by design.
"""

import os
import time

from ..errors import HayloftError
from . import base, child, facts, qemu

_THREADS_SECONDS = 0.5  # how long to look for the CPU threads' names before giving up on their CPU time


def start(machine, image, arguments, boot_dir):
    available = facts.memory_available()
    if available is not None and machine.memory_bytes > available:
        raise HayloftError(f"machine.memory: {machine.memory} is more than this host has free "
                           f"({available >> 20}M); make it smaller")
    boot_dir = boot_dir.resolve()
    arguments_fd = os.memfd_create("arguments")
    os.write(arguments_fd, (arguments or "").encode())
    os.lseek(arguments_fd, 0, os.SEEK_SET)
    argv = [image.elf.resolve(), "--cpus", machine.cpus, "--memory", machine.memory_bytes,
            "--telemetry", "telemetry.bin", "--console", "console.log",
            "--args-file", f"/dev/fd/{arguments_fd}"]
    for name in ("console.log", "telemetry.bin"):
        (boot_dir / name).touch()
    with open(boot_dir / "qemu.log", "wb") as log:
        log.write((" ".join(str(word) for word in argv) + "\n").encode())
        log.flush()
        try:
            process = child.start(argv, cwd=boot_dir, stdout=log, stderr=log, pass_fds=[arguments_fd])
        finally:
            os.close(arguments_fd)
    running = HostRunning(process, machine.timeout, machine.cpus)
    running.outputs = (boot_dir / "console.log", boot_dir / "telemetry.bin")
    return running


class HostRunning(base.Running):
    """A hosted boot: CPU 0 is the main thread, the others are named cpuN."""

    def __init__(self, process, timeout, cpus):
        super().__init__(process, timeout)
        self.cpus = cpus

    def sample(self):
        if len(self.threads) < self.cpus and time.monotonic() - self.began < _THREADS_SECONDS:
            named = {name: tid for tid, name in facts.thread_names(self.process.pid).items()}
            named["cpu0"] = self.process.pid
            found = [named[f"cpu{n}"] for n in range(self.cpus) if f"cpu{n}" in named]
            if len(found) == self.cpus:
                self.threads = found
        super().sample()

    def finished(self, timed_out):
        done = super().finished(timed_out)
        if done.exit_status == 0:
            done.exit_status = qemu.EXIT_OK
        return done
