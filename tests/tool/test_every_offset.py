"""One byte deleted, flipped, doubled or inserted at every offset of recorded captures: at most the frame that it
touches is lost, the loss is counted and dated, and both decoders agree on which frame that was.

The idea that makes every offset affordable: what a decoder does next depends on its state alone. So a damaged
capture is decoded from the state before the damage until the state is again that of the undamaged one; from there
on the two give the same. Where the states never meet again (the last record of a stream is lost) it goes to the
end. Which frames are good is the second decoder's word, a segment at a time, so it need not be quick.

A capture may have faults of its own (a loss, a torn frame): they are expected, wherever the new one falls. A short
run takes the captures without tests and one whole boot, HAYLOFT_LONG=1 all of them.
"""

import os
import pickle
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
import second_decoder
from telemetry.decode import Decoder, Fault, Record

CAPTURES = sorted((Path(__file__).parent / "captures").glob("*.bin"))
CHOSEN = [path for path in CAPTURES if os.environ.get("HAYLOFT_LONG") or path.stat().st_size < 2000
          or path.stem == "host-badfree"]
OF_THE_DAMAGE = {"damage", "gap", "incomplete"}


def mutations(data, at):
    """(name, damaged bytes of that one place, how many of the old bytes they replace)"""
    byte = data[at : at + 1]
    yield "deleted", b""
    yield "flipped", bytes([byte[0] ^ (1 << at % 8)])
    yield "doubled", byte * 2
    yield "inserted", bytes([at * 37 % 256]) + byte


@lru_cache(maxsize=4096)
def frames_of(segment):
    """The frames that the second decoder finds in one segment (none or one)."""
    return tuple((*frame[:6], repr(frame[6])) for frame in second_decoder.frames(segment))


def frames_in(data):
    return [frame for segment in data.split(b"\0") for frame in frames_of(segment)]


def content(record):
    return record.type, record.stream, record.seq, record.time, repr(record.body)


def state(decoder):
    """All that decides what comes next, except for the check sums by which a repeated frame is known."""
    def names(frames):
        return [(frame.stream, frame.seq) for frame in frames if frame]
    streams = {number: (s.next, s.time, s.known, names([s.held]), sorted(s.early), names(s.parts))
               for number, s in decoder._streams.items()}
    return decoder.boot, decoder.time, decoder._tail, decoder._pieces, decoder._overlong, streams


class Reference:
    """An undamaged capture, cut after each segment's zero: the decoder's state and what it gave, by piece."""

    def __init__(self, path):
        self.data = path.read_bytes()
        self.shared = b"com1" in path.name.encode()
        self.pieces, at = [], 0
        while at < len(self.data):
            end = self.data.find(b"\0", at) + 1 or len(self.data)
            self.pieces.append((at, end))
            at = end
        decoder = Decoder(self.shared)
        self.snapshots, self.states, self.items = [pickle.dumps(decoder)], [state(decoder)], []
        for start, end in self.pieces:
            self.items.append(decoder.feed(self.data[start:end]))
            self.snapshots.append(pickle.dumps(decoder))
            self.states.append(state(decoder))
        self.items.append(decoder.finish())
        self.next = decoder.next_numbers()
        every = [item for items in self.items for item in items]
        self.first = next(item.end for item in every if isinstance(item, Record))
        self.last = {}
        for frame in frames_in(self.data):
            self.last[frame[1]] = max(frame[2], self.last.get(frame[1], 0))

    def damaged(self, number, at, new):
        """What a capture gives whose byte `at`, in piece `number`, is replaced by `new`, until the decoder has
        recovered: (damaged bytes, undamaged bytes, items, items of the undamaged, decoder at the end or None)."""
        start, end = self.pieces[number]
        decoder = pickle.loads(self.snapshots[number])
        piece = self.data[start:at] + new + self.data[at + 1 : end]
        items, expected = decoder.feed(piece), list(self.items[number])
        after = number + 1
        while state(decoder) != self.states[after]:
            if after == len(self.pieces):
                items, expected = items + decoder.finish(), expected + self.items[after]
                return piece + self.data[end:], self.data[start:], items, expected, decoder
            start_, end_ = self.pieces[after]
            items += decoder.feed(self.data[start_:end_])
            expected += self.items[after]
            after += 1
        stop = self.pieces[after - 1][1]
        return piece + self.data[end:stop], self.data[start:stop], items, expected, None


def split(items):
    """(whole records, records with missing parts, faults)"""
    records = [item for item in items if isinstance(item, Record)]
    return ({content(record) for record in records if not record.missing},
            [record for record in records if record.missing], [item for item in items if isinstance(item, Fault)])


def counted(faults):
    """Losses told, by stream."""
    return Counter({stream: sum(fault.count for fault in faults if fault.stream == stream)
                    for stream in {fault.stream for fault in faults if fault.kind == "gap"}})


def check(reference, number, at, name, new):
    damaged, whole, items, expected, ended = reference.damaged(number, at, new)
    where = f"byte {at} {name}"
    came, rest, faults = split(items)
    wanted, _, own = split(expected)
    before, after = frames_in(whole), frames_in(damaged)
    lost = [frame for frame in before if frame not in after]
    assert len(before) - len(after) == len(lost) <= 1, f"{where}: {lost}"
    assert came <= wanted, f"{where}: invented {came - wanted}"
    assert {fault.kind for fault in faults} <= OF_THE_DAMAGE, f"{where}: {faults}"
    if at > reference.first:
        assert all(fault.time is not None for fault in faults), f"{where}: a fault without a date"
    hits = [fault for fault in faults if fault.kind == "damage" and
            fault.offset - 2 <= at <= fault.offset + fault.length + 2]
    others = [fault for fault in faults if fault.kind == "damage" and fault not in hits]
    assert len(hits) <= 2 and len(others) <= sum(fault.kind == "damage" for fault in own), f"{where}: {faults}"
    told = counted(faults)
    told.subtract(counted(own))
    if not lost:
        assert came == wanted and not rest and not any(told.values()), f"{where}: {faults}"
        return
    _, stream, sequence, _, part, parts, _ = lost[0]
    assert [record[1:3] for record in wanted - came] == [(stream, sequence - part)], f"{where}: {wanted - came}"
    assert all(item.missing == 1 < parts and item.seq == sequence - part for item in rest), f"{where}: {rest}"
    assert hits, f"{where}: a frame was lost and no damage is told"
    if ended and sequence == reference.last[stream]:  # nothing of its stream follows: the bye's totals tell it
        assert not any(told.values()), f"{where}: {told}"
        assert reference.next[stream] - ended.next_numbers().get(stream, 0) >= 1, where
    else:
        assert +told == Counter({stream: 1}) and not -told, f"{where}: counted {told}"


@pytest.mark.parametrize("path", CHOSEN, ids=[path.stem for path in CHOSEN])
def test_one_byte_at_every_offset(path):
    reference = Reference(path)
    for number, (start, end) in enumerate(reference.pieces):
        for at in range(start, end):
            for name, new in mutations(reference.data, at):
                check(reference, number, at, name, new)
