"""What a kind of machine cannot show, as data: which verdicts are refused there, and why.

A rule: machines it holds for, a pattern of test names, the reason, and (perhaps) a knob setting that lifts
it if every arm has it. (Why a published result comes out differently on a machine is data too: it stands
with the published rows, in experiments/published.toml.)
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
