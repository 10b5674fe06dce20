"""What the panels are told: shares, rates and medians that were planted, gaps where something was
lost, and memory that stays bounded."""

import json
import tracemalloc

import pytest
import synth
from telemetry.decode import Decoder, Fault, Record
from telemetry.live.feed import BootFeed, RunFeed, SerialFeed
from telemetry.live.state import KEYS_MOST, WIDTH, WINDOW, BootState, RunState

LONG = {"round_ms": 2000, "rounds": 2}


def boot_of(data, **options):
    boot, decoder = BootState("01-A", "A", 1), Decoder(**options)
    for item in decoder.feed(data) + decoder.finish():
        boot.take(item)
    return boot


def known(values):
    return [value for value in values if value is not None]


def test_contention_is_what_was_planted():
    boot = boot_of(synth.capture(synth.plan_for("A", **LONG)))
    shares = [known(boot.contention(cpu)[1]) for cpu in (0, 1)]
    assert max(shares[0]) == pytest.approx(0.7, abs=0.02)
    assert min(shares[0]) == pytest.approx(0.0, abs=0.02)  # the solo tests
    assert max(shares[1]) == pytest.approx(0.7, abs=0.02)
    waits = known(boot.waiting(1)[1])
    assert 0 < max(waits) <= 1
    top = boot.busiest_locks(1)[0]
    assert top.label == "cache kmalloc-4096"
    assert top.contended / top.taken == pytest.approx(0.7, abs=0.01)
    assert boot.window == "malloc/4096/all-cpus"


def test_hits_are_what_was_planted():
    none = known(boot_of(synth.capture(synth.plan_for("A", **LONG))).hits(0)[1])
    assert set(none) == {0.0}
    some = known(boot_of(synth.capture(synth.plan_for("B", **LONG))).hits(0)[1])
    assert max(some) == pytest.approx(0.97, abs=0.001)
    assert min(some) == pytest.approx(0.75, abs=0.001)


def test_churn_is_a_rate_whose_integral_is_the_count():
    plan = synth.plan_for("A", **LONG)
    boot = boot_of(synth.capture(plan))
    label, times, rates = next(line for line in boot.churn() if line[0].startswith("page_alloc "))
    assert label == "page_alloc (pages)"
    machine = synth._Boot(plan)
    for _ in machine.play():
        pass
    key = (synth.SCOPES["node"], 0, 0, machine.machine.ids["node", "page_alloc"])
    total = sum(value for (scope, inst, _, id_), value in machine.machine.values.items()
                if (scope, inst, id_) == (key[0], key[1], key[3]))
    # all but the bucket that still fills
    assert sum(known(rates)) * WIDTH == pytest.approx(total, rel=0.15)
    assert times == sorted(times)


def test_medians_are_the_rounds_figures():
    plan = synth.plan_for("B", noise=0.0)
    boot = boot_of(synth.capture(plan))
    for test in plan.tests:
        assert boot.figures()[test.name] == pytest.approx(test.ns, rel=1e-3)


def test_a_loss_is_a_gap_in_every_line():
    plan = synth.plan_for("A", **LONG)
    pieces = [data for _, data in synth.steps(plan)]
    whole = boot_of(b"".join(pieces))
    middle = len(pieces) // 2
    torn = boot_of(b"".join(pieces[:middle] + pieces[middle + 4 :]))
    assert not whole.timeline.lost
    assert torn.lost > 0
    assert torn.timeline.lost
    times, shares = torn.contention(0)
    for when, share in zip(times, shares):
        if int(when / WIDTH) in torn.timeline.lost:
            assert share is None
    assert all(value is None for line in torn.churn()
               for when, value in zip(line[1], line[2]) if int(when / WIDTH) in torn.timeline.lost)
    assert torn.figures().keys() <= whole.figures().keys()


def test_a_record_of_losses_is_a_gap_too():
    boot = boot_of(synth.capture(synth.plan_for("A", **LONG, drop=frozenset({5, 6, 7}))))
    assert boot.lost == 3
    assert boot.timeline.lost


def test_the_barn_says_that_there_is_none_until_a_counter_feeds_it():
    boot = boot_of(synth.capture(synth.plan_for("A", rounds=1)))
    assert not boot.has_barn
    schema = {"id": 900, "name": "barn_full", "unit": "sheaves", "kind": "gauge", "scope": "node",
              "panel": "barn"}
    boot.take(Record("schema", 255, 500, 10**12, schema, 0, 0))
    assert not boot.has_barn
    start = boot.hello["tsc_hz"]
    for second in range(1, 9):
        row = [3, 0, 0, 900, 3 * second]
        boot.take(Record("sample", 0, second, boot._start + (10 + second) * start, [row], 0, 0))
    assert boot.has_barn
    place, lines = boot.barn_of()
    assert place == "node 0"
    levels = next(line.values for line in lines if line.label == "barn_full")
    assert levels[-1] == 21
    assert levels[0] == 0


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_the_barn_is_the_busiest_caches_with_its_limits(share):
    boot = boot_of(synth.capture(synth.plan_for("A", **LONG, stored=share)))
    assert boot.provides() == {"barn"}
    cache, lines = boot.barn_of()
    assert cache == "kmalloc-4096", "the last test's"
    assert {line.label: line.limit for line in lines} == {"barn_full": 10, "barn_empty": 10,
                                                          "barn_partial": 1}
    full = known(lines[0].values)
    assert set(full[-len(full) // 4 :]) == {10} if not share else len(set(full)) > 3
    assert max(known(boot.supply(1)[1])) == pytest.approx(share, abs=0.001)
    boot.take(Record("bench", 255, 10**6, 10**12, {"phase": "begin", "test": 0, "round": 0}, 0, 0))
    assert boot.barn_of()[0] == cache, "until another is exchanged with"


def test_what_is_brought_in_whole_sheaves_counts_by_their_size():
    boot = boot_of(synth.capture(synth.plan_for("A", rounds=1, stored=0.0)))
    ids = {counter.name: counter.id for counter in boot.roles.by_panel["supply"]}
    start = boot._start + 20 * boot.hz
    index = next(id for id, cache in boot.caches.items() if cache.name == "kmalloc-4096")
    slabs = boot._values[ids["refill_objects"], index, 0][1]
    rows = [1, index, 0, ids["barn_get"], 3, ids["refill_objects"], slabs + 32]
    for second in (0, 1):  # a bucket is told of when the next has begun
        boot.take(Record("sample", 0, 10**6, start + second * boot.hz, [rows], 0, 0))
    assert known(boot.supply(0)[1])[-1] == pytest.approx(3 * 32 / (3 * 32 + 32))


def test_a_level_that_stays_is_still_known_when_its_sample_has_left_the_window():
    boot = boot_of(synth.capture(synth.plan_for("A", rounds=1, observed=True)))
    held = {name: boot._totals["footprint", name] for role, name in boot._totals}
    counter = next(c for c in boot.roles.by_panel["contention"] if c.role == "taken")
    for n in range(1000, 1000 + 2 * WINDOW):
        time = boot._start + int(n * WIDTH * boot.hz)
        boot.take(Record("sample", 0, n, time, [[2, 3, 0, counter.id, 1000 * n]], 0, 0))
    assert held["front_bytes"] > 0
    assert {line.label: line.values[0] for line in boot.footprint() if any(line.values)} == held


def test_rounds_of_a_test_add_up_whatever_comes_between():
    plan = synth.plan_for("A", observed=True, rounds=3, noise=0.0)
    boot = boot_of(synth.capture(plan))
    total = int(plan.round_ms * 1e6 / plan.tests[-1].ns)
    assert boot.crossed == (3 * 2 * (total // 4), 3 * 2 * total)
    assert boot.matrix.keys() == {(made, freed) for made in (0, 1) for freed in (0, 1)}
    found = boot.latency["front", "alloc"]
    assert found.counts[24] == 3 * (total // 10 * 90 // 100)
    assert found.most == 5000
    assert boot.provides() == {"footprint", "latency", "matrix"}
    latest = dict(boot.matrix)
    matrix = {"test": 0, "round": 9, "cpu": 0, "from": [[0, 7]]}
    before = 3 * int(plan.round_ms * 1e6 / plan.tests[0].ns)
    boot.take(Record("matrix", 255, 10**6, 10**12, matrix, 0, 0))
    assert boot.matrix == {(0, 0): before + 7}
    boot.take(Record("matrix", 255, 10**6, 10**12, {**matrix, "test": 3}, 0, 0))
    assert boot.matrix == {**latest, (0, 0): latest[0, 0] + 7}


def test_panels_come_from_the_schema_and_not_from_names():
    """The same boot with every counter renamed, but for the ending that says what the front end
    served."""
    boot, decoder = BootState(), Decoder()
    for item in decoder.feed(synth.capture(synth.plan_for("B", **LONG))):
        if isinstance(item, Record) and item.type == "schema":
            ending = "_fast" if item.body["name"].endswith("_fast") else ""
            item.body["name"] = f"x{item.body['id']}{ending}"
        boot.take(item)
    assert max(known(boot.hits(0)[1])) == pytest.approx(0.97, abs=0.001)
    assert known(boot.contention(1)[1])
    assert len(boot.churn()) == 5


def test_memory_stays_flat_over_hours():
    """A day of samples at 20 Hz would be too slow to try; memory must not grow at all after the
    window is full."""
    plan = synth.plan_for("A", rounds=1)
    boot = boot_of(synth.capture(plan))
    counter = next(c for c in boot.roles.by_panel["contention"] if c.role == "taken")

    def hour(first, count):
        for n in range(first, first + count):
            time = boot._start + int(n * WIDTH * boot.hz)
            rows = [[2, 3, cpu, counter.id, 1000 * n] for cpu in (0, 1)]
            boot.take(Record("sample", 0, n, time, rows, 0, 0))

    hour(100, 3 * WINDOW)
    tracemalloc.start()
    hour(100 + 3 * WINDOW, WINDOW)
    before = tracemalloc.get_traced_memory()[0]
    hour(100 + 4 * WINDOW, 10 * WINDOW)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 100_000
    assert len(boot.contention(0)[0]) <= WINDOW


def test_absurd_instances_are_not_kept_without_end():
    boot = boot_of(synth.capture(synth.plan_for("A", rounds=1)))
    counter = next(c for c in boot.roles.by_panel["contention"] if c.role == "taken")
    rows = [[2, 10**9 + n, 0, counter.id, 1] for n in range(KEYS_MOST + 5000)]
    boot.take(Record("sample", 0, 9, boot._start + 10**11, rows, 0, 0))
    assert len(boot._values) <= KEYS_MOST


def test_samples_without_a_hello_or_a_schema_are_survived():
    boot = BootState()
    boot.take(Record("sample", 0, 0, 5, [[2, 0, 0, 31, 5]], 0, 0))
    boot.take(Fault("gap", 0, 0, 5, 0, 3))
    boot.take(Record("bench", 255, 0, 6, {"phase": "begin", "test": 7, "round": 0}, 0, 0))
    boot.take(Record("bench", 255, 1, 7, {"phase": "result", "test": 7, "round": 0, "operations": 0,
                                          "cycles": 1}, 0, 0))
    assert boot.figures() == {}
    assert boot.test == "test 7"
    assert boot.lost == 3


def read_all(feed):
    for _ in range(1000):
        feed.poll()
        if feed.ended:
            return feed.state
    raise AssertionError("the feed never ended")


def test_a_run_grows_pair_by_pair(tmp_path):
    run = tmp_path / "run"
    plans = {arm: synth.plan_for(arm, rounds=1, noise=0.0) for arm in "AB"}
    order = synth.begin_run(run, plans, 3)["order"]
    feed = RunFeed(run)
    feed.poll()
    assert feed.state.current is None
    assert feed.state.where() == "waiting for the first boot"
    seen = []
    for entry in order:
        synth.run_boot(run, entry, plans[entry["arm"]])
        feed.poll()
        dots = feed.state.dots("malloc/64/all-cpus")
        seen.append((len(dots.get("A", ())), len(dots.get("B", ()))))
        assert feed.state.current.id == entry["id"]
    assert seen == [(1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (3, 3)]
    assert feed.state.over("malloc/64/all-cpus")["B"] == pytest.approx(900 / 107, rel=1e-3)
    assert not feed.ended
    described = json.loads((run / "run.json").read_text())
    synth.write_json(run / "run.json", {**described, "state": "done"})
    read_all(feed)
    assert feed.ended


def test_a_view_that_joins_late_shows_every_boot_and_no_failed_one(tmp_path):
    run = tmp_path / "run"
    plans = {arm: synth.plan_for(arm, rounds=1) for arm in "AB"}
    order = synth.begin_run(run, plans, 2)["order"]
    for entry in order:
        synth.run_boot(run, entry, plans[entry["arm"]], outcome="not parallel"
                       if entry["id"] == "02-B" else "ok")
    for entry in order[2:]:  # the whole pair again
        synth.run_boot(run, {**entry, "id": entry["id"] + ".2", "attempt": 2}, plans[entry["arm"]])
    described = json.loads((run / "run.json").read_text())
    synth.write_json(run / "run.json", {**described, "state": "done"})
    state = read_all(RunFeed(run))
    assert list(state.boots) == ["01-A", "01-B", "02-B", "02-A", "02-B.2", "02-A.2"]
    assert {arm: len(values) for arm, values in state.dots("malloc/64/solo").items()} == {"A": 2,
                                                                                          "B": 2}
    assert state.current.place == 4


@pytest.mark.parametrize("content", ["", "[]", "{", '{"arms": 3}',
                                     '{"order": [1, {}], "arms": null, "machine": 5}'])
def test_a_broken_run_file_is_survived(tmp_path, content):
    run = tmp_path / "run"
    (run / "boots" / "01-A").mkdir(parents=True)
    (run / "run.json").write_text(content)
    (run / "boots" / "01-A" / "boot.json").write_text(content)
    (run / "boots" / "01-A" / "telemetry.bin").write_bytes(synth.capture(synth.plan_for("A",
                                                                                        rounds=1)))
    feed = RunFeed(run)
    for _ in range(3):
        feed.poll()
    assert feed.state.current.id == "01-A"
    assert feed.state.current.records > 100


def test_a_shared_line_is_followed_in_the_console(tmp_path):
    run, plan = tmp_path / "run", synth.plan_for("A", rounds=1, args="telemetry.port=com1")
    entry = synth.begin_run(run, {"A": plan}, 1)["order"][0]
    synth.run_boot(run, entry, plan)
    boot = run / "boots" / entry["id"]
    (boot / "console.log").write_bytes(b"text\r\n" + (boot / "telemetry.bin").read_bytes() +
                                       b"more\r\n")
    (boot / "telemetry.bin").unlink()
    feed = RunFeed(run)
    feed.poll()
    assert feed.state.current.outcome == "ok"
    assert feed.state.current.damaged == 0


def test_replay_keeps_the_pace_of_the_kernels_clock(tmp_path, monkeypatch):
    run = tmp_path / "run"
    synth.write_run(run, {"A": synth.plan_for("A", **LONG)}, pairs=1)
    now = [100.0]
    monkeypatch.setattr("telemetry.live.feed.time.monotonic", lambda: now[0])
    feed = BootFeed(run / "boots" / "01-A", speed=2.0)
    feed.poll()
    seen = []
    for _ in range(60):
        now[0] += 0.5
        feed.poll()
        seen.append(feed.boot.now)
        if feed.ended:
            break
    assert feed.ended
    assert feed.boot.outcome == "ok"
    assert all(later - before <= 2.6 for before, later in zip(seen, seen[1:]))
    assert seen[3] == pytest.approx(2.0 * 2.0, abs=2.1)
    assert len(seen) == pytest.approx(seen[-1], abs=3)  # half a second each, at twice the pace


def test_replay_at_no_pace_is_at_once(tmp_path):
    run = tmp_path / "run"
    synth.write_run(run, {"A": synth.plan_for("A", **LONG)}, pairs=1)
    feed = BootFeed(run / "boots" / "01-A", speed=0)
    read_all(feed)
    assert feed.boot.outcome == "ok"


class Line:
    """A serial port that gives what it is told to."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def read(self, _):
        return self.pieces.pop(0) if self.pieces else b""


def test_a_serial_line_that_is_joined_in_the_middle_and_boots_again():
    first = synth.capture(synth.plan_for("A", rounds=1))
    second = synth.capture(synth.plan_for("A", rounds=1, start=5_000_000))
    feed = SerialFeed(Line(first[8000:12000], first[12000:], b"GRUB\r\n" + second[:5000],
                           second[5000:]), "ttyS9")
    for _ in range(5):
        feed.poll()
    assert list(feed.state.boots) == ["boot 1", "boot 2"]
    assert feed.state.current.id == "boot 2"
    assert feed.state.current.outcome == "ok"
    assert feed.state.current.lost == 0


def test_no_arms_and_no_boots_are_no_error():
    state = RunState()
    assert state.tests(5) == []
    assert state.dots("x") == {}
    assert state.over("x") == {}
    assert state.where() == "waiting for the first boot"
