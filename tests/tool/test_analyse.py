"""A run's folder to results.json: the schema that other tools read, and what every oddity of a run does to it."""

import dataclasses
import json
import math
import random
import shutil

import pytest
import synth
from telemetry import analyse, calibrate, digest, limits, outcome, tally
from telemetry.errors import HayloftError

VERDICTS = {"faster", "slower", "no difference", "undecided", "unreliable", "refused", "none"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    synth.write_run(folder, pairs=6)
    return folder


@pytest.fixture
def run(archive, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(archive, tmp_path / "run")


def twin_of(boot, name):
    """Another boot that came out alike; its bytes differ by a zero that delimits nothing, or it would be a copy."""
    twin = shutil.copytree(boot, boot.with_name(name))
    with open(twin / "telemetry.bin", "ab") as bytes_:
        bytes_.write(b"\0")
    return twin


def edit(path, **changes):
    value = json.loads(path.read_text())
    value.update(changes)
    path.write_text(json.dumps(value))


def entry(results, name, **where):
    found = [e for e in results["tests"] if e["name"] == name and all(e[k] == v for k, v in where.items())]
    assert len(found) == 1
    return found[0]


def test_schema_as_documented(archive):
    results = analyse.analyse_run(archive)
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert (results["schema"], results["experiment"], results["reference"]) == (1, "synthetic", "A")
    assert {"machine", "warnings", "boots", "skipped", "tests", "counters", "locks", "expectations"} <= set(results)
    assert [boot["id"] for boot in results["boots"]][:3] == ["01-A", "01-B", "02-B"]
    for boot in results["boots"]:
        assert {"id", "arm", "point", "outcome", "lost"} <= set(boot) and boot["used"]
    for test in results["tests"]:
        assert {"name", "point", "unit", "arms", "versus"} <= set(test)
        for arm in test["arms"].values():
            assert len(arm["boots"]) == 6 and isinstance(arm["median"], float)
        versus = test["versus"]["B"]
        assert {"ratio", "interval", "level", "p", "verdict"} <= set(versus)
        assert versus["verdict"] in VERDICTS and len(versus["interval"]) == 2


def test_verdicts(archive):
    results = analyse.analyse_run(archive)
    verdicts = {test["name"]: test["versus"]["B"]["verdict"] for test in results["tests"]}
    assert verdicts == {"malloc/64/solo": "no difference", "malloc/64/all-cpus": "faster",
                        "malloc/4096/solo": "no difference", "malloc/4096/all-cpus": "faster"}
    assert entry(results, "malloc/64/all-cpus")["versus"]["B"]["ratio"] == pytest.approx(107 / 900, rel=0.1)


def test_counters_sum_over_caches_and_tests_and_the_sum_comes_last(archive):
    results = analyse.analyse_run(archive)
    by_name = {}
    for counter in results["counters"]:
        by_name.setdefault(counter["name"], []).append(counter)
    assert by_name
    for entries in by_name.values():
        assert (entries[-1]["test"], entries[-1]["cache"]) == (None, None)
        keys = [(e["test"], e["cache"]) for e in entries]
        assert len(set(keys)) == len(keys)
        for arm in ("A", "B"):
            sums = [e["arms"][arm]["median"] for e in entries if e["test"] and e["cache"] is None]
            # Medians do not add up exactly; one boot's values do (test_one_boot_adds_up).
            assert entries[-1]["arms"][arm]["median"] == pytest.approx(sum(sums), rel=0.1, abs=1)


def test_one_boot_adds_up(archive):
    digest = json.loads(json.dumps(analyse.digest.digest_boot(archive / "boots" / "01-A")))
    schema = {about["name"]: about for about in digest["counters"]}
    found = tally.BootTally(digest, schema)
    total = found.values["alloc_slow", None, None]
    assert total == sum(r["operations"] for t in digest["tests"] for r in t["rounds"])
    assert found.values["allocs", None, None] == total  # derived: alloc_fast is 0 here
    assert found.values["page_churn", None, None] == 2 * found.values["page_alloc", None, None]
    acquisitions = [row["acquisitions"] for row in found.locks["cache", None].values()]
    assert sum(acquisitions) == 2 * total


def test_what_goes_by_time_is_not_changed_by_an_arm_that_is_faster():
    """Its sum moves by chance, and its figure for one operation by as much as the arm is faster."""
    def boots(operations, slow):
        made = []
        for pair, records in enumerate((76, 74, 75, 77, 73, 76), 1):
            one = tally.BootTally.__new__(tally.BootTally)
            one.operations = {"t": operations + pair, None: operations + pair}
            one.values = {(name, test, None): value for test in ("t", None)
                          for name, value in (("records", records - (operations > 10**6)), ("slow", slow + pair))}
            one.incomplete = False
            made.append((pair, one))
        return made

    about = {"unit": "ops", "kind": "sum"}
    arms = {"A": boots(10**6, 10**6), "B": boots(5 * 10**6, 10**5)}
    found = tally.counters([tally.Point({}, arms)], "A", {"records": about, "slow": about}, tally.verdict.Rules())
    of = {entry["name"]: entry["versus"]["B"] for entry in found if entry["test"] is None}
    assert of["records"]["change"] < -tally.SMALL_CHANGE and of["records"]["per_op_change"] < -0.7
    assert of["records"]["verdict"] == "undecided" and of["records"]["p"] > 0.05
    assert of["slow"]["verdict"] == "changed"


def mixed_boots(rng, operations, per_operation, by_time):
    made = []
    for pair in range(1, 7):
        one = tally.BootTally.__new__(tally.BootTally)
        done = int(operations * rng.uniform(0.98, 1.02))
        one.operations = {"t": done, None: done}
        one.values = {("ticks", test, None): round(per_operation * done + by_time * rng.uniform(0.98, 1.02)) for test in ("t", None)}
        one.incomplete = False
        made.append((pair, one))
    return made


@pytest.mark.parametrize("per_operation, verdict", [(1.0, "undecided"), (3.0, "changed")])
def test_a_counter_that_goes_by_operations_and_by_time_is_not_changed_by_speed(per_operation, verdict):
    """Its sum rises and its figure an operation falls, both by far more than chance."""
    rng = random.Random(4)
    arms = {"A": mixed_boots(rng, 10**6, 1.0, 10**6), "B": mixed_boots(rng, 3 * 10**6, per_operation, 10**6)}
    about = {"ticks": {"unit": "ops", "kind": "sum"}}
    for entry in tally.counters([tally.Point({}, arms)], "A", about, tally.verdict.Rules()):
        assert entry["versus"]["B"]["p"] <= 0.05 and entry["versus"]["B"]["change"] > 0.5
        assert entry["versus"]["B"]["verdict"] == verdict


def test_change_is_null_from_nothing(archive):
    results = analyse.analyse_run(archive)
    fast = [c for c in results["counters"] if c["name"] == "alloc_fast" and c["test"] is None][0]
    assert fast["arms"]["A"]["median"] == 0 and fast["versus"]["B"]["change"] is None
    assert fast["versus"]["B"]["verdict"] == "changed"


def test_locks_by_class_with_the_sum_last(archive):
    results = analyse.analyse_run(archive)
    cache = [lock for lock in results["locks"] if lock["name"] == "cache"]
    assert cache[-1]["test"] is None and all(lock["test"] for lock in cache[:-1])
    hot = next(lock for lock in cache if lock["test"] == "malloc/64/all-cpus")
    assert hot["arms"]["A"]["contended_share"] == pytest.approx(0.6, abs=0.01)
    assert hot["arms"]["B"]["contended_share"] == pytest.approx(0.01, abs=0.005)
    assert set(hot["owners"]) == {"kmalloc-64"}


def test_the_same_results_from_the_raw_bytes_alone(run):
    first = analyse.analyse_run(run)
    for boot in (run / "boots").iterdir():
        (boot / "result.json").write_text(json.dumps(analyse.digest.digest_boot(boot)))
    assert analyse.analyse_run(run) == first
    for boot in (run / "boots").iterdir():
        kept = json.loads((boot / "result.json").read_text()) | {"tests": [], "counters": []}
        (boot / "result.json").write_text(json.dumps(kept))
    assert analyse.analyse_run(run) != first  # a kept digest is believed ...
    assert analyse.analyse_run(run, rebuild=True) == first  # ... unless told to look at the bytes


def test_damaged_result_files_are_worked_out_again(run):
    first = analyse.analyse_run(run)
    (run / "boots" / "01-A" / "result.json").write_text("{ not json")
    assert analyse.analyse_run(run) == first


def test_boots_that_failed_are_kept_and_shown_but_do_not_count(run):
    boot = run / "boots" / "02-B"
    edit(boot / "boot.json", outcome="panic", reason="planted")
    results = analyse.analyse_run(run)
    found = {b["id"]: b for b in results["boots"]}
    assert not found["02-B"]["used"] and found["02-B"]["reason"] == "planted"
    assert len(entry(results, "malloc/64/solo")["arms"]["B"]["boots"]) == 5
    assert any(w["kind"] == "failed boots" and "1 panic" in w["text"] for w in results["warnings"])


def test_a_pair_booted_again_counts_once(run):
    """02-B failed, so both of the pair were booted again: the first 02-A is not counted twice."""
    edit(run / "boots" / "02-B" / "boot.json", outcome="hang", reason="silent")
    for name in ("02-A", "02-B"):
        again = twin_of(run / "boots" / name, f"{name}.2")
        edit(again / "boot.json", id=f"{name}.2", attempt=2, outcome="ok", reason="")
    results = analyse.analyse_run(run)
    used = {b["id"] for b in results["boots"] if b["used"]}
    assert "02-A" not in used and {"02-A.2", "02-B.2"} <= used and len(used) == 12


def test_an_ok_whose_bytes_say_otherwise_does_not_count(run):
    capture = run / "boots" / "03-A" / "telemetry.bin"
    capture.write_bytes(capture.read_bytes()[:-60])
    results = analyse.analyse_run(run)
    assert {b["id"]: b["outcome"] for b in results["boots"]}["03-A"] == "incomplete"


def test_an_arm_that_keeps_failing_is_unreliable(run):
    for pair in (2, 3, 4):
        edit(run / "boots" / f"{pair:02}-B" / "boot.json", outcome="panic", reason="planted")
    results = analyse.analyse_run(run)
    assert {t["versus"]["B"]["verdict"] for t in results["tests"]} == {"unreliable"}


def test_void_boots_do_not_make_an_arm_unreliable(run):
    for pair in (2, 3, 4):
        edit(run / "boots" / f"{pair:02}-B" / "boot.json", outcome="not parallel", reason="neighbour")
    results = analyse.analyse_run(run)
    assert "unreliable" not in {t["versus"]["B"]["verdict"] for t in results["tests"]}


def with_tests(names, arm_b=1.0, **changes):
    tests = tuple(synth.Test(name, 100, 1) for name in names)
    a = synth.Plan(tests=tests, args=synth.ARM_A, **changes)
    faster = tuple(dataclasses.replace(test, ns=test.ns * arm_b) for test in tests)
    return {"A": a, "B": dataclasses.replace(a, tests=faster, args=synth.ARM_B)}


def test_tcg_refuses_what_it_cannot_show(tmp_path):
    synth.write_run(tmp_path / "run", with_tests(["cas/16", "malloc/64/solo"], 0.3, rounds=1))
    results = analyse.analyse_run(tmp_path / "run")
    assert entry(results, "cas/16")["versus"]["B"]["verdict"] == "refused"
    assert entry(results, "malloc/64/solo")["versus"]["B"]["verdict"] == "faster"
    machine = json.loads((tmp_path / "run" / "run.json").read_text())["machine"]
    edit(tmp_path / "run" / "run.json", machine={**machine, "kind": "kvm"})
    results = analyse.analyse_run(tmp_path / "run")
    assert entry(results, "cas/16")["versus"]["B"]["verdict"] == "faster"


@pytest.mark.parametrize(
    "machine, test, shape, knobs, refused",
    [
        ("tcg", "cas/8/cold", "solo", [], True), ("tcg", "irq/save-restore", "solo", [], True),
        ("icount", "preempt", "solo", [], True), ("host", "cas/8", "solo", [], False),
        ("tcg", "wq-pingpong", "", [{"idle": "hlt"}, {"idle": "poll"}], True),
        ("tcg", "wq-pingpong", "", [{"idle": "poll"}, {"idle": "poll"}], False),
        ("icount", "malloc/64/all-cpus", "all-cpus", [], True), ("icount", "malloc/64/solo", "solo", [], False),
        ("tcg", "malloc/64/all-cpus", "all-cpus", [], False),
    ],
)
def test_limits(machine, test, shape, knobs, refused):
    assert bool(limits.refused(machine, test, shape, knobs)) is refused


def test_icount_is_exact(tmp_path):
    synth.write_run(tmp_path / "run", with_tests(["malloc/64/solo", "malloc/4096/all-cpus"], 0.7, rounds=1, noise=0.0),
                    pairs=1)
    machine = json.loads((tmp_path / "run" / "run.json").read_text())["machine"]
    edit(tmp_path / "run" / "run.json", machine={**machine, "kind": "icount"})
    results = analyse.analyse_run(tmp_path / "run")
    solo = entry(results, "malloc/64/solo")
    assert solo["unit"] == "instructions/op" and solo["versus"]["B"]["p"] is None
    assert solo["versus"]["B"]["verdict"] == "faster"
    assert solo["versus"]["B"]["difference"] == pytest.approx(-60, abs=0.5)  # of 200 ticks an operation
    assert entry(results, "malloc/4096/all-cpus")["versus"]["B"]["verdict"] == "refused"


def test_alike_arms_get_no_verdict(tmp_path):
    plan = synth.plan_for("A", noise=0.05)
    synth.write_run(tmp_path / "run", {"A": plan, "B": plan}, pairs=6)
    results = analyse.analyse_run(tmp_path / "run")
    assert {t["versus"]["B"]["verdict"] for t in results["tests"]} <= {"no difference", "undecided"}


def test_two_pairs_decide_nothing(tmp_path):
    synth.write_run(tmp_path / "run", pairs=2)
    results = analyse.analyse_run(tmp_path / "run")
    assert {t["versus"]["B"]["verdict"] for t in results["tests"]} == {"undecided"}
    assert all(t["versus"]["B"]["pairs_needed"] >= 4 for t in results["tests"])
    assert any(w["kind"] == "few pairs" for w in results["warnings"])


def test_three_arms_and_two_points(tmp_path):
    plans = {"A": synth.plan_for("A"), "B": synth.plan_for("B"), "C": synth.plan_for("A")}
    synth.write_run(tmp_path / "one", plans, pairs=6)
    results = analyse.analyse_run(tmp_path / "one")
    hot = entry(results, "malloc/64/all-cpus")["versus"]
    assert hot["B"]["verdict"] == "faster" and hot["C"]["verdict"] in ("no difference", "undecided")
    for boot in list((tmp_path / "one" / "boots").iterdir()):  # the same boots again, as a second point
        twin = twin_of(boot, boot.name + "-p2")
        edit(twin / "boot.json", id=twin.name, point={"machine.cpus": 4})
        edit(boot / "boot.json", point={"machine.cpus": 2})
    order = json.loads((tmp_path / "one" / "run.json").read_text())["order"]
    edit(tmp_path / "one" / "run.json", points=[{"machine.cpus": 2}, {"machine.cpus": 4}],
         order=[{**entry, "id": entry["id"] + suffix, "point": {"machine.cpus": cpus}}
                for suffix, cpus in (("", 2), ("-p2", 4)) for entry in order])
    results = analyse.analyse_run(tmp_path / "one")
    for cpus in (2, 4):
        assert entry(results, "malloc/64/all-cpus", point={"machine.cpus": cpus})["versus"]["B"]["verdict"] == "faster"


def test_an_interrupted_run_has_results(tmp_path):
    plans = {"A": synth.plan_for("A"), "B": synth.plan_for("B")}
    description = synth.begin_run(tmp_path / "run", plans, 6)
    assert analyse.analyse_run(tmp_path / "run")["tests"] == []
    synth.run_boot(tmp_path / "run", description["order"][0], plans["A"])
    results = analyse.analyse_run(tmp_path / "run")
    assert {t["versus"]["B"]["verdict"] for t in results["tests"]} == {"none"}
    assert any(w["kind"] == "unfinished" for w in results["warnings"])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}', '{"experiment": "x"}'])
def test_a_spoilt_run_is_one_line(run, text):
    (run / "run.json").write_text(text)
    with pytest.raises(HayloftError) as failure:
        analyse.analyse_run(run)
    assert "run.json" in str(failure.value) and "\n" not in str(failure.value)


def test_expectations_of_the_archived_file(run):
    with open(run / "experiment.toml", "a") as file:
        file.write('\n[expect]\n"test:malloc/64/all-cpus" = "B < 0.5 * A"\n"lock:cache.contended_share" = "A < B"\n')
    held = {e["test"]: e["held"] for e in analyse.analyse_run(run)["expectations"]}
    assert held == {"test:malloc/64/all-cpus": True, "lock:cache.contended_share": False}


def kinds(run):
    return {warning["kind"] for warning in analyse.analyse_run(run)["warnings"]}


def test_warnings_are_values(run):
    assert kinds(run) == {"machine", "not calibrated"}
    for boot in (run / "boots").iterdir():
        edit(boot / "boot.json", host={"load": [7.0, 1, 1], "steal": 0.2})
    edit(run / "boots" / "01-B" / "boot.json", image="1" * 64)
    machine = json.loads((run / "run.json").read_text())["machine"]
    edit(run / "run.json", machine={**machine, "over_committed": True}, warnings=["order: odd"])
    assert kinds(run) >= {"host load", "steal", "images differ", "over-committed", "order"}


def test_lost_samples_are_said(tmp_path):
    plans = {"A": synth.plan_for("A", drop=frozenset({3})), "B": synth.plan_for("B")}
    synth.write_run(tmp_path / "run", plans, pairs=4)
    assert "lost samples" in kinds(tmp_path / "run")


# -- calibration ----------------------------------------------------------------------------------


def test_noise_is_what_halves_differ_by():
    assert calibrate.noise_of([100.0] * 5) is None
    assert calibrate.noise_of([100.0] * 12)["noise"] == 0
    wild = calibrate.noise_of([100.0, 150.0] * 6)
    assert 0.1 < wild["noise"] <= 1.14 * math.log(1.5)
    entry = {"t": {"noise": 0.1, "pairs": 6, "boots": 12}}
    assert calibrate.noise_for(entry, "t", 6) == pytest.approx(0.1)
    assert calibrate.noise_for(entry, "t", 3) == pytest.approx(0.1 * math.sqrt(2))
    assert calibrate.noise_for(entry, "t", 30) == pytest.approx(0.1)
    assert math.isnan(calibrate.noise_for(entry, "other", 6))


def test_calibration_travels_with_a_run(tmp_path):
    plan = synth.plan_for("A", noise=0.2)
    synth.write_run(tmp_path / "aa", {"A": plan, "B": plan}, pairs=6)
    run = json.loads((tmp_path / "aa" / "run.json").read_text())
    learnt = calibrate.learn(run, analyse.analyse_run(tmp_path / "aa"), tmp_path / "state.json")
    assert set(learnt) == {test.name for test in plan.tests}
    ab = tmp_path / "ab"
    synth.write_run(ab, pairs=6)
    before = analyse.analyse_run(ab)
    calibrate.keep_copy(ab, json.loads((ab / "run.json").read_text()), tmp_path / "state.json")
    after = analyse.analyse_run(ab)
    assert not entry(before, "malloc/64/solo")["versus"]["B"]["calibrated"]
    assert entry(after, "malloc/64/solo")["versus"]["B"]["calibrated"]
    assert "not calibrated" not in {w["kind"] for w in after["warnings"]}
    assert entry(after, "malloc/64/solo")["versus"]["B"]["threshold"] >= 1.2


def test_calibration_refuses_arms_that_differ(archive, tmp_path):
    with pytest.raises(HayloftError):
        calibrate.from_results(analyse.analyse_run(archive))
    (tmp_path / "state.json").write_text("[]")
    with pytest.raises(HayloftError):
        calibrate.load(tmp_path / "state.json")


def test_boots_that_are_gone_are_told(run):
    assert not [w for w in analyse.analyse_run(run)["warnings"] if w["kind"] == "missing boots"]
    for boot in ("02-B", "03-A"):
        (run / "boots" / boot / "boot.json").unlink()
    assert [w["text"] for w in analyse.analyse_run(run)["warnings"] if w["kind"] == "missing boots"] == [
        "2 of 12 boots have no boot.json and are not in these results: 02-B, 03-A"]
    for boot in ("06-A", "06-B"):
        (run / "boots" / boot / "boot.json").unlink()
    edit(run / "run.json", looks=[4, 5, 6])  # decided at the second
    assert "2 of 12 boots" in next(w["text"] for w in analyse.analyse_run(run)["warnings"] if w["kind"] == "missing boots")
    edit(run / "run.json", state="interrupted", looks=None)
    assert [w["kind"] for w in analyse.analyse_run(run)["warnings"] if "boots" in w["kind"] or w["kind"] == "unfinished"] == [
        "unfinished"]


def test_noise_is_calibrated_for_the_way_of_measuring_and_test_by_test(run, tmp_path):
    """Another memory, length of rounds or kernel has another noise; one calibrated test does not speak for the others."""
    here = json.loads((run / "run.json").read_text())
    here["arm_images"], here["order"][0]["args"] = {"A": "a" * 64}, "kbench=12 kbench.ms=50 front=none"
    (run / "run.json").write_text(json.dumps(here))
    names = [test["name"] for test in analyse.analyse_run(run)["tests"]]
    noise = {"noise": 0.02, "pairs": 6, "boots": 12, "date": "2026-11-30"}
    calibrate.save(tmp_path / "state.json", {calibrate.machine_key(here): {name: noise for name in names[:-1]}})
    calibrate.keep_copy(run, here, tmp_path / "state.json")
    results = analyse.analyse_run(run)
    assert [w["text"] for w in results["warnings"] if w["kind"] == "not calibrated"] == [
        f"noise was calibrated (on 2026-11-30) for other tests, not for {names[-1]}, so only the minimum effect guards against it "
        "there"]
    assert results["calibrated"][names[0]] == "2026-11-30"
    keys = {calibrate.machine_key(here)}
    for change in ({"machine": here["machine"] | {"memory": "1G"}}, {"machine": here["machine"] | {"topology": "cores=2"}},
                   {"pace": "ignore"}, {"arm_images": {"A": "b" * 64}}, {"order": [{"args": "kbench=5"}]}):
        other = here | change
        keys.add(calibrate.machine_key(other))
        assert calibrate.of_run(run, other) == {}
        assert "; it was with " in calibrate.told(run, other, names)
    assert len(keys) == 6


def test_a_copy_of_an_older_tool_is_still_what_its_run_was_judged_by(run):
    here = json.loads((run / "run.json").read_text())
    calibrate.save(run / calibrate.COPY, {calibrate.hardware(here): {"malloc/64/solo": {"noise": 0.5, "pairs": 6, "boots": 12}}})
    assert entry(analyse.analyse_run(run), "malloc/64/solo")["versus"]["B"]["threshold"] == pytest.approx(math.exp(0.5))


# -- what was left out ----------------------------------------------------------------------------

MEMORY = {"name": "attic", "unit": "KiB", "amount": 100, "of": 5000, "doc": "what lay in the attic", "detail": "in boxes"}


def test_what_was_left_out_is_told_by_arm(tmp_path):
    plans = {"A": synth.plan_for("A", rounds=1, left_out=()), "B": synth.plan_for("B", rounds=1, left_out=(MEMORY,))}
    synth.write_run(tmp_path / "run", plans, pairs=2)
    results = analyse.analyse_run(tmp_path / "run")
    assert results["left_out"] == [{
        "name": "attic", "unit": "KiB", "doc": "what lay in the attic", "voids": False, "point": {},
        "arms": {"B": {"boots": 2, "amount": 100, "of": 5000, "detail": "in boxes"}}}]
    text, = [entry["text"] for entry in results["warnings"] if entry["kind"] == "left out"]
    assert "what lay in the attic (B 100 of 5,000 KiB in 2 boots)" in text and "did not have the same machine" in text


def test_left_out_alike_in_all_arms_is_told_and_not_held_against_them(tmp_path):
    plans = {arm: synth.plan_for(arm, rounds=1, left_out=(MEMORY,)) for arm in "AB"}
    synth.write_run(tmp_path / "run", plans, pairs=2)
    results = analyse.analyse_run(tmp_path / "run")
    assert set(results["left_out"][0]["arms"]) == {"A", "B"}
    text, = [entry["text"] for entry in results["warnings"] if entry["kind"] == "left out"]
    assert "same machine" not in text


def test_a_void_boot_tells_what_made_it_void(tmp_path):
    """The run's own judgement is in boot.json; what is told of it here comes from the bytes."""
    beds = {"name": "beds", "unit": "beds", "amount": 4, "doc": "beds without a number", "voids": True}
    plans = {"A": synth.plan_for("A", rounds=1), "B": synth.plan_for("B", rounds=1, left_out_later=(beds,), left_out=())}
    synth.write_run(tmp_path / "run", plans, pairs=2)
    for boot in (tmp_path / "run" / "boots").glob("*-B"):
        facts = digest.digest_boot(boot)
        found, reason = outcome.classify(33, False, facts)
        edit(boot / "boot.json", outcome=found, reason=reason)
    results = analyse.analyse_run(tmp_path / "run")
    assert results["left_out"][0]["arms"]["B"]["boots"] == 2 and results["left_out"][0]["voids"]
    for boot in results["boots"]:
        assert boot["used"] == (boot["arm"] == "A")
        assert boot["arm"] == "A" or (boot["outcome"], boot["reason"]) == ("left out", "4 beds: beds without a number")
    assert any("such boots do not count" in entry["text"] for entry in results["warnings"])


def test_a_run_of_older_kernels_is_read_as_before(archive, run):
    """Neither its bytes nor a result.json that an older tool wrote tell of anything left out."""
    for boot in (run / "boots").iterdir():
        facts = digest.digest_boot(boot)
        del facts["left_out"]
        (boot / "result.json").write_text(json.dumps(facts))
    results = analyse.analyse_run(run)
    assert results["left_out"] == [] and not [entry for entry in results["warnings"] if entry["kind"] == "left out"]
    assert results == analyse.analyse_run(archive)
