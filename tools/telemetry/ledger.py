"""What of the boot's own stream is missing, and of which kind: so that no sum rests on a record that did not come.

Records of stream 255 are numbered, so a reader knows where some are missing, but a number does not say what it was the
number of. The kernel therefore tells in each bench mark and in the bye how many records of each type the stream has had
until then (`made`). Two such counts cut the stream into stretches: what came between them is taken from what was made,
and the rest was lost, by type. A kernel from before these counts tells nothing of the kind; there any missing record
may have been of any type.

  stretch  the records between two marks that came, and the later one (None: the stream ended without a bye)
  lost     how many of a type are missing in it; without counts an upper bound: every missing record

What is deliberately not here: what a loss does to figures. digest.py knows what rests on what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from .shapes import BOOT_STREAM, TYPES


@dataclass
class Stretch:
    """records: those before the mark, in order. mark: a bench or bye record, None at the end of a stream without one."""

    records: list = field(default_factory=list)
    mark: object = None
    missing: dict[str, int] | int = 0

    def lost(self, kind: str) -> int:
        return self.missing.get(kind, 0) if isinstance(self.missing, dict) else self.missing


class Ledger:
    """Takes the records and losses of stream 255 in order; stretches() cuts them."""

    def __init__(self):
        self.entries: list = []  # a record, or how many were missing there

    def came(self, record) -> None:
        self.entries.append(record)

    def missed(self, count: int) -> None:
        self.entries.append(count)

    def gap_of(self, fault) -> None:
        """Notes a fault of the decoder's that means a record of this stream is not had."""
        if fault.stream == BOOT_STREAM and fault.kind in ("gap", "shape", "incomplete"):
            self.missed(fault.count if fault.kind == "gap" else 1)

    def stretches(self) -> Iterator[Stretch]:
        before: list[int] | None = [0] * len(TYPES)  # nothing was made before the first record
        here, gaps, had = Stretch(), 0, Counter()
        for entry in self.entries:
            if isinstance(entry, int):
                gaps += entry
                continue
            if entry.missing:  # a record that is had in part is not had
                gaps += entry.missing
            if entry.type not in ("bench", "bye"):
                here.records.append(entry)
                had[entry.type] += entry.frames
                continue
            here.mark = entry
            after = entry.body.get("made")
            counted = before is not None and after is not None
            here.missing = _counts(before, after, had) if counted else gaps
            yield here
            before = _with(after, entry.type) if after is not None else None
            here, gaps, had = Stretch(), 0, Counter()
        if here.records or gaps or not self._ended():
            here.missing = gaps + (0 if self._ended() else 1)  # what would have come last is not known
            yield here

    def _ended(self) -> bool:
        return any(not isinstance(entry, int) and entry.type == "bye" for entry in self.entries)


def _counts(before: list[int], after: list[int], had: Counter) -> dict[str, int]:
    """By type, what was made and did not come. A type that this reader does not know concerns no figure of its."""
    found = {}
    for number, kind in enumerate(TYPES):
        made = (after[number] if number < len(after) else 0) - (before[number] if number < len(before) else 0)
        if made > had[kind]:
            found[kind] = made - had[kind]
    return found


def _with(made: list[int], kind: str) -> list[int]:
    """The counts behind a mark: it is one of them."""
    number = TYPES.index(kind)
    return [count + (at == number) for at, count in enumerate(made)]
