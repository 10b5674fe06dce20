"""One boot with its console in the terminal: the verb `boot`.

Its files live in a folder that goes when the boot ends, unless --out keeps it. The arguments are checked
against the image first; --no-check hands them to the kernel unseen, and then it is the kernel that refuses.
The exit code is 0 for a boot that went well, 2 for a refused one, 3 for any other.
"""

import dataclasses
import pathlib
import shutil
import socket
import sys
import tempfile

from . import build, checks, image, machine, outcome, run, store
from .errors import EXIT_BOOTS, EXIT_USAGE, HayloftError


def parse_settings(texts, kind=None):
    """Machine settings from --set machine.KEY=value and --machine."""
    settings = {"kind": kind} if kind else {}
    for text in texts:
        key, equals, value = text.partition("=")
        name = key.removeprefix("machine.")
        if not equals or not key.startswith("machine.") or name not in machine.DEFAULTS:
            legal = ", ".join(f"machine.{known}" for known in machine.DEFAULTS)
            raise HayloftError(f"--set {text}: wants KEY=value with KEY one of {legal}; knobs go in --args")
        settings[name] = int(value) if name == "cpus" and value.lstrip("-").isdigit() else value
    if "topology" in settings and "cpus" not in settings:
        settings["cpus"] = machine.topology_cpus(settings["topology"])
    return settings


def check_arguments(arguments, knobs, hosted, cpus, tests=None):
    """tests: the names in the image, where it tells them."""
    refusals = (knobs.check_line(arguments, hosted) or knobs.check_conflicts(arguments, cpus)
                or checks.unknown_tests(arguments, tests))
    if refusals:
        raise HayloftError(f"--args: {refusals[0]}; nothing was booted (--no-check hands it to the kernel)")


class Console:
    """Copies console.log to the terminal as it grows."""

    def __init__(self, path, out=None):
        self.file = open(path, "rb")
        self.out = out or sys.stdout
        self.last = b"\n"

    def copy(self, _elapsed=0.0):
        while data := self.file.read(65536):
            self.last = data[-1:]
            self.out.write(data.replace(b"\r", b"").replace(b"\0", b"").decode("utf-8", "replace"))
        self.out.flush()

    def close(self):
        self.copy()
        if self.last != b"\n":
            self.out.write("\n")
        self.file.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def boot(arguments="", kind=None, settings=(), check=True, gdb=False, variant="release", out=None):
    """Boots once. Returns the exit code."""
    spec = machine.resolve(parse_settings(settings, kind))
    if gdb and spec.hosted:
        raise HayloftError("--gdb is for booted machines; debug a hosted one with gdb --args build/host/hayloft-host")
    folder = pathlib.Path(out) if out else pathlib.Path(tempfile.mkdtemp(prefix="hayloft-boot-"))
    try:
        if out:
            store.check_new(folder)
            folder.mkdir(parents=True, exist_ok=True)
        with run.stop_by_signal():
            return _boot(arguments, spec, check, gdb, variant, folder)
    finally:
        if not out:
            shutil.rmtree(folder, ignore_errors=True)


def _boot(arguments, spec, check, gdb, variant, folder):
    log = build.BUILD / "boot.log"
    build.BUILD.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    elf = build.build(spec.hosted, log, variant)
    knobs = image.read_knobs(elf)
    if gdb:
        spec = dataclasses.replace(spec, timeout=0)  # a person at the other end takes the time it takes
    if check:
        check_arguments(arguments, knobs, spec.hosted, spec.cpus, image.read_tests(elf))
        arguments = run.argument_line(arguments, spec, knobs)
    if checks.value_of(arguments, "tests", "") and checks.value_of(arguments, "kbench", "0") == "0":
        print("note: tests= chooses tests, but kbench=0 runs none; add kbench=1 for a round of each", flush=True)
    port = free_port() if gdb else None
    if gdb:
        print(f"stopped at reset; attach with: gdb {elf} -ex 'target remote 127.0.0.1:{port}'", flush=True)
    running = machine.start(spec, build.open_image(elf, spec.hosted), arguments, folder, port)
    console = Console(folder / "console.log")
    try:
        ended = running.wait(console.copy)
    finally:
        console.close()
    result, (what, why) = run.judge(folder, ended, arguments, knobs)
    print(f"outcome: {what}{f': {why}' if why else ''} ({ended.seconds:.1f} s on {spec.kind}, {spec.cpus} CPUs)")
    store.write_json(folder / "boot.json", {
        "id": "boot", "args": arguments, "machine": spec.describe(), "machine_kind": spec.kind,
        "knobs": ((result or {}).get("hello") or {}).get("knobs") or {}, "started": ended.started, "ended": ended.ended,
        "seconds": ended.seconds, "exit_status": ended.exit_status, "outcome": what, "reason": why,
        "image": image.sha256(elf)})
    if result:
        store.write_json(folder / "result.json", result)
    return {outcome.OK: 0, outcome.REFUSED: EXIT_USAGE}.get(what, EXIT_BOOTS)
