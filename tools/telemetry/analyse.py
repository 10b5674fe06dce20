"""A run's folder in, results.json out: which arm won, by how much, how sure, and what to distrust.

The boots that count: for each pair the attempt at which the most arms booted well, and in it the boots
with outcome ok; all others are kept in the list of boots with used = false and a reason. One value a boot
and test (the geometric mean of its rounds) goes into the verdicts; the tests of all axis points are one family,
and so are the counters. The machine's changing pace is taken out of it where rounds carry a yardstick (pace.py), and so
is a changed distance between CPUs (distance.py). Everything that limits what the numbers mean becomes a warning, a value with a kind
and a text.

The same folder always gives the same results: nothing here looks at the machine it runs on, and the seed
of drawn labellings is the run's own. rebuild digests the raw bytes again; else a boot's result.json is
believed.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

import numpy as np

from . import (
    bound, calibrate, checks, digest, distance, distrust, expect, figures, leftout, levels, limits, observed, pace, readings,
    settle, shortage, tally, units, verdict,
)
from .errors import HayloftError
from .experiment import published_rows
from .outcome import FOREIGN, GUEST_FAULTS, INCOMPLETE, NOT_PARALLEL, OK

SCHEMA = 1
PARALLEL_DIGESTS = 8  # boots to digest from which more than one process is worth its start


def analyse_run(run_dir: Path, rebuild: bool = False) -> dict:
    run_dir = Path(run_dir)
    run = _read(run_dir / "run.json", "without it the run cannot be analysed")
    experiment = _experiment(run_dir)
    boots = _boots(run_dir, run, rebuild)
    _choose(boots, list(run["arms"]))
    points = run.get("points") or [{}]
    kind = (run.get("machine") or {}).get("kind") or "tcg"
    rules = _rules(run, experiment)
    calibration = calibrate.of_run(run_dir, run)
    results = {
        "schema": SCHEMA,
        "experiment": run["experiment"],
        "title": run.get("title") or run["experiment"],
        "created": run.get("created"),
        "state": run.get("state"),
        "reference": run["reference"],
        "arms": run["arms"],
        "boot": experiment.get("boot") or "",
        "settings": run.get("settings") or {},
        "points": points,
        "pairs": run.get("pairs"),
        "minimum_effect": rules.minimum_effect,
        "scheme": rules.scheme,
        "looks": list(rules.looks) or None,
        "published": run.get("published"),
        "published_result": _published(run.get("published")),
        "git": run.get("git"),
        "tool": run.get("tool"),
        "qemu": run.get("qemu"),
        "host": run.get("host"),
        "machine": _machine(run, boots),
        "warnings": [],
        "boots": [_boot_entry(boot) for boot in boots],
        "skipped": _skipped(run, boots),
        "left_out": leftout.of_run(boots, list(run["arms"]), points),
        "tests": [],
        "figures": [],
        "counters": [],
        "locks": [],
        "footprint": [],
        "overhead": [],
        "latency": [],
        "matrix": [],
        "barn": [],
        "expectations": [],
    }
    schema = _schema(boots)
    results["schema_counters"] = [
        {key: about.get(key) for key in ("name", "unit", "kind", "scope", "doc", "formula")}
        for about in schema.values()
    ]
    places = [_describe_point(results, point, boots, run, kind, schema) for point in points]
    _judge(places, run, kind, rules, calibration)
    results["counters"] = tally.counters([place.tallies for place in places], run["reference"], schema, rules)
    for place in places:
        if not results["barn"]:  # of the first point that has one
            results["barn"] = levels.barn(run_dir, place.used, place.point, schema)

    def boots_of(kind_, name, field_, test, point):
        place = next(place for place in places if place.point == point)
        return tally.boots_of(place.tallies, schema, kind_, name, field_, test)

    results["expectations"] = _expectations(experiment, results, boots_of)
    results["warnings"] = distrust.collect(run, results, boots, kind, calibrate.told(run_dir, run, [test["name"] for test in results["tests"]]))
    results["warnings"] += leftout.warnings(results["left_out"], list(run["arms"]))
    results["calibrated"] = {name: entry.get("date") for name, entry in calibration.items()}
    return _no_nan(results)


def _expectations(experiment: dict, results: dict, boots_of) -> list[dict]:
    """In the file's order, whether they can be judged here or not."""
    rules = experiment.get("expect") or {}
    judged, untold = checks.told(rules, results, [*(experiment.get("arms") or results["arms"])], boots_of)
    order = {key: place for place, key in enumerate(rules)}
    return sorted([*expect.evaluate(judged, results, boots_of), *untold], key=lambda entry: order[entry["test"]])


# -- reading --------------------------------------------------------------------------------------


def _read(path: Path, what: str) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HayloftError(f"{path}: missing; {what}") from error
    except (OSError, ValueError) as error:
        raise HayloftError(f"{path}: cannot be read ({error}); {what}") from error
    if not isinstance(value, dict):
        raise HayloftError(f"{path}: holds no JSON object; {what}")
    return value


def _experiment(run_dir: Path) -> dict:
    path = run_dir / "experiment.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HayloftError(f"{path}: cannot be read ({error}); the run's own copy is needed") from error


def _boots(run_dir: Path, run: dict, rebuild: bool) -> list[dict]:
    """Every finished boot as {about: boot.json, digest, used, note}, in the order drawn."""
    for key in ("experiment", "arms", "reference", "order"):
        if key not in run:
            raise HayloftError(f"{run_dir}/run.json: no '{key}' in it; the file was changed or cut off")
    folders = sorted(path for path in (run_dir / "boots").glob("*") if (path / "boot.json").is_file())
    abouts = [_about(folder, run) for folder in folders]
    digests = _digests(folders, rebuild)
    filed = {folder.name: (about, facts) for folder, about, facts in zip(folders, abouts, digests)}
    foreign, changed = bound.faults(run, filed), bound.changed(filed)
    boots = []
    for name, (about, facts) in filed.items():
        boot = {"about": about, "digest": facts, "used": False, "note": about.get("reason") or "", "changed": name in changed}
        if name in foreign and about.get("outcome") != FOREIGN:
            about |= {"id": name, "outcome": FOREIGN}
            boot["note"] = f"left out: {foreign[name]}"
        if about.get("outcome") == OK and ((facts.get("bye") or {}).get("outcome") != "ok"):
            about["outcome"] = INCOMPLETE
            boot["note"] = "recorded as ok, but its bytes hold no good bye"
        boots.append(boot)
    order = {entry["id"]: place for place, entry in enumerate(run["order"])}
    boots.sort(key=lambda b: (order.get(b["about"]["id"].split(".")[0], len(order)), b["about"].get("attempt", 1)))
    return boots


def _about(folder: Path, run: dict) -> dict:
    """boot.json as the readers need it; one that cannot be used makes its boot a foreign one."""
    planned = next((entry for entry in run["order"] if entry["id"] == folder.name.split(".")[0]), {})
    try:
        about = _read(folder / "boot.json", "")
        about.setdefault("id", folder.name)
        if not isinstance(about.get("arm"), str) or not isinstance(about["id"], str):
            raise HayloftError("boot.json names no arm")
    except HayloftError:
        about = {"id": folder.name, "arm": planned.get("arm", "?"), "pair": planned.get("pair"),
                 "point": planned.get("point", {}), "outcome": FOREIGN,
                 "reason": "left out: its boot.json is cut off or changed"}
    return about


def digests_of(run_dir: Path, boots: list[dict]) -> list[tuple[dict, dict]]:
    """(boot, digest) of entries of results.json."""
    return list(zip(boots, _digests([Path(run_dir) / "boots" / boot["id"] for boot in boots], rebuild=False)))


def _digests(folders: list[Path], rebuild: bool) -> list[dict]:
    found: dict[Path, dict] = {}
    if not rebuild:
        for folder in folders:
            kept = _kept_digest(folder / "result.json")
            if kept is not None and digest.is_of(kept, folder):
                found[folder] = kept
    missing = [folder for folder in folders if folder not in found]
    workers = min(len(os.sched_getaffinity(0)), 4)
    if len(missing) >= PARALLEL_DIGESTS and workers > 1:
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            found.update(zip(missing, pool.map(digest.digest_boot, missing, chunksize=4)))
    else:
        found.update((folder, digest.digest_boot(folder)) for folder in missing)
    return [found[folder] for folder in folders]


def _kept_digest(path: Path) -> dict | None:
    """A result.json that this version wrote whole; anything else is worked out from the bytes again."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    usable = isinstance(value, dict) and value.get("schema") == digest.SCHEMA
    return value if usable and isinstance(value.get("tests"), list) and "counters" in value and "missing" in value else None


def _choose(boots: list[dict], arms: list[str]) -> None:
    """Marks the boots that count: one attempt a pair and point, the one that served the most arms."""
    groups: dict = {}
    for boot in boots:
        about = boot["about"]
        place = json.dumps(about.get("point", {}), sort_keys=True), about.get("pair")
        groups.setdefault(place, {}).setdefault(about.get("attempt", 1), []).append(boot)
    for attempts in groups.values():
        good = {number: [b for b in members if b["about"].get("outcome") == OK and b["about"]["arm"] in arms]
                for number, members in attempts.items()}
        best = max(sorted(good), key=lambda number: len(good[number]))
        for number, members in attempts.items():
            for boot in members:
                if number == best and boot in good[number]:
                    boot["used"] = True
                elif boot["about"].get("outcome") == OK and not boot["note"]:
                    boot["note"] = "its pair was booted again"


def _schema(boots: list[dict]) -> dict[str, dict]:
    schema: dict[str, dict] = {}
    for boot in boots:
        for about in boot["digest"].get("counters") or []:
            schema.setdefault(about["name"], about)
    return schema


# -- describing -----------------------------------------------------------------------------------


def _machine(run: dict, boots: list[dict]) -> dict:
    """What was asked for, and what the kernel found there."""
    machine = dict(run.get("machine") or {})
    hello = next((b["digest"]["hello"] for b in boots if b["used"] and b["digest"].get("hello")), None)
    if hello:
        machine["found"] = {
            key: hello.get(key)
            for key in ("kernel", "git", "dirty", "compiler", "flags", "variant", "platform", "hypervisor",
                        "cpus_found", "memory", "tsc_hz", "tsc_invariant", "flags_fault", "tick_hz")
        }
        machine["found"]["cpus"] = len(hello.get("cpus") or [])
    rates = [b["digest"]["parallel"]["rate"] for b in boots if b["used"] and b["digest"].get("parallel")]
    rates = [rate for rate in rates if rate is not None]
    machine["parallel_rate"] = median(rates) if rates else None
    machine["parallel_least"] = digest.PARALLEL_RATE
    return machine


def _boot_entry(boot: dict) -> dict:
    about = boot["about"]
    keys = ("id", "arm", "point", "pair", "slot", "attempt", "outcome", "lost", "damaged", "seconds", "exit_status",
            "started", "host", "image")
    entry = {key: about.get(key) for key in keys}
    entry["lost"] = boot["digest"].get("lost", about.get("lost"))
    entry["damaged"] = boot["digest"].get("damaged", about.get("damaged"))
    entry["used"] = boot["used"]
    entry["reason"] = boot["note"]
    entry["parallel_rate"] = (boot["digest"].get("parallel") or {}).get("rate")
    return entry


def _skipped(run: dict, boots: list[dict]) -> list[dict]:
    found = list(run.get("skipped") or [])
    for boot in boots:
        for entry in boot["digest"].get("skipped") or []:
            if entry not in found and not entry.get("shortage"):  # those are told by arm
                found.append(entry)
    return found


def _rules(run: dict, experiment: dict) -> verdict.Rules:
    pairs = experiment.get("pairs")
    looks = run.get("looks") or (pairs.get("looks") if isinstance(pairs, dict) and "looks" not in run else None)
    return verdict.Rules(
        minimum_effect=float(run.get("minimum_effect", 0.2)),
        scheme=run.get("scheme") or "boots",
        looks=tuple(looks or ()),
        arms_compared=max(1, len(run["arms"]) - 1),
        seed=int(run.get("seed") or 1),
    )


def _published(name: str | None) -> dict | None:
    """The row to stand beside the result, as experiments/published.toml has it now."""
    if not name:
        return None
    try:
        return published_rows().get(name)
    except HayloftError:
        return None  # an archive can be read without this checkout's experiments


# -- judging --------------------------------------------------------------------------------------


@dataclass
class _Place:
    """One axis point on the way to its verdicts."""

    point: dict
    boots: list[dict]
    used: dict[str, list[dict]]  # by arm
    entries: list[dict]  # of results.json, the point's tests
    tallies: tally.Point
    short: dict[str, dict[str, list[dict]]]  # tests that ran out of memory: shortage.find
    ends: dict[str, list] = field(default_factory=dict)  # by test whose arms feel the distance differently: distance.py

    def pairs(self, arm: str) -> list[int]:
        return [boot["about"].get("pair") or 0 for boot in self.used[arm]]

    def whole(self) -> list[dict]:
        """The tests that no arm was short in."""
        return [entry for entry in self.entries if entry["name"] not in self.short]

    def judged(self, reference: str, arm: str) -> list[dict]:
        """The tests that neither of the two was short in."""
        return [entry for entry in self.entries if self.nothing_said(entry, reference, arm) is None]

    def nothing_said(self, entry: dict, reference: str, arm: str) -> verdict.Comparison | None:
        return shortage.nothing_said(entry, self.short, self.used, (reference, arm))


def _describe_point(results, point, boots, run, kind, schema) -> _Place:
    """Everything about a point but verdicts on times and counters; those are about all points together."""
    boots = [boot for boot in boots if boot["about"].get("point", {}) == point]
    used = {arm: [boot for boot in boots if boot["used"] and boot["about"]["arm"] == arm] for arm in run["arms"]}
    value_of = "cycles_per_op" if kind == "icount" else "ns_per_op"
    tests = _test_table(used, value_of)
    short = shortage.find(used)
    results["skipped"] += shortage.entries(short, used, point)
    entries = []
    for name, about in tests.items():
        unit = "instructions/op" if kind == "icount" else about["unit"]
        arms = {arm: {"median": units.middle(about["values"][arm]), "boots": about["values"][arm]} for arm in used}
        entries.append({"name": name, "point": point, "unit": unit, "shape": about["shape"], "cpus": about["cpus"],
                        "arms": arms, "pace": None, "distance": None, "versus": {}})
    _rounds_summed(entries, used, value_of)
    shortage.take_out(entries, short)
    counted = shortage.without(used, short)
    tallies = {
        arm: [(boot["about"].get("pair") or 0, tally.BootTally(boot["digest"], schema)) for boot in members]
        for arm, members in counted.items()
    }
    place = _Place(point, boots, used, entries, tally.Point(point, tallies), short)
    if kind != "icount" and run.get("pace", "adjust") == "adjust":
        _take_pace_out(place.whole(), used, value_of)
        _take_distance_out(place, value_of)
        readings.look(entries, run["reference"], {arm: place.pairs(arm) for arm in used})
    for entry in entries:
        _spreads(entry, used)
    results["tests"] += entries
    results["locks"] += tally.locks(tallies, schema, point)
    held = tally.footprint(tallies, [boot["digest"] for boot in boots if boot["used"]], schema)
    results["footprint"] += [{"point": point, **entry} for entry in held]
    digests = {arm: [boot["digest"] for boot in members] for arm, members in counted.items()}
    results["figures"] += figures.entries(digests, point, run["reference"])
    results["overhead"] += observed.overhead(digests, point)
    results["latency"] += observed.latency(digests, point, "instructions" if kind == "icount" else "cycles")
    results["matrix"] += observed.matrix(digests, point)
    return place


def _judge(places: list[_Place], run, kind, rules, calibration) -> None:
    """The tests of all points are one family, but for those that one of the two arms ran out of memory in."""
    reference = run["reference"]
    for arm in run["arms"]:
        if arm == reference:
            continue
        for place, entry in ((place, entry) for place in places for entry in place.entries):
            comparison = place.nothing_said(entry, reference, arm)
            if comparison is not None:
                entry["versus"][arm] = {**_versus_entry(comparison), "calibrated": False}
        if kind == "icount":
            for place in places:
                _exact_versus(place.judged(reference, arm), reference, arm, rules)
        else:
            _versus(places, reference, arm, rules, calibration, _pairs_made(places, run))
        for place in places:
            _override(place.judged(reference, arm), reference, arm, place.boots, place.used, kind, rules)


def _pairs_made(places: list[_Place], run: dict) -> int:
    """The last pair that was booted or given up, whatever came of it."""
    tried: dict[int, dict[str, int]] = {}
    for boot in (boot for place in places for boot in place.boots):
        about = boot["about"]
        pair = tried.setdefault(about.get("pair") or 0, {})
        pair[about["arm"]] = max(pair.get(about["arm"], 0), about.get("attempt") or 1)
    last = max(tried, default=0)
    whole = run.get("state") == "done" or set(run["arms"]) <= set(tried.get(last, {}))
    given_up = max(tried.get(last, {}).values(), default=0) > (run.get("retries") or 0)
    return last if whole or given_up else last - 1


def _test_table(used: dict[str, list[dict]], value_of: str) -> dict[str, dict]:
    """{test: {unit, shape, cpus, values: {arm: [one a boot, None where the test has no result]}}}."""
    tests: dict[str, dict] = {}
    for arm, members in used.items():
        for row, boot in enumerate(members):
            for test in boot["digest"].get("tests") or []:
                about = tests.setdefault(
                    test["name"],
                    {"unit": test["unit"], "shape": test.get("shape") or "", "cpus": test.get("cpus"),
                     "values": {a: [None] * len(m) for a, m in used.items()}},
                )
                about["values"][arm][row] = test.get(value_of)
    return tests


def _spreads(entry: dict, used: dict[str, list[dict]]) -> None:
    """How far an arm's boots scatter, and which was the slowest."""
    for arm, members in used.items():
        known = [(value, boot["about"]["id"]) for value, boot in zip(entry["arms"][arm]["boots"], members) if value]
        logs = np.log([value for value, _ in known])
        entry["arms"][arm]["spread"] = float(np.expm1(np.std(logs, ddof=1))) if len(known) > 1 else None
        entry["arms"][arm]["worst"] = dict(zip(("value", "boot"), max(known))) if known else None
        sums = [one for one in entry["arms"][arm]["means"] if one]
        entry["arms"][arm]["mean"] = mean(sums) if sums else None


def _rounds_summed(entries: list[dict], used: dict[str, list[dict]], value_of: str) -> None:
    """`means`, beside the boots' figures: the arithmetic mean of a boot's rounds, as measured. It is the time that they took
    together, so it has what one slow round adds."""
    for entry in entries:
        for arm, boots in zip(used, _rounds_of(entry, used)):
            values = [[r[value_of] for r in rounds if r.get(value_of)] for rounds in boots]
            entry["arms"][arm]["means"] = [mean(own) if own else None for own in values]


def _take_pace_out(entries: list[dict], used: dict[str, list[dict]], value_of: str) -> None:
    """Where the yardstick allows it, the boots' figures at one pace; as measured they go to `raw`."""
    for entry in entries:
        found = pace.adjust(_rounds_of(entry, used), value_of)
        if found is None:
            continue
        entry["pace"] = {"slope": found.slope, "spread_raw": found.spread[0], "spread": found.spread[1],
                         "yardstick": dict(zip(used, found.yardstick))}
        _replace_figures(entry, used, found.figures)


def _take_distance_out(place: _Place, value_of: str) -> None:
    """Where the probes allow it, the figures of tests on several CPUs at the run's usual distance between them."""
    used = place.used
    for entry in place.whole():
        if entry["cpus"] == 1:
            continue
        rounds = _rounds_of(entry, used)
        times = [[[np.log(r[value_of]) for r in boot if r.get(value_of)] for boot in arm] for arm in rounds]
        trips = [[distance.of_rounds(distance.probes(boot["digest"]), entry["name"], len(own)) for boot, own in zip(members, arm)]
                 for members, arm in zip(used.values(), rounds)]
        pairs = [[boot["about"].get("pair") or 0 for boot in members] for members in used.values()]
        found = distance.adjust([entry["arms"][arm]["boots"] for arm in used], times, trips, pairs)
        if found is None:
            continue
        entry["distance"] = {"slope": found.slope, "spread_before": found.spread[0], "spread": found.spread[1],
                             "slopes": dict(zip(used, found.slopes)), "differ": found.ends is not None,
                             "roundtrip": dict(zip(used, found.roundtrip)), "own": dict(zip(used, found.own))}
        if found.ends is None:
            _replace_figures(entry, used, found.figures)
        else:
            place.ends[entry["name"]] = [dict(zip(used, end)) for end in found.ends]


def _rounds_of(entry: dict, used: dict[str, list[dict]]) -> list[list[list[dict]]]:
    """By arm and boot; [] where a boot has no such test, or not all of its rounds."""
    return [[next((test["rounds"] for test in boot["digest"].get("tests") or []
                   if test["name"] == entry["name"] and not test.get("rounds_lost")), [])
             for boot in members] for members in used.values()]


def _replace_figures(entry: dict, used: dict[str, list[dict]], figures: list[list[float | None]]) -> None:
    """What is judged; as measured they stay in `raw`."""
    for arm, own in zip(used, figures):
        here = entry["arms"][arm]
        here |= {"raw": here.get("raw") or here["boots"], "boots": own, "median": units.middle(own)}


def _side(judged: list[tuple[_Place, list[dict]]], arm: str, field_: str) -> verdict.Side:
    """All points' tests side by side, a row a pair. judged: each place's tests; field_: boots, or raw (as measured, where that is another figure)."""
    blocks: dict[str, list] = {"figures": [], "means": [], "readings": []}
    for place, tests in judged:
        pairs = place.pairs(arm)
        shape = len(pairs), len(tests)
        for kind, rows in blocks.items():
            rows.append((pairs, np.full(shape, np.nan)))
        for column, entry in enumerate(tests):
            about = entry["arms"][arm]
            _fill_column(blocks["figures"][-1][1], column, about.get(field_) or about["boots"])
            _fill_column(blocks["means"][-1][1], column, [a or b for a, b in zip(about["means"], about["boots"])])
            found = entry["distance"]
            if field_ == "boots" and found and not found["differ"]:
                known = [np.nan if one is None else one for one in found["roundtrip"][arm]]
                blocks["readings"][-1][1][:, column] = known
    values, pairs = verdict.rows_by_pair(blocks["figures"])
    return verdict.Side(values, pairs, *(verdict.rows_by_pair(blocks[kind])[0] for kind in ("means", "readings")))


def _fill_column(table: np.ndarray, column: int, values: list) -> None:
    for row, value in enumerate(values):
        if value is not None and value > 0:
            table[row, column] = np.log(value)


def _versus(places: list[_Place], reference, arm, rules, calibration, made) -> None:
    tests = [(place, place.judged(reference, arm)) for place in places]
    entries = [(place, entry) for place, judged in tests for entry in judged]
    noise = np.array([calibrate.noise_for(calibration, entry["name"], min(len(place.used[reference]), len(place.used[arm])))
                      for place, entry in entries])
    judged = verdict.compare(_side(tests, reference, "boots"), _side(tests, arm, "boots"), rules, noise, made)
    raw = judged
    if any("raw" in about for _, entry in entries for about in entry["arms"].values()):
        raw = verdict.compare(_side(tests, reference, "raw"), _side(tests, arm, "raw"), rules, noise, made)
    for (place, entry), adjusted, measured, known in zip(entries, judged, raw, noise):
        found = adjusted
        if any("raw" in about for about in entry["arms"].values()):
            found = settle.settle(adjusted, measured, list(distrust.known_arms(entry, arm).values()))
        if entry["name"] in place.ends:
            last = (rules.looks and max((look for look in rules.looks if look <= made), default=None)) or np.inf
            ends = [tuple(np.log([value for value, pair in zip(end[a], place.pairs(a)) if value and pair <= last])
                          for a in (reference, arm)) for end in place.ends[entry["name"]]]
            found = settle.at_both_ends(found, ends, rules.minimum_effect, distrust.slopes_text(entry["distance"]))
        entry["versus"][arm] = _versus_entry(found)
        entry["versus"][arm]["calibrated"] = bool(np.isfinite(known))
        if any("raw" in about for about in entry["arms"].values()):
            entry["versus"][arm] |= {"measured": _short_entry(measured), "adjusted": _short_entry(adjusted)}


def _short_entry(comparison: verdict.Comparison) -> dict:
    return {"ratio": comparison.ratio, "interval": list(comparison.interval), "p": comparison.p,
            "verdict": comparison.verdict, "why": comparison.why}


def _exact_versus(entries, reference, arm, rules) -> None:
    for entry in entries:
        a, b = entry["arms"][reference]["median"], entry["arms"][arm]["median"]
        comparison = verdict.compare_exact(a or 0, b or 0, rules.minimum_effect)
        entry["versus"][arm] = _versus_entry(comparison)
        if a is not None and b is not None:
            entry["versus"][arm]["difference"] = b - a


def _versus_entry(comparison: verdict.Comparison) -> dict:
    return {
        "ratio": comparison.ratio,
        "interval": list(comparison.interval),
        "level": comparison.level,
        "coverage": comparison.coverage,
        "p": comparison.p,
        "verdict": comparison.verdict,
        "why": comparison.why,
        "threshold": float(np.exp(comparison.threshold)),
        "beyond": comparison.beyond,
        "means": comparison.means,
        "pairs_needed": comparison.pairs_needed,
        "paired": comparison.paired,
    }


def _override(entries, reference, arm, boots, used, kind, rules) -> None:
    """What stands above any time: a machine that cannot show it, an arm that keeps failing."""
    faults = {
        a: sum(1 for b in boots if b["about"]["arm"] == a and b["about"].get("outcome") in GUEST_FAULTS)
        for a in (reference, arm)
    }
    void = {a: sum(1 for b in boots if b["about"]["arm"] == a and b["about"].get("outcome") == NOT_PARALLEL)
            for a in (reference, arm)}
    broken = verdict.unreliable(faults[reference], faults[arm], distrust.by_arm(void))
    excess = faults[arm] + void[arm] - faults[reference] - void[reference]
    knobs = [b["about"].get("knobs") or {} for a in (reference, arm) for b in used[a][:1]]
    for entry in entries:
        versus = entry["versus"][arm]
        reason = limits.refused(kind, entry["name"], entry["shape"], knobs)
        if reason:
            versus.update(verdict="refused", why=f"not judged on {kind}: {reason}", pairs_needed=None)
        elif broken:
            versus.update(verdict="unreliable", why=broken, pairs_needed=None)
        elif versus["verdict"] == "no difference" and excess and kind != "icount":
            sides = [np.log([value for value in entry["arms"][a]["boots"] if value]) for a in (reference, arm)]
            if not verdict.survives_loss(*sides, excess, rules.minimum_effect, versus["level"]):
                versus.update(verdict="undecided", why=f"{arm if excess > 0 else reference} lost {abs(excess)} more boot"
                              f"{'s' if abs(excess) > 1 else ''} than {reference if excess > 0 else arm}; had they been slow, "
                              "the interval would reach further: the boots that are left may be the quick ones")


def _no_nan(value):
    """Null where a number does not exist."""
    if isinstance(value, dict):
        return {key: _no_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_no_nan(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
