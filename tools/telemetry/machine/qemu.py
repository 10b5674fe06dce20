"""Boots the kernel's ISO under QEMU: kvm, tcg (one host thread a vCPU) and icount (deterministic).

The arguments travel as an SMBIOS type 11 string, "hayloft:" before them, from an anonymous memory file;
QEMU's monitor is a socket pair. So a boot leaves nothing behind but its own folder, and no path ever
needs quoting but the ISO's. The guest starts stopped, its vCPU threads are found by the monitor and pinned,
then it is let go. A guest whose time is up gets an NMI first, at which the kernel says on the console where each
CPU is, even one that spins with interrupts off; then it is ended. COM1 is console.log, COM2 telemetry.bin: plain
files, one complete copy, no back-pressure.

This module and host.py are the only ones that start a machine.
"""

import json
import os
import pathlib
import shutil
import socket
import time

from ..errors import EXIT_MACHINE, HayloftError
from . import base, child

PROGRAM = "qemu-system-x86_64"
PREFIX = "hayloft:"
DEBUG_EXIT = "isa-debug-exit,iobase=0xf4,iosize=0x04"
EXIT_OK, EXIT_PANIC, EXIT_REFUSED, EXIT_FAILED = 33, 35, 37, 39
LONGEST_ARGUMENTS = 7900  # what GRUB's smbios command was seen to carry is 8000

_MONITOR_SECONDS = 15
_LAST_WORDS_SECONDS = 3.0  # for the CPUs of a hung guest, in turn, to say where they are


def program():
    path = shutil.which(PROGRAM)
    if not path:
        raise HayloftError(f"{PROGRAM} is not installed; run ./hayloft doctor --install", EXIT_MACHINE)
    return path


def version():
    """QEMU's own version text, or None where there is no QEMU."""
    path = shutil.which(PROGRAM)
    if not path:
        return None
    words = child.run([path, "--version"]).stdout.split("\n", 1)[0].split("version ", 1)
    return words[1] if len(words) == 2 else None


def accelerator(kind):
    """The options that make a kind of machine."""
    if kind == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    if kind == "icount":
        return ["-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=0,align=off,sleep=off"]
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]


def command(machine, iso, arguments_fd, monitor_fd, gdb_port=None, chipset="q35", extra=()):
    smp = f"{machine.cpus},{machine.topology}" if machine.topology else str(machine.cpus)
    drive = str(iso).replace(",", ",,")
    argv = [program(), "-name", "hayloft,debug-threads=on", "-machine", chipset,
            *accelerator(machine.kind), "-smp", smp, "-m", f"size={machine.memory_bytes >> 20}M",
            "-nodefaults", "-display", "none", "-no-reboot", "-no-user-config",
            "-drive", f"file={drive},media=cdrom,readonly=on,format=raw",
            "-device", DEBUG_EXIT,
            "-chardev", "file,id=console,path=console.log", "-serial", "chardev:console",
            "-chardev", "file,id=telemetry,path=telemetry.bin", "-serial", "chardev:telemetry",
            "-chardev", f"socket,id=monitor,fd={monitor_fd}", "-mon", "chardev=monitor,mode=control",
            "-S"]
    if arguments_fd is not None:
        argv += ["-smbios", f"type=11,path=/dev/fd/{arguments_fd}"]
    if gdb_port:
        argv += ["-gdb", f"tcp:127.0.0.1:{gdb_port}"]
    return [*argv, *extra]


def start(machine, image, arguments, boot_dir, gdb_port=None, chipset="q35", extra=()):
    """Starts one boot in boot_dir. arguments None: no SMBIOS string, so the menu's own line is used. extra: options
    of QEMU's, which count where they repeat one of ours."""
    if machine.memory_bytes < 16 << 20:
        raise HayloftError(f"machine.memory: {machine.memory} is too small to boot; use 64M or more")
    for name in ("console.log", "telemetry.bin"):
        (boot_dir / name).touch()
    ours, theirs = socket.socketpair()
    passed = [theirs.fileno()]
    if arguments is not None:
        arguments_fd = os.memfd_create("arguments")
        os.write(arguments_fd, (PREFIX + arguments).encode())
        passed.append(arguments_fd)
    else:
        arguments_fd = None
    argv = command(machine, image.iso.resolve(), arguments_fd, theirs.fileno(), gdb_port, chipset, extra)
    with open(boot_dir / "qemu.log", "wb") as log:
        log.write((" ".join(argv) + "\n").encode())
        log.flush()
        try:
            process = child.start(argv, cwd=boot_dir, stdout=log, stderr=log, pass_fds=passed)
        finally:
            theirs.close()
            if arguments_fd is not None:
                os.close(arguments_fd)
    running = QemuRunning(process, machine.timeout, ours)
    running.outputs = (boot_dir / "console.log", boot_dir / "telemetry.bin")
    try:
        _release(running, ours, machine, hold=bool(gdb_port))
    except BaseException:
        running.kill()
        raise
    return running


class QemuRunning(base.Running):
    """A boot under QEMU. Keeps the monitor, unread: QEMU drops events that find no room."""

    def __init__(self, process, timeout, monitor):
        super().__init__(process, timeout)
        self.monitor = monitor

    def last_words(self):
        console = pathlib.Path(f"/proc/{self.process.pid}/cwd/console.log")
        try:
            before = console.stat().st_size
            self.monitor.sendall(b'{"execute": "inject-nmi"}\n')
            until = time.monotonic() + _LAST_WORDS_SECONDS
            size, quiet = before, 0
            while time.monotonic() < until and quiet < 3 and self.process.poll() is None:
                time.sleep(base.POLL_SECONDS)
                size, earlier = console.stat().st_size, size
                quiet = quiet + 1 if before < size == earlier else 0
        except OSError:
            pass  # it has ended, or is beyond answering

    def kill(self):
        super().kill()
        self.monitor.close()


def _release(running, monitor, machine, hold):
    """Finds and pins the vCPU threads, then lets the guest go (hold: a debugger will). A QEMU that ends
    here could not start: that is for the caller to see from its exit status."""
    monitor.settimeout(_MONITOR_SECONDS)
    with monitor.makefile("rb") as answers:  # written to unbuffered: closing must not write
        def ask(verb):
            monitor.sendall(json.dumps({"execute": verb}).encode() + b"\n")
            return _answer(answers, verb)
        try:
            answers.readline()
            ask("qmp_capabilities")
            cpus = sorted(ask("query-cpus-fast"), key=lambda cpu: cpu["cpu-index"])
            running.threads = list(dict.fromkeys(cpu["thread-id"] for cpu in cpus))
            if machine.kind != "icount":
                running.pinned = base.pin(running.threads, machine.cpus)
            if not hold:
                ask("cont")
        except (EOFError, ConnectionError):
            pass  # it has ended
        except (OSError, ValueError, KeyError) as error:
            raise HayloftError(f"QEMU's monitor does not answer ({error}); see qemu.log") from error


def _answer(answers, verb):
    while True:
        line = answers.readline()
        if not line:
            raise EOFError("monitor closed")
        answer = json.loads(line)
        if "return" in answer:
            return answer["return"]
        if "error" in answer:
            raise ValueError(answer["error"].get("desc", verb))


def start_failure(boot_dir):
    """The last line QEMU left when it could not start, without the command that heads the log."""
    try:
        lines = (boot_dir / "qemu.log").read_text(errors="replace").splitlines()[1:]
    except OSError:
        lines = []
    lines = [line.strip() for line in lines if line.strip()]
    return lines[-1] if lines else "it said nothing"
