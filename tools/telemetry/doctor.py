"""What is missing or unusable on this machine, and how to mend it: the verb `doctor`.

The list of packages is tools/packages.txt, which the launcher reads too. Exit 4 if anything is missing that
running experiments needs; what only the tests or rivals need, and KVM, are told but not counted.
"""

import dataclasses
import glob
import importlib.util
import os
import shutil

from rich.table import Table
from rich.text import Text

from . import ROOT
from .console import console
from .errors import EXIT_MACHINE, HayloftError
from .machine import child, facts, probe, qemu

LIST = ROOT / "tools" / "packages.txt"
SCOPES = ("tool", "build", "test", "rivals")
ONLY_FOR = {"test": "only ./hayloft test needs it; ", "rivals": "only ./hayloft rivals needs it; "}


@dataclasses.dataclass(frozen=True)
class Need:
    scope: str
    kind: str
    what: str
    package: str

    def present(self):
        choices = self.what.split("|")
        if self.kind == "command":
            return any(shutil.which(name) for name in choices)
        if self.kind == "module":
            return any(importlib.util.find_spec(name) for name in choices)
        return any(glob.glob(pattern) for pattern in choices)


def needs(text=None):
    found = []
    for number, line in enumerate((text if text is not None else LIST.read_text()).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 4 or words[0] not in SCOPES or words[1] not in ("command", "module", "file"):
            raise HayloftError(f"{LIST}:{number}: wants scope, kind, what, package")
        found.append(Need(*words))
    return found


def machines():
    """[(name, works, text)] of what this host can run."""
    cores = len(facts.usable_cpus())
    found = []
    if shutil.which(qemu.PROGRAM):
        works, reason = probe.kvm(fresh=True)
        found.append(("kvm", works, reason))
        works, reason = probe.try_boot(qemu.accelerator("tcg"), limit=20.0)
        found.append(("tcg", works, f"QEMU {qemu.version()}; {reason}"))
        found.append(("icount", works, "as tcg, deterministic, one thread"))
    else:
        found.append(("kvm, tcg, icount", False, f"{qemu.PROGRAM} is not installed"))
    found.append(("host", True, "the kernel code as a process"))
    found.append(("cores", cores >= 2, f"{cores} usable: up to {cores} vCPUs without over-commitment"
                  + ("" if cores >= 2 else "; contention cannot be measured with one")))
    load = facts.load()
    if load:
        busy = load[0] > 0.5 * cores
        found.append(("load", not busy, f"{load[0]:.2f}" + ("; something else is running, which blurs times" if busy else "")))
    free = facts.memory_available()
    if free is not None:
        found.append(("memory", free > 3 << 30, f"{free >> 20} MiB free; shipped experiments boot 2 GiB machines"))
    return found


def doctor(install=False):
    missing = [need for need in needs() if not need.present()]
    if install and missing:
        apt(sorted({need.package for need in missing}))
        importlib.invalidate_caches()
        missing = [need for need in missing if not need.present()]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "state", "note"):
        table.add_column(column)
    for need in missing:
        used = ONLY_FOR.get(need.scope, "")
        table.add_row(need.what.split("|")[0], Text("missing", style="red"), f"{used}package {need.package}")
    if not missing:
        table.add_row("packages", Text("ok", style="green"), "everything in tools/packages.txt is here")
    for name, works, text in machines():
        table.add_row(name, Text("ok" if works else "no", style="green" if works else "yellow"), text)
    console(width=140).print(table)
    needed = [need for need in missing if need.scope not in ONLY_FOR]
    if missing:
        print("to mend it: ./hayloft doctor --install")
    return EXIT_MACHINE if needed else 0


def apt(packages):
    """Installs packages with apt-get, as root or through sudo."""
    program = shutil.which("apt-get")
    if not program:
        raise HayloftError(f"no apt-get here; install these by hand: {' '.join(packages)}", EXIT_MACHINE)
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    if prefix and not shutil.which("sudo"):
        raise HayloftError(f"not root, and no sudo; install these as root: {' '.join(packages)}", EXIT_MACHINE)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
        process = child.start([*prefix, program, *words], env=env, stdin=None)
        try:
            status = process.wait()
        finally:
            child.end(process, grace=5.0)
        if status != 0 and words[0] == "install":
            raise HayloftError(f"apt-get {words[0]} failed with status {status}; its output is above", EXIT_MACHINE)
