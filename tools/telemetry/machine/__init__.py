"""Machines an experiment can run on: their one door.

resolve() turns what was asked for into a Machine (auto: kvm where it really works, else tcg); start()
boots an image on it and returns a Running boot.
"""

from ..errors import EXIT_MACHINE, HayloftError, did_you_mean
from . import facts, host, probe, qemu
from .base import (KINDS, MOST_CPUS, Finished, Image, Machine, Running, now, parse_seconds, parse_size,
                   topology_cpus)

__all__ = ["KINDS", "Finished", "Image", "Machine", "Running", "facts", "now", "parse_seconds",
           "parse_size", "probe", "qemu", "resolve", "start", "topology_cpus"]

DEFAULTS = {"kind": "auto", "cpus": "host", "memory": "2G", "timeout": "60s", "topology": ""}


def check(settings):
    """Raises HayloftError('machine.KEY: …') for a setting that no host could satisfy."""
    kind, cpus, topology = settings["kind"], settings["cpus"], settings["topology"]
    if kind not in KINDS:
        raise HayloftError(f"machine.kind: no machine is called '{kind}'{did_you_mean(kind, KINDS)}")
    if cpus != "host" and (isinstance(cpus, bool) or not isinstance(cpus, int)):
        raise HayloftError(f'machine.cpus: a whole number or "host", not {cpus!r}')
    if cpus != "host" and not 1 <= cpus <= MOST_CPUS:
        raise HayloftError(f"machine.cpus: 1..{MOST_CPUS}, not {cpus}")
    size = parse_size(settings["memory"])
    if size is None or size < 16 << 20:
        raise HayloftError(f'machine.memory: a size of 16M or more, like "2G", not {settings["memory"]!r}')
    seconds = parse_seconds(settings["timeout"])
    if seconds is None or seconds <= 0:
        raise HayloftError(f'machine.timeout: a time above 0, like "60s", not {settings["timeout"]!r}')
    if not isinstance(topology, str):
        raise HayloftError(f"machine.topology: a text, not {topology!r}")
    if topology and cpus != "host" and topology_cpus(topology) != cpus:
        raise HayloftError(f"machine.topology: {topology} makes {topology_cpus(topology)} CPUs, "
                           f"but machine.cpus is {cpus}; make them agree or leave cpus out")


def resolve(settings=None):
    """A Machine from {kind, cpus, memory, timeout, topology}, each optional. Main thread (it may probe)."""
    settings = {**DEFAULTS, **(settings or {})}
    check(settings)
    kind, cpus, topology = settings["kind"], settings["cpus"], settings["topology"]
    if kind in ("auto", "kvm"):
        works, reason = probe.kvm()
        if kind == "kvm" and not works:
            raise HayloftError(f"machine kvm does not work here: {reason}; use --machine tcg", EXIT_MACHINE)
        resolved = "kvm" if works else "tcg"
    else:
        resolved = kind
    if topology:
        cpus = topology_cpus(topology)
        if resolved == "host":
            raise HayloftError("machine.topology means nothing on machine host; leave it out")
    elif cpus == "host":
        cpus = min(len(facts.usable_cpus()), 8)
    return Machine(resolved, kind, cpus, str(settings["memory"]), parse_seconds(settings["timeout"]),
                   topology)


def start(machine, image, arguments, boot_dir, gdb_port=None, chipset="q35"):
    """Boots image on machine with its files in boot_dir; returns at once with the Running boot."""
    if machine.hosted:
        return host.start(machine, image, arguments, boot_dir)
    return qemu.start(machine, image, arguments, boot_dir, gdb_port, chipset)
