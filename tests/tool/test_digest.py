"""A boot's bytes to its facts: sums known beforehand, losses counted, disorder put right."""

import dataclasses
import json
import random
from pathlib import Path

import pytest
import synth
from telemetry import decode, digest, shapes

CAPTURES = Path(__file__).parent / "captures"


def boot(tmp_path, data, about=None):
    (tmp_path / "telemetry.bin").write_bytes(data)
    if about is not None:
        (tmp_path / "boot.json").write_text(json.dumps(about))
    return digest.digest_boot(tmp_path)


def plan(**changes):
    return synth.plan_for("A", **changes)


def test_rounds_and_their_times(tmp_path):
    wanted = plan(rounds=3, noise=0.0)
    found = boot(tmp_path, synth.capture(wanted), {"id": "07-A", "arm": "A", "pair": 7, "point": {"n": 1}})
    assert (found["id"], found["arm"], found["pair"], found["point"]) == ("07-A", "A", 7, {"n": 1})
    assert [test["name"] for test in found["tests"]] == [test.name for test in wanted.tests]
    for about, test in zip(wanted.tests, found["tests"]):
        assert [entry["round"] for entry in test["rounds"]] == [0, 1, 2]
        assert test["ns_per_op"] == pytest.approx(about.ns, rel=0.01)
        assert test["cycles_per_op"] == pytest.approx(about.ns * synth.HZ / 1e9, rel=0.01)
        assert all(entry["complete"] for entry in test["rounds"])
    assert found["bye"]["outcome"] == "ok" and found["panic"] is None
    assert (found["lost"], found["damaged"]) == (0, 0)


def total(found, counter, instance):
    rounds = [entry for test in found["tests"] for entry in test["rounds"]]
    return [entry["counters"].get(counter, {}).get(instance, 0) for entry in rounds]


def test_counters_are_those_of_the_round_alone(tmp_path):
    found = boot(tmp_path, synth.capture(plan(rounds=2)))
    for test in found["tests"]:
        size = test["name"].split("/")[1]
        for entry in test["rounds"]:
            counters = entry["counters"]
            assert sum(counters["alloc_slow"].values()) == entry["operations"]
            assert set(counters["alloc_slow"]) == {f"kmalloc-{size}"}
            assert entry["locks"]["cache"][f"kmalloc-{size}"]["acquisitions"] == 2 * entry["operations"]


def decoded(data):
    reader = decode.Decoder()
    return reader.feed(data) + reader.finish(), reader.next_numbers()


def digest_items(items, numbers):
    work = digest.Digest()
    work.take(items)
    return work.result(numbers)


def test_streams_may_arrive_in_any_order_of_time():
    """CPUs' streams are drained one after another: what came late by the file may be early by the clock."""
    items, numbers = decoded(synth.capture(plan(rounds=2)))
    expected = digest_items(items, numbers)
    boot_stream = [i for i in items if i.stream == shapes.BOOT_STREAM]
    others = [i for i in items if i.stream != shapes.BOOT_STREAM]
    assert digest_items(others + boot_stream, numbers)["tests"] == expected["tests"]
    assert digest_items(boot_stream + others, numbers)["tests"] == expected["tests"]


def test_a_lost_sample_costs_nothing_but_is_counted(tmp_path):
    whole = boot(tmp_path, synth.capture(plan(rounds=2)))
    lossy = boot(tmp_path, synth.capture(plan(rounds=2, drop=frozenset({2, 5}))))
    assert lossy["lost"] == 2
    assert [t["ns_per_op"] for t in lossy["tests"]] == [t["ns_per_op"] for t in whole["tests"]]
    assert total(lossy, "alloc_slow", "kmalloc-64") == total(whole, "alloc_slow", "kmalloc-64")


def frames(data):
    return [b"\0" + segment + b"\0" for segment in data.split(b"\0") if segment]


def test_lost_frames_are_counted_wherever_they_were(tmp_path):
    parts = frames(synth.capture(plan(rounds=1)))
    rng = random.Random(3)
    for _ in range(20):
        gone = set(rng.sample(range(len(parts) - 1), 4))  # not the bye
        found = boot(tmp_path, b"".join(part for at, part in enumerate(parts) if at not in gone))
        assert found["lost"] == 4


def test_without_a_bye_nothing_went_well(tmp_path):
    parts = frames(synth.capture(plan(rounds=1)))
    found = boot(tmp_path, b"".join(parts[:-1]))
    assert found["bye"] is None


def test_a_round_whose_mark_is_lost_has_a_time_but_no_counters(tmp_path):
    items, numbers = decoded(synth.capture(plan(rounds=2)))
    begin = next(i for i in items if i.type == "bench" and i.body["phase"] == "begin")
    found = digest_items([i for i in items if i is not begin], numbers)
    first = found["tests"][0]["rounds"][0]
    assert first["ns_per_op"] and not first["complete"] and first["counters"] == {}
    assert found["tests"][0]["rounds"][1]["complete"]


def test_panic_refusal_and_skips(tmp_path):
    found = boot(tmp_path, synth.capture(plan(panic_after=1)))
    assert found["panic"]["name"] == "CHECK" and found["bye"] is None
    refusal = ("frnt=bounded", "unknown", "front")
    found = boot(tmp_path, synth.capture(plan(refused=(refusal,), outcome="refused")))
    assert found["refused"] == [list(refusal)] and found["tests"] == []
    some = plan()
    some = dataclasses.replace(some, tests=(*some.tests, synth.Test("yield/solo", 1, skip="needs the scheduler")))
    assert boot(tmp_path, synth.capture(some))["skipped"] == [{"name": "yield/solo", "reason": "needs the scheduler"}]


@pytest.mark.parametrize("data", [b"", b"\0" * 5000, b"text only\n", bytes(range(256)) * 20])
def test_a_capture_of_nothing_is_a_digest_of_nothing(tmp_path, data):
    found = boot(tmp_path, data)
    assert found["hello"] is None and found["tests"] == [] and found["bye"] is None
    json.dumps(found, allow_nan=False)


def test_no_capture_at_all(tmp_path):
    found = digest.digest_boot(tmp_path)
    assert found["no_capture"] and found["tests"] == []


def test_any_flipped_byte_leaves_a_digest(tmp_path):
    data = bytearray(synth.capture(plan(rounds=1)))
    rng = random.Random(9)
    for _ in range(40):
        copy = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            copy[rng.randrange(len(copy))] = rng.randrange(256)
        json.dumps(boot(tmp_path, bytes(copy)), allow_nan=False)


def probes(*rates):
    return [{"name": "parallel", "when": str(at), "ok": True, "values": {"roundtrips": int(rate * 5), "ms": 5}}
            for at, rate in enumerate(rates)]


@pytest.mark.parametrize(
    "rates, ok",
    [([2000] * 8, True), ([0] * 8, False), ([0.2, *[900] * 7], True), ([0, 0, *[900] * 6], True),
     ([0, 0, 0, *[900] * 5], False), ([21] * 3, True), ([19] * 3, False)],
)
def test_cpus_that_take_turns(rates, ok):
    found = digest.parallel(probes(*rates))
    assert found["ok"] is ok
    assert ("reason" in found) is not ok


@pytest.mark.parametrize("knob, value", [("overcommit", "1"), ("kbench.ops", "20000")])
def test_where_turns_are_all_there_can_be_the_probe_is_not_judged(knob, value):
    assert digest.parallel(probes(0, 0), {"overcommit": "0", "kbench.ops": "0"})["ok"] is False
    found = digest.parallel(probes(0, 0), {"overcommit": "0", "kbench.ops": "0", knob: value})
    assert found["ok"] is None and "reason" not in found


def test_one_cpu_has_no_probe():
    assert digest.parallel([{"name": "parallel", "when": "", "ok": True, "values": {"cpus": 1}}]) is None
    assert digest.parallel([]) is None


@pytest.mark.parametrize("name", ["tcg-ok.bin", "host-bounded.bin"])
def test_real_boots(name, tmp_path):
    found = boot(tmp_path, (CAPTURES / name).read_bytes())
    assert found["bye"]["outcome"] == "ok"
    assert (found["lost"], found["damaged"], found["faults"]) == (0, 0, {})
    assert found["tests"]
    for test in found["tests"]:
        for entry in test["rounds"]:
            assert entry["complete"] and entry["ns_per_op"] > 0
            assert entry["counted"] == entry["claimed"]


# -- what was left out ----------------------------------------------------------------------------

MEMORY = {"name": "attic", "unit": "KiB", "amount": 100, "of": 5000, "doc": "what lay in the attic", "detail": "in boxes"}
LOCKS = {"name": "beds", "unit": "beds", "amount": 3, "voids": True}


def test_what_was_left_out_is_known_by_hello_and_then_by_bye(tmp_path):
    found = boot(tmp_path, synth.capture(plan(left_out=(MEMORY,), left_out_later=({"name": "attic", "unit": "KiB", "amount": 123},
                                                                                LOCKS))))
    assert found["damaged"] == 0 and found["faults"] == {}
    assert found["left_out"] == [
        {**MEMORY, "amount": 123, "voids": False},
        {**LOCKS, "of": 0, "doc": "", "detail": ""},
    ]


def test_without_a_bye_hello_tells_what_was_left_out(tmp_path):
    found = boot(tmp_path, synth.capture(plan(left_out=(MEMORY,), left_out_later=(LOCKS,), panic_after=1)))
    assert [entry["name"] for entry in found["left_out"]] == ["attic"]


def test_an_older_kernel_left_nothing_out_that_is_known(tmp_path):
    assert boot(tmp_path, synth.capture(plan()))["left_out"] == []


@pytest.mark.parametrize("wrong", [
    [1], [[]], {}, [{"name": "x", "unit": "y"}], [{"name": 1, "unit": "y", "amount": 1}],
    [{"name": "x", "unit": "y", "amount": -1}], [{"name": "x", "unit": "y", "amount": 1, "voids": 1}],
    [{"name": "x", "unit": "y", "amount": 1, "of": "z"}],
])
def test_what_is_no_account_is_no_hello(wrong):
    hello = {"protocol": 1, "tsc_hz": 1, "cpus": [], "knobs": {}}
    assert shapes.wrong_with("hello", hello) is None
    assert "left_out" in shapes.wrong_with("hello", {**hello, "left_out": wrong})
    assert "left_out" in shapes.wrong_with("bye", {"outcome": "ok", "left_out": wrong})


def test_an_account_may_grow():
    assert shapes.wrong_with("bye", {"outcome": "ok", "left_out": [{**MEMORY, "since": 3}]}) is None


@pytest.mark.parametrize("length", [0, 1499, 1500, 1501, 9000, 70000])
def test_arguments_of_any_length_arrive_whole(tmp_path, length):
    draw = random.Random(length)
    args = "".join(draw.choice(" \t\n") for _ in range(length))  # no word is a knob's
    found = boot(tmp_path, synth.capture(plan(args=args, left_out=())))
    assert found["hello"]["args"] == args and found["hello"]["args_bytes"] == length
    assert found["hello"]["left_out"] == []
