"""Bytes in, records out: the one reader of the telemetry stream (docs/PROTOCOL.md), for boots,
replay and view.

The stream is what a serial line made of it, so the reader believes nothing: not a length, not a
sequence number, not that the bytes belong to this boot. Three steps, each of which turns what it
cannot use into a Fault:

  frames    bytes between zeros; COBS, CRC-32 and a CBOR item without tags or open-ended lengths. A
            bad segment is a fault of kind "damage" (or Text, where console and telemetry share the
            line, and before the first zero, where firmware may have spoken) and costs itself only. A good frame that is no record is a fault of kind "shape".
  sequence  each stream counts its records from 0. What fits is taken. What does not fit is held
            until the stream's next record tells what it was: the sequence goes on from it ("gap":
            records were lost; "restart": another boot began) or goes on from before it ("foreign":
            it was never ours). So one stray frame cannot make the reader throw away the rest, and
            no record is credited to another boot. A frame that was seen before is a "repeat"; time
            that falls within a stream is a fault of kind "time". Only a panic is taken ahead of its
            turn: it is sent before what still waits in the rings.
  parts     the parts of a long record are joined; if some are lost the rest is delivered with
            `missing` set, or is a fault of kind "incomplete" if it makes no sense without them.

Every fault is dated with the time of the last record taken before it. Memory is bounded: one frame,
one held record a stream, one record in parts a stream, and a ring of 65536 check sums a stream.

What it deliberately does not do: it keeps no values and knows no counter. Works on any split of the
same bytes with the same result.
"""

import io
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cbor2

from .shapes import BOOT_STREAM, TYPES, wrong_with

FRAME_MOST = 4094  # bytes between a frame's zeros
PAYLOAD_MOST = 4000
PIECE = 4096  # a longer segment is dealt with in pieces of this size
PARTS_MOST = 256
REMEMBERED = 65536  # check sums a stream, to tell a repeated frame from another boot's
READ = 1 << 20
PANIC = TYPES.index("panic")

# Samples are by far the most bytes. This lets through arrays and unsigned numbers only, at C speed.
_SAMPLE = re.compile(
    rb"\x87\x03(?:[\x00-\x17\x80-\x97]++|[\x18\x98].|[\x19\x99]..|\x1a....|\x1b........)*+",
    re.DOTALL
)
# The same for all else that is plain and has no text of 24 bytes or more: bench marks, and most other records.
_SHORT = re.compile(
    rb"(?:[\x00-\x17\x20-\x37\x80-\x97\xa0-\xb7\xf4\xf5]++"
    rb"|[\x18\x38\x98\xb8].|[\x19\x39\x99\xb9]..|[\x1a\x3a].{4}|[\x1b\x3b].{8}|"
    + b"|".join(b"[\\x%02x\\x%02x].{%d}" % (0x40 + size, 0x60 + size, size) for size in range(24)) + rb")*+",
    re.DOTALL
)
_TEXT = re.compile(rb"[\x20-\x7e\t\r\n\x1b]*")


@dataclass(slots=True)
class Record:
    """One whole record, never changed after it is made (frozen dataclasses are dear to make). `boot` counts the boots
    seen in this stream of bytes; a boot's own file has only boot 0."""

    type: str
    stream: int
    seq: int
    time: int
    body: Any
    offset: int
    end: int
    boot: int = 0
    missing: int = 0  # parts that were lost
    frames: int = 1  # parts that came


@dataclass(frozen=True)
class Fault:
    """Something that was not right: see the head of this file for the kinds. `count`: records lost
    (gap)."""

    kind: str
    offset: int
    length: int
    time: int | None
    stream: int | None = None
    count: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Text:
    """Console text from a shared line."""

    data: bytes
    offset: int


@dataclass(slots=True)
class _Frame:
    """One good frame, never changed after it is made."""

    type: int
    stream: int
    seq: int
    time: int
    part: int
    parts: int
    body: Any
    offset: int
    end: int
    crc: int


@dataclass
class _Stream:
    next: int = 0
    time: int = 0
    # whether `next` means something: a reader that joins in the middle has to learn it
    known: bool = True
    held: _Frame | None = None
    early: set[int] = field(default_factory=set)  # taken ahead of their turn
    crcs: array = field(default_factory=lambda: array("Q"))
    parts: list[_Frame] = field(default_factory=list)

    def fits(self, frame: _Frame) -> bool:
        return not self.known or (frame.seq == self.next and frame.time >= self.time)

    def overtaken_by(self, frame: _Frame) -> bool:
        """Whether this is a panic that was sent before its turn."""
        ahead = frame.seq > self.next and frame.time >= self.time
        return frame.type == PANIC and ahead and not self.seen(frame)

    def seen(self, frame: _Frame) -> bool:
        slot = frame.seq % REMEMBERED
        return slot < len(self.crcs) and self.crcs[slot] == _mark(frame)

    def remember(self, frame: _Frame) -> None:
        slot = frame.seq % REMEMBERED
        if slot >= len(self.crcs):
            self.crcs.frombytes(bytes(8 * (slot + 1 - len(self.crcs))))
        self.crcs[slot] = _mark(frame)


def _mark(frame: _Frame) -> int:
    """Never 0, which is an empty slot."""
    return frame.crc | (frame.seq // REMEMBERED % 2**31 + 1) << 32


def uncobs(segment: bytes) -> bytes | None:
    """The bytes that COBS stuffed into this zero-free segment, or None."""
    size = len(segment)
    out = bytearray(segment)
    position = 0
    while position < size:  # each code becomes the zero that it stood for; the first stood for none
        code = segment[position]
        if code == 0xFF:
            return _uncobs_long(segment)
        out[position] = 0
        position += code
    return bytes(out[1:]) if position == size else None


def _uncobs_long(segment: bytes) -> bytes | None:
    """With runs of 254 bytes or more, which no zero follows: rare, so apart from the quick loop."""
    out, position, size = bytearray(), 0, len(segment)
    while position < size:
        code = segment[position]
        out += segment[position + 1 : position + code]
        position += code
        if code != 0xFF and position < size:
            out.append(0)
    return bytes(out) if position == size else None


def _is_plain(payload: bytes) -> bool:
    """Whether this is CBOR without tags, floats, null or open-ended lengths, whose strings end
    inside it."""
    position, size = 0, len(payload)
    while position < size:
        head = payload[position]
        major, short = head >> 5, head & 31
        position += 1
        if short < 24:
            value = short
        elif short < 28 and major != 7:
            width = 1 << (short - 24)
            value = int.from_bytes(payload[position : position + width], "big")
            position += width
        else:
            return False
        if major in (2, 3):
            position += value
        elif major == 6 or (major == 7 and value not in (20, 21)):
            return False
    return position == size


def _load(payload: bytes) -> Any:
    """The one item in this payload. Raises ValueError if it is not one plain item."""
    if not _SAMPLE.fullmatch(payload) and not _SHORT.fullmatch(payload) and not _is_plain(payload):
        raise ValueError("no plain CBOR")
    source = io.BytesIO(payload)
    try:
        item = cbor2.load(source)
    except (ValueError, TypeError, EOFError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(f"no CBOR: {type(error).__name__}") from None
    if source.tell() != len(payload):
        raise ValueError("bytes after the item")
    return item


def _frame(payload: bytes, crc: int, offset: int, end: int) -> _Frame:
    item = _load(payload)
    if type(item) is not list or len(item) != 7:
        raise ValueError("no array of 7")
    kind, stream, seq, time, part, parts, body = item
    if not type(kind) is type(stream) is type(seq) is type(time) is type(part) is type(parts) is int or (
            kind < 0 or stream < 0 or seq < 0 or time < 0 or part < 0 or parts < 0):
        raise ValueError("a header field is no unsigned number")
    if stream > BOOT_STREAM:
        raise ValueError(f"stream {stream}")
    if not part < parts <= PARTS_MOST:
        raise ValueError(f"part {part} of {parts}")
    if kind < len(TYPES) and type(body) is not (list if TYPES[kind] == "sample" else dict):
        raise ValueError(f"{TYPES[kind]} has the wrong kind of body")
    return _Frame(kind, stream, seq, time, part, parts, body, offset, end, crc)


def _merge(bodies: list) -> Any:
    """Join the bodies of parts: arrays and texts one after the other, maps key by key, maps, arrays and
    texts in them likewise."""
    if isinstance(bodies[0], list):
        return [row for body in bodies for row in body]
    whole: dict = {}
    for body in bodies:
        for key, value in body.items():
            there = whole.get(key)
            if isinstance(there, dict) and isinstance(value, dict):
                whole[key] = {**there, **value}
            elif type(there) is type(value) and isinstance(there, (list, str)):
                whole[key] = there + value
            else:
                whole[key] = value
    return whole


class Decoder:
    """Feed it bytes in any pieces; it returns what they complete.

    shared_line: console text may stand between frames. from_start: the bytes begin with the boot,
    so that a first record with a number above 0 means a loss, and text before the first zero is the
    firmware's, which may write to any port; a reader that joins a running machine says False.
    """

    def __init__(self, shared_line: bool = False, from_start: bool = True):
        self.shared_line = shared_line
        self.from_start = from_start
        self.boot = 0
        self.offset = 0  # bytes fed
        self.time: int | None = None  # of the last record taken
        self._tail = b""
        self._before = from_start  # no zero has come yet: no frame can have begun
        self._pieces = 0  # pieces of the present, overlong segment that are done with
        self._overlong: tuple[int, int] | None = None  # its damaged part: offset, length
        self._streams: dict[int, _Stream] = {}
        self._first: dict[int, int] | None = None  # next_numbers() of the first boot, once it is over
        self._out: list = []

    # Frames

    def feed(self, data: bytes) -> list:
        start = self.offset - len(self._tail)
        self.offset += len(data)
        *segments, tail = (self._tail + data).split(b"\0")
        for segment in segments:
            if segment or self._pieces:
                self._segment(segment, start)
            self._before = False
            start += len(segment) + 1
        while len(tail) >= PIECE:
            self._piece(tail[:PIECE], start)
            tail, start = tail[PIECE:], start + PIECE
        self._tail = bytes(tail)
        return self._taken()

    def finish(self) -> list:
        """No more bytes will come: what was held back is decided with what is known."""
        if self._tail or self._pieces:
            self._segment(self._tail, self.offset - len(self._tail))
            self._tail = b""
        # twice: a restart gives other streams new held records
        for stream in sorted(self._streams) * 2:
            self._settle_last(stream)
        for number, state in self._streams.items():
            self._settle_early(number, state)
            self._deliver_parts(state)
        return self._taken()

    def next_numbers(self) -> dict[int, int]:
        """Each stream's next sequence number in the first boot: what its bye's totals are compared with."""
        return self._first if self._first is not None else {number: state.next for number, state in self._streams.items()}

    def _taken(self) -> list:
        out, self._out = self._out, []
        return out

    def _fault(self, kind: str, offset: int, length: int, stream=None, count=0, detail="") -> None:
        self._out.append(Fault(kind, offset, length, self.time, stream, count, detail))

    def _segment(self, segment: bytes, offset: int) -> None:
        while len(segment) >= PIECE:
            self._piece(segment[:PIECE], offset)
            segment, offset = segment[PIECE:], offset + PIECE
        if self._pieces:
            self._end_overlong(segment, offset)
            return
        if len(segment) <= FRAME_MOST:
            content = uncobs(segment)
            if content is not None and 5 <= len(content) <= PAYLOAD_MOST + 4:
                payload, crc = content[:-4], int.from_bytes(content[-4:], "little")
                if zlib.crc32(payload) == crc:
                    self._payload(payload, crc, offset, offset + len(segment))
                    return
        if (self.shared_line or self._before) and _TEXT.fullmatch(segment):
            self._out.append(Text(segment, offset))
        else:
            self._fault("damage", offset, len(segment))

    def _piece(self, piece: bytes, offset: int) -> None:
        """A piece of a segment too long for a frame: text at once, damage as one fault when the
        segment ends."""
        self._pieces += 1
        if (self.shared_line or self._before) and _TEXT.fullmatch(piece):
            self._out.append(Text(piece, offset))
        elif piece:
            first = self._overlong[0] if self._overlong else offset
            self._overlong = (first, offset + len(piece) - first)

    def _end_overlong(self, rest: bytes, offset: int) -> None:
        self._piece(rest, offset)
        if self._overlong:
            self._fault("damage", *self._overlong, detail="longer than any frame")
        self._pieces, self._overlong = 0, None

    def _payload(self, payload: bytes, crc: int, offset: int, end: int) -> None:
        try:
            frame = _frame(payload, crc, offset, end)
        except ValueError as error:
            self._fault("shape", offset, end - offset, detail=str(error))
            return
        self._arrange(frame)

    # Sequence

    def _stream(self, number: int) -> _Stream:
        state = self._streams.get(number)
        if state is None:
            state = self._streams[number] = _Stream(known=self.from_start)
        return state

    def _arrange(self, frame: _Frame) -> None:
        state = self._stream(frame.stream)
        if state.fits(frame):
            self._drop_held(state)
            self._accept(state, frame)
        elif state.overtaken_by(frame):
            state.early.add(frame.seq)
            state.remember(frame)
            self._join(state, frame)
        elif state.seen(frame):
            self._fault("repeat", frame.offset, frame.end - frame.offset, frame.stream)
        elif state.held is None:
            state.held = frame
        elif state.held.crc == frame.crc and state.held.seq == frame.seq:
            self._fault("repeat", frame.offset, frame.end - frame.offset, frame.stream)
        else:
            self._settle(state, frame)

    def _settle(self, state: _Stream, frame: _Frame) -> None:
        """A second record in a row that does not fit: decide what the first was, then look at this
        one again."""
        held = state.held
        follows = frame.seq == held.seq + 1 and frame.time >= held.time
        if held.type == 0 and frame.seq > held.seq and frame.time >= held.time:
            # a hello is at home in any boot; a loss right behind it is likely enough
            follows = True
        if follows and held.seq < state.next:
            self._restart()
            self._arrange(frame)
        elif follows or self._ahead(state, frame):
            self._accept_held(state)
            self._arrange(frame)
        else:
            self._drop_held(state)
            state.held = frame

    def _ahead(self, state: _Stream, frame: _Frame) -> bool:
        """Whether the held record and this one both lie ahead in order: two losses, one soon after
        the other."""
        held = state.held
        ahead = held.seq > state.next and held.time >= state.time
        return ahead and frame.seq > held.seq and frame.time >= held.time

    def _settle_last(self, stream: int) -> None:
        """Nothing follows. What lies ahead was ours; a hello begins another boot; the rest cannot
        be known."""
        state = self._streams.get(stream)
        held = state.held if state else None
        if held is None:
            return
        if held.type == 0 and held.seq < state.next:
            self._restart()
        elif held.seq >= state.next and held.time >= state.time:
            self._accept_held(state)
        else:
            self._drop_held(state)

    def _settle_early(self, stream: int, state: _Stream) -> None:
        """Nothing follows, so what a panic overtook and has not come yet is lost."""
        if state.early:
            lost = max(state.early) + 1 - state.next - len(state.early)
            self._fault("gap", self.offset, 0, stream, lost)
            state.next = max(state.early) + 1
            state.early.clear()

    def _drop_held(self, state: _Stream) -> None:
        held, state.held = state.held, None
        if held:
            self._fault("foreign", held.offset, held.end - held.offset, held.stream)

    def _accept_held(self, state: _Stream) -> None:
        held, state.held = state.held, None
        if held.seq > state.next:
            early = {seq for seq in state.early if seq < held.seq}
            state.early -= early
            lost = held.seq - state.next - len(early)
            self._fault("gap", held.offset, 0, held.stream, lost)
        if held.time < state.time:
            self._fault("time", held.offset, 0, held.stream)
        state.next, state.time = held.seq, held.time
        self._accept(state, held)

    def _restart(self) -> None:
        """Another boot began. Held records that lie behind their stream are its first ones, the
        others the last of the boot before."""
        streams, self._streams = self._streams, {}
        first = []
        for number, state in streams.items():
            if state.held and state.held.seq < state.next:
                first.append(state.held)
            elif state.held:
                self._accept_held(state)
            self._settle_early(number, state)
            self._deliver_parts(state)
        first.sort(key=lambda frame: frame.offset)
        if self.boot == 0:
            self._first = {number: state.next for number, state in streams.items()}
        self.boot += 1
        self._fault("restart", first[0].offset if first else self.offset, 0,
                    detail="another boot began")
        self.time = None
        for frame in first:
            self._arrange(frame)

    def _accept(self, state: _Stream, frame: _Frame) -> None:
        state.known = True
        state.next, state.time = frame.seq + 1, frame.time
        while state.next in state.early:
            state.early.remove(state.next)
            state.next += 1
        state.remember(frame)
        self.time = frame.time
        self._join(state, frame)

    # Parts

    def _join(self, state: _Stream, frame: _Frame) -> None:
        if frame.parts == 1 and not state.parts:
            if frame.type < len(TYPES):
                self._deliver(frame, frame, frame.body, 0)
            return
        if state.parts:
            first = state.parts[0]
            same = first.type == frame.type and first.parts == frame.parts
            if not same or first.seq - first.part != frame.seq - frame.part:
                self._deliver_parts(state)
        state.parts.append(frame)
        if frame.part == frame.parts - 1:
            self._deliver_parts(state)

    def _deliver_parts(self, state: _Stream) -> None:
        frames, state.parts = state.parts, []
        if not frames:
            return
        first, last = frames[0], frames[-1]
        if first.type >= len(TYPES):
            return  # from a newer kernel: skipped, as the protocol says
        body = first.body if len(frames) == 1 else _merge([frame.body for frame in frames])
        self._deliver(first, last, body, first.parts - len(frames), len(frames))

    def _deliver(self, first: _Frame, last: _Frame, body: Any, missing: int, frames: int = 1) -> None:
        kind = TYPES[first.type]
        wrong = wrong_with(kind, body)
        if wrong:
            bad = "incomplete" if missing else "shape"
            self._fault(bad, first.offset, last.end - first.offset, first.stream, detail=wrong)
            return
        self._out.append(Record(kind, first.stream, first.seq - first.part, first.time, body, first.offset, last.end,
                                self.boot, missing, frames))


def decode_file(path: str | Path, shared_line: bool = False) -> Iterator[Record | Fault | Text]:
    """Everything in a capture, in the order in which it became certain."""
    decoder = Decoder(shared_line)
    with open(path, "rb") as source:
        while data := source.read(READ):
            yield from decoder.feed(data)
    yield from decoder.finish()
