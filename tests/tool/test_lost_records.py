"""Whatever is lost of a capture: a figure of result.json is what it would be without the loss, or it is missing and
said to be. Never another.

One bit flipped in every frame, every frame left out, every two neighbours left out, every frame twice, every two
neighbours exchanged. A short run takes the smallest capture whose marks carry counts, and a part of the offsets;
HAYLOFT_LONG=1 every capture that has rounds, those from before the counts too.
"""

import os
from pathlib import Path

import pytest
import second_decoder
import synth
from telemetry import decode, digest, tally

CAPTURES = Path(__file__).parent / "captures"
LONG = bool(os.environ.get("HAYLOFT_LONG"))
COUNTED = ("host-short", "host-rounds")
BEFORE = ("host-bounded", "host-observed", "tcg-ok", "tcg-com1")  # marks without counts
CHOSEN = (*COUNTED, *BEFORE) if LONG else COUNTED[:1]
BITS = 3 if LONG else 1  # flipped in each frame, one at a time


def digested(data):
    found = digest.Digest()
    reader = decode.Decoder()
    found.take(reader.feed(data) + reader.finish())
    return found.result(reader.next_numbers())


def frames(data):
    return [b"\0" + segment + b"\0" for segment in data.split(b"\0") if segment]


def flipped(frame, which):
    """One bit of a frame, at its begin, middle or end, but never so that a delimiter comes or goes."""
    at = 1 + [(len(frame) - 2) // 2, 0, len(frame) - 3][which]
    for bit in range(8):
        new = frame[at] ^ 1 << bit
        if new:
            return frame[:at] + bytes([new]) + frame[at + 1:]
    raise AssertionError


def damages(parts):
    """(what was done, the parts) of every damage."""
    for at, part in enumerate(parts):
        for which in range(BITS):
            yield f"frame {at}, bit {which}", [*parts[:at], flipped(part, which), *parts[at + 1:]]
        yield f"without frame {at}", [*parts[:at], *parts[at + 1:]]
        yield f"without frames {at} and {at + 1}", [*parts[:at], *parts[at + 2:]]
        yield f"frame {at} twice", [*parts[:at + 1], *parts[at:]]
        yield f"frames {at} and {at + 1} exchanged", [*parts[:at], *parts[at + 1:at + 2], part, *parts[at + 2:]]


def by_name(entries, key="name"):
    return {entry[key]: entry for entry in entries}


def other_figures(found, whole):
    """What the damaged capture says otherwise, and what it does not say."""
    wrong, gone = [], []

    def same(where, value, wanted):
        if value is None and wanted is not None:
            gone.append(where)
        elif value != wanted:
            wrong.append((where, value, wanted))

    for part in ("hello", "bye", "panic"):
        same(part, found[part], whole[part])
    for key in ("rate", "turns"):
        if whole["parallel"]:
            same(key, (found["parallel"] or {}).get(key), whole["parallel"][key])
    for kind, key in (("caches", "name"), ("counters", "id"), ("skipped", "name")):
        there, wanted = by_name(found[kind], key), by_name(whole[kind], key)
        gone.extend(wanted.keys() - there.keys())
        for name, entry in there.items():
            same(name, entry, wanted.get(name))
    tests = by_name(found["tests"])
    gone.extend(by_name(whole["tests"]).keys() - tests.keys())
    for name, test in tests.items():
        wanted = by_name(whole["tests"])[name]
        for key in ("ns_per_op", "cycles_per_op", "unit", "shape", "cpus"):
            same((name, key), test[key], wanted[key])
        for figure in {**test["figures"], **wanted["figures"]}:
            same((name, figure), test["figures"].get(figure), wanted["figures"].get(figure))
        _rounds(same, gone, name, test, wanted)
    _tallies(wrong, found, whole)
    return wrong, gone


def _rounds(same, gone, name, test, wanted):
    rounds, whole = by_name(test["rounds"], "round"), by_name(wanted["rounds"], "round")
    gone.extend((name, number) for number in whole.keys() - rounds.keys())
    for number, entry in rounds.items():
        old = whole[number]
        for key in ("operations", "cycles", "wall", "ns_per_op", "cycles_per_op", "cpus", "yardstick", "n",
                    "counted", "claimed", "latency", "matrix"):
            same((name, number, key), entry.get(key), old.get(key))
        for key in ("counters", "locks"):
            same((name, number, key), entry[key] if entry["complete"] else None, old[key] if old["complete"] else None)


def _tallies(wrong, found, whole):
    """A counter that is not in a tally counts as 0, so there is all of a test or nothing."""
    schema = by_name(whole["counters"])
    old, new = tally.BootTally(whole, schema), tally.BootTally(found, schema)
    for test in new.operations:
        if not new.counts(test):
            continue
        for table, wanted, place in ((new.values, old.values, 1), (new.locks, old.locks, 1)):
            here = [{key: value for key, value in one.items() if key[place] == test} for one in (table, wanted)]
            if here[0] != here[1]:
                wrong.append((test, "tally"))


@pytest.mark.parametrize("name", CHOSEN)
def test_figures_are_right_or_missing(name):
    data = (CAPTURES / f"{name}.bin").read_bytes()
    parts = frames(data)
    whole = digested(data)
    assert whole["tests"] and not whole["missing"]
    lossless = 0
    for what, damaged in damages(parts):
        found = digested(b"".join(damaged))
        wrong, gone = other_figures(found, whole)
        assert not wrong, f"{what}: {wrong[:3]}"
        assert not gone or found["missing"] or found["lost"] or not found["bye"], f"{what}: {gone[:3]} unsaid"
        lossless += not gone
    assert lossless > len(parts), "every frame twice changes nothing"


@pytest.mark.parametrize("data", [*((CAPTURES / f"{name}.bin").read_bytes() for name in COUNTED),
                                  synth.capture(synth.plan_for("A"))], ids=[*COUNTED, "synthetic"])
def test_marks_count_what_came_before_them(data):
    """By the page alone: in a capture that lost nothing, what is told is what is there."""
    told = list(second_decoder.made(data))
    assert len(told) > 10 and all(said == counted for said, counted in told)


@pytest.mark.parametrize("name", COUNTED)
def test_a_lost_sample_costs_rounds_until_the_next_complete_one(name):
    """And no time of any round: those are in the results."""
    data = (CAPTURES / f"{name}.bin").read_bytes()
    whole = digested(data)
    records = [item for item in decode.decode_file(CAPTURES / f"{name}.bin") if isinstance(item, decode.Record)]
    samples = [record for record in records if record.type == "sample" and record.stream == decode.BOOT_STREAM]
    complete = [at for at, record in enumerate(records) if record.type == "bench" and record.body.get("whole")]
    for sample in samples:
        found = digested(data[:sample.offset] + data[sample.end:])
        bare = [entry for test in found["tests"] for entry in test["rounds"] if not entry["complete"]]
        assert bare and all("sample" in entry["lost"][0] for entry in bare)
        assert str(len(bare)) in next(text for text in found["missing"] if text.startswith("counters"))
        assert [test["ns_per_op"] for test in found["tests"]] == [test["ns_per_op"] for test in whole["tests"]]
    if name == "host-rounds":
        assert len(complete) > 1
        found = digested(data[:samples[0].offset] + data[samples[0].end:])
        assert any(entry["complete"] for test in found["tests"] for entry in test["rounds"])
