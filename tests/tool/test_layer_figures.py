"""Histograms, the matrix and the overhead: from records to results.json, the report and its pictures."""

import re

import cbor2
import pytest
import synth
from telemetry import analyse, decode, digest, levels, observed, report, shapes
from telemetry.report import layers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("observed") / "run"
    plans = {arm: synth.plan_for(arm, observed=True, rounds=2) for arm in "AB"}
    synth.write_run(folder, plans, pairs=4)
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return analyse.analyse_run(folder)


def test_buckets_are_those_of_the_protocol():
    """The page's formula, and what follows from it: no gap, no overlap, none wider than a quarter of its value."""
    assert [observed.lower(bucket) for bucket in range(14)] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]
    for bucket in range(4, shapes.BUCKETS):
        low, high = observed.lower(bucket), observed.lower(bucket + 1)
        assert low < high <= low * 1.25


@pytest.mark.parametrize("counts, share, most, found", [
    ({24: 100}, 0.5, 10**6, observed.lower(24) + (observed.lower(25) - observed.lower(24)) / 2),
    ({3: 99, 40: 901}, 0.5, 10**6, pytest.approx(2048 + 512 * 401 / 901)),
    ({3: 99}, 0.99, 3, None),  # 0.99 samples above it
    ({3: 100}, 0.99, 3, pytest.approx(3.99)),
    ({24: 1000}, 0.999, observed.lower(24), pytest.approx(observed.lower(24) + 1, abs=0.01)),  # never above the largest
])
def test_percentiles(counts, share, most, found):
    assert observed.percentile(counts, share, most) == found


def test_percentiles_against_the_values_themselves():
    values = [int(1.0009 ** n) + n % 7 for n in range(9000)]
    counts = {}
    for value in values:
        bucket = next(b for b in range(shapes.BUCKETS) if observed.lower(b) <= value < observed.lower(b + 1))
        counts[bucket] = counts.get(bucket, 0) + 1
    for share in (0.1, 0.5, 0.9, 0.99, 0.999):
        true = sorted(values)[int(share * len(values))]
        assert observed.percentile(counts, share, max(values)) == pytest.approx(true, rel=0.2)


def test_latency_in_the_results(results):
    entries = {(e["test"], e["level"], e["call"]): e for e in results["latency"]}
    assert len(entries) == len(results["latency"]) == 2 * 4
    found = entries["malloc/64/solo", "front", "alloc"]
    assert (found["unit"], found["every"], found["clock"], found["about"]) == ("cycles", 10, 40, "a call")
    about = found["arms"]["A"]
    operations = sum(entry["operations"] for digest_ in digests(results) for entry in digest_["rounds"])
    assert about["samples"] == pytest.approx(operations / 10, rel=0.01)
    assert observed.lower(24) < about["p50"] < observed.lower(25) < about["p99"] <= observed.lower(33)
    assert about["max"] == 5000
    assert [low for low, _ in about["buckets"]] == [observed.lower(b) for b in (24, 32, 40)]


def digests(results):
    """Each boot's figures for malloc/64/solo in arm A, worked out from the bytes by another way: the plan's."""
    plan = synth.plan_for("A", observed=True, rounds=2)
    for index, boot in enumerate(results["boots"]):
        if boot["arm"] == "A":
            data = synth.capture(synth.noisy(plan, 1, index))
            reader = decode.Decoder()
            yield {"rounds": [item.body for item in reader.feed(data) + reader.finish()
                              if getattr(item, "type", "") == "bench" and item.body["phase"] == "result"
                              and item.body["test"] == 0]}


def test_the_matrix_in_the_results(results):
    by_test = {entry["test"]: entry["arms"] for entry in results["matrix"]}
    alone, both = by_test["malloc/64/solo"]["A"], by_test["malloc/64/all-cpus"]["B"]
    assert alone["remote_share"] == 0 and [cell[:2] for cell in alone["cells"]] == [[0, 0]]
    assert both["remote_share"] == pytest.approx(0.25, abs=0.001)
    cells = {tuple(cell[:2]): cell[2] for cell in both["cells"]}
    assert set(cells) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert cells[0, 1] == pytest.approx(cells[0, 0] / 3, rel=0.001)
    assert sum(cells.values()) == pytest.approx(both["frees"], rel=0.001)


def test_the_overhead_of_a_64_byte_object(results):
    found = next(e for e in results["overhead"] if e["size"] == 64)
    assert found["cache"] == "kmalloc-64"
    assert found["arms"]["A"] == {"bytes": 4096 / 51, "state": 16, "share": pytest.approx(4096 / 51 / 64 - 1)}
    assert layers._overhead(results) == "takes 80.31 bytes of its slab, 25.5 % more than itself; 16 of them keep its state."
    differs = {**results, "overhead": [{"size": 64, "cache": "x", "point": {}, "arms": {
        "A": {"bytes": 64.0, "state": 0, "share": 0.0}, "B": found["arms"]["B"]}}]}
    assert layers._overhead(differs).startswith("in A it takes 64 bytes of its slab, 0 % more") and "in B it" in layers._overhead(differs)


def test_the_report_shows_them(results, tmp_path):
    report.write_report(tmp_path, results)
    text = (tmp_path / "report.md").read_text()
    for part in ("**A 64-byte object:** takes 80.31 bytes", "## How long calls took", "## Who freed what", "`front_bytes`",
                 "One call in 10", "translated code"):
        assert part in text, part
    assert re.search(r"^\| malloc/64/all-cpus +\| B +\| CPU 1 +\| +[\d.,M ]+\| +[\d.,M ]+\|$", text, re.M)
    assert {p.name for p in (tmp_path / "plots").glob("*.png")} >= {"latency.png", "matrix.png", "footprint.png"}


@pytest.mark.parametrize("kind, said", [("icount", "instructions, not time"), ("host", "TSC cycles from a call")])
def test_the_report_says_what_a_cycle_is(results, kind, said):
    about = {**results, "machine": {**results["machine"], "kind": kind}}
    assert said in layers._latency(about)[1].text


def test_the_barn_in_the_results_and_the_report(tmp_path):
    """Which arm's list stands at its limit and which one's goes up and down is seen in the curves alone."""
    plans = {arm: synth.plan_for(arm, stored=share, rounds=4, round_ms=1000) for arm, share in (("A", 0.0), ("B", 0.9))}
    synth.write_run(tmp_path / "run", plans, pairs=2)
    found = analyse.analyse_run(tmp_path / "run")
    curves = {entry["arm"]: entry for entry in found["barn"]}
    assert {arm: entry["boot"] for arm, entry in curves.items()} == {"A": "01-A", "B": "01-B"}
    full = {arm: entry["levels"][0] for arm, entry in curves.items()}
    assert all(level["name"] == "barn_full" and level["limit"] == 10 for level in full.values())
    assert [value for _, value in full["A"]["points"]] == [0, 10]
    assert len(full["B"]["points"]) > 10 and max(value for _, value in full["B"]["points"]) < 10
    assert [name for name, _ in curves["A"]["tests"]] == [test.name for test in plans["A"].tests]
    report.write_report(tmp_path / "run", found)
    assert (tmp_path / "run" / "plots" / "barn.png").is_file()
    assert "plots/barn.png" in (tmp_path / "run" / "report.md").read_text()
    (tmp_path / "run" / "boots" / "01-A" / "telemetry.bin").unlink()
    assert levels.curves(tmp_path / "run" / "boots" / "01-A") is None


def test_what_is_off_is_not_mentioned(tmp_path):
    synth.write_run(tmp_path / "run", pairs=2)
    found = analyse.analyse_run(tmp_path / "run")
    assert found["latency"] == found["matrix"] == found["barn"] == []
    report.write_report(tmp_path / "run", found)
    text = (tmp_path / "run" / "report.md").read_text()
    assert "How long calls took" not in text and "Who freed" not in text
    assert not (tmp_path / "run" / "plots" / "latency.png").exists()


def test_a_round_without_them_beside_rounds_with_them(tmp_path):
    """An old archive: result.json written before these records existed."""
    old = {"tests": [{"name": "t", "rounds": [{"round": 0}, {"round": 1, "latency": [
        {"level": "x", "call": "alloc", "max": 9, "buckets": [[5, 1]]}]}]}]}
    entry, = observed.latency({"A": [old, {"tests": None}]}, {}, "cycles")
    assert entry["arms"]["A"] == {"samples": 1, "p50": None, "p99": None, "p999": None, "max": 9, "buckets": [[5, 1]]}
    assert observed.matrix({"A": [old]}, {}) == [] and observed.overhead({"A": [old]}, {}) == []


@pytest.mark.parametrize("kind, body", [
    ("latency", {"buckets": [[132, 1]]}), ("latency", {"buckets": [[1, 2, 3]]}), ("latency", {"call": "both"}),
    ("latency", {"every": 0}), ("latency", {"max": -1}), ("matrix", {"from": [[255, 1]]}), ("matrix", {"cpu": 300}),
    ("matrix", {"from": {}}),
])
def test_bodies_that_are_wrong_are_faults(kind, body):
    good = {"latency": {"test": 0, "round": 0, "level": "x", "call": "alloc", "max": 1, "buckets": [[1, 1]]},
            "matrix": {"test": 0, "round": 0, "cpu": 0, "from": [[0, 1]]}}[kind]
    assert shapes.wrong_with(kind, good) is None
    assert shapes.wrong_with(kind, {**good, **body})
    payload = cbor2.dumps([synth.TYPES[kind], synth.BOOT, 0, 1, 0, 1, {**good, **body}])
    assert [item.kind for item in decode.Decoder().feed(synth.frame(payload))] == ["shape"]


def test_a_gauge_that_only_a_tick_saw_high_is_not_the_rounds(tmp_path):
    """The full sample at a round's end says nothing of a gauge that is back where it was at the begin; the tick's
    sample of it in between must not stand for the end."""
    plan = synth.plan_for("A", rounds=1)
    boot = synth._Boot(plan)
    machine, out = boot.machine, boot.out
    gauge = machine.ids["cache", "front_objects"]
    data = boot.hello() + boot.names()
    for step, (value, stream) in enumerate(((7, synth.BOOT), (5000, 0))):
        out.now += 1000
        data += out.offer("sample", stream, [[synth.SCOPES["cache"], 2, 0, gauge, value]])
        if step == 0:
            data += out.offer("bench", synth.BOOT, {"phase": "begin", "test": 0, "round": 0})
    out.now += 1000
    data += out.offer("bench", synth.BOOT, {"phase": "end", "test": 0, "round": 0})
    data += out.offer("bench", synth.BOOT, {"phase": "result", "test": 0, "round": 0, "operations": 1, "cycles": 1})
    (tmp_path / "telemetry.bin").write_bytes(data + boot.bye())
    found = digest.digest_boot(tmp_path)
    assert found["tests"][0]["rounds"][0]["counters"]["front_objects"] == {"kmalloc-64": 7}
