"""What a kind of machine cannot show, as data: which verdicts are refused there, and why.

A rule: machines it holds for, a pattern of test names, the reason, and (perhaps) a knob setting that lifts
it if every arm has it. The report also draws on NOTES: why a published result may come out differently on
this machine; each is said only where it concerns the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

TRANSLATED = ("tcg", "icount")


@dataclass(frozen=True)
class Limit:
    machines: tuple[str, ...]
    tests: str
    reason: str
    unless: tuple[str, str] | None = None  # knob, value


LIMITS = (
    Limit(TRANSLATED, "cas/*", "translated code prices atomic instructions unlike any CPU (16 bytes cost 14 times 8)"),
    Limit(TRANSLATED, "irq/*", "translated code prices interrupt-flag instructions unlike any CPU"),
    Limit(TRANSLATED, "preempt*", "translated code prices such single steps unlike any CPU"),
    Limit(("tcg",), "wq-pingpong*", "a wake-up across CPUs is the host waking a thread", ("idle", "poll")),
    Limit(("tcg",), "pipe-*", "a wake-up across CPUs is the host waking a thread", ("idle", "poll")),
    Limit(("icount",), "*/all-cpus", "one thread runs all CPUs in turn: contention does not appear"),
    Limit(("icount",), "batch/*", "one thread runs all CPUs in turn: contention does not appear"),
    Limit(("icount",), "remote/*", "one thread runs all CPUs in turn: contention does not appear"),
    Limit(("icount",), "maple/*", "one thread runs all CPUs in turn: contention does not appear"),
)


def refused(machine: str, test: str, shape: str, knobs: list[dict]) -> str | None:
    """Why this machine cannot compare arms on this test, or None. knobs: effective ones of the arms."""
    if machine == "icount" and shape and shape != "solo":
        return "icount judges solo tests only: one thread runs all CPUs in turn"
    for limit in LIMITS:
        if machine not in limit.machines or not fnmatchcase(test, limit.tests):
            continue
        if limit.unless and knobs and all(k.get(limit.unless[0]) == limit.unless[1] for k in knobs):
            continue
        return limit.reason
    return None


@dataclass(frozen=True)
class Note:
    """Said under the comparison with the published row if machine, test and knob fit."""

    machines: tuple[str, ...]
    tests: str
    text: str
    knob: tuple[str, tuple[str, ...]] | None = None  # said only if an arm has the knob at one of these values


NOTES = (
    Note(
        TRANSLATED,
        "malloc/*",
        "Filling freed objects is far dearer in translated code than on a CPU: it steps through string "
        "stores (4 KiB cost 12 µs by bytes, 1.5 µs by words, against about 0.1 µs on a CPU). From about "
        "1 KiB upwards the fill, which both arms pay alike, hides what the arms differ in.",
        ("poison", ("free", "full")),
    ),
    Note(
        TRANSLATED,
        "*/all-cpus",
        "Translated code costs each CPU many more host instructions outside the lock than inside it, so a "
        "contended lock hurts less here than on real CPUs.",
    ),
    Note(
        ("kvm", "tcg", "host", "serial"),
        "*/all-cpus",
        "The published machine had 5 CPUs; contention grows with every CPU, so with fewer the gap is smaller.",
    ),
    Note(
        ("host",),
        "malloc/*",
        "As a process at native speed the solo path has no virtualisation under it: absolute times are "
        "lower than the published ones.",
    ),
)


def notes(machine: str, tests: list[str], knobs: list[dict]) -> list[str]:
    found = []
    for note in NOTES:
        if machine not in note.machines or not any(fnmatchcase(test, note.tests) for test in tests):
            continue
        if note.knob and not any(k.get(note.knob[0]) in note.knob[1] for k in knobs):
            continue
        found.append(note.text)
    return found
