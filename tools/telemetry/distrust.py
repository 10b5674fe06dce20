"""What to distrust: everything that limits the meaning of a run's numbers, as values with a kind and a text.

They travel with the results and stand at the top of the report. Nothing here changes a verdict; what a reading that knows
the arms does to one is said by settle.py.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from . import distance, stats
from .outcome import FOREIGN, GUEST_FAULTS, NOT_PARALLEL, OK

SKEW_SECONDS = 10e-6  # of a CPU's clock against CPU 0's
STEAL_SHARE = 0.02
ONE_SIDED = 0.125  # arms that are alike lose boots so unevenly at most this often
LASTING = 0.1  # of a boot's probes that find another distance: less is work beside it
MEANING = {
    "tcg": "translated code: compare the arms with each other, never publish the ns",
    "icount": "instructions, counted exactly; time and contention do not appear",
}


def collect(run: dict, results: dict, boots: list[dict], kind: str, uncalibrated: str) -> list[dict]:
    """uncalibrated: what is to be said of this machine's noise, if anything."""
    found: list[dict] = []

    def warn(name: str, text: str) -> None:
        if all(entry["text"] != text for entry in found):
            found.append({"kind": name, "text": text})

    if kind in MEANING:
        warn("machine", f"{kind}: {MEANING[kind]}")
    if results["state"] != "done":
        warn("unfinished", f"the run is {results['state']}: not all planned boots were made")
    else:
        _missing(run, boots, warn)
    for text in run.get("warnings") or []:
        entry = text if isinstance(text, dict) else {"kind": _kind_of(text), "text": text}
        warn(entry["kind"], entry["text"])
    used = [boot for boot in boots if boot["used"]]
    _over_committed(run, results, kind, warn)
    _few_pairs(results, kind, warn)
    _failed(boots, warn)
    _filed(boots, warn)
    _losses(used, warn)
    _clocks(used, warn)
    if kind != "icount":
        _host(run, used, warn)
        _distance(results, used, warn)
    _images(used, warn)
    _rounds(used, warn)
    _adjusters(results, warn)
    if kind != "icount" and uncalibrated and used:
        warn("not calibrated", uncalibrated)
    return found


def _missing(run: dict, boots: list[dict], warn) -> None:
    """A run that says it is done has a folder for each boot that was drawn, up to the look that ended it."""
    here = {boot["about"]["id"].split(".")[0] for boot in boots}
    last = max((boot["about"].get("pair") or 0 for boot in boots), default=0) if run.get("looks") else np.inf
    gone = [entry["id"] for entry in run["order"] if entry["id"] not in here and entry["pair"] <= last]
    if gone:
        more = f" and {len(gone) - 4} more" if len(gone) > 4 else ""
        warn("missing boots", f"{len(gone)} of {len(run['order'])} boots have no boot.json and are not in these results: "
             f"{', '.join(gone[:4])}{more}")


def _kind_of(text: str) -> str:
    """Warnings that the run recorded are texts that may begin with their kind."""
    head, colon, _ = text.partition(":")
    return head if colon and len(head) < 24 else "plan"


# what is taken out of the times, and in words what it means if its reading grew in an arm
KNOWN = {"pace": ("the yardstick itself was", ("slower", "quicker")),
         "distance": ("two CPUs themselves were", ("further apart", "closer together"))}


def known_arms(test: dict, arm: str) -> dict[str, str]:
    """{what is taken out: in words how its reading differs in this arm}, of the readings that know it (readings.py)."""
    found = {}
    for key, (subject, ways) in KNOWN.items():
        one = ((test.get(key) or {}).get("knows") or {}).get(arm)
        if one:
            found[key] = (f"{subject} {100 * abs(np.expm1(one['shift'])):.0f} % {ways[0 if one['shift'] > 0 else 1]} "
                          f"in {arm} (p = {one['p']:.2g})")
    return found


def _adjusters(results: dict, warn) -> None:
    """A reading that times are adjusted by must not know the arms."""
    for test in results["tests"]:
        for arm in results["arms"]:
            for key, text in known_arms(test, arm).items():
                warn(key, f"{test['name']}: {text}, so the adjustment may hide or make a part of the difference: compare "
                     "the times as measured")
        distance_ = test.get("distance") or {}
        if distance_.get("differ"):
            warn("distance", f"{test['name']}: the arms feel the distance between CPUs differently "
                 f"({slopes_text(distance_)}), so it is not taken out")


def slopes_text(found: dict) -> str:
    return "slopes " + ", ".join(f"{arm} {one:.2f}" for arm, one in found["slopes"].items() if one is not None)


def _over_committed(run: dict, results: dict, kind: str, warn) -> None:
    machines = run.get("machines") or [run.get("machine") or {}]
    if any(machine.get("over_committed") for machine in machines):
        warn("over-committed", "more CPUs than the host has: waits are the host scheduler's, and whether the CPUs "
             "ran in parallel is not probed")
    elif kind == "icount" or results["machine"].get("found", {}).get("cpus") == 1:
        warn("no probe", "one CPU or one thread: whether CPUs ran in parallel is not probed")


def _few_pairs(results: dict, kind: str, warn) -> None:
    counts = Counter(boot["arm"] for boot in results["boots"] if boot["used"])
    per_point = max(1, len(results["points"]))
    fewest = min((counts.get(arm, 0) for arm in results["arms"]), default=0) // per_point
    if kind != "icount" and fewest < 4:
        warn("few pairs", f"{fewest} pair{'s' if fewest != 1 else ''}: with fewer than 4 nothing can be decided")
    elif len(set(counts.get(arm, 0) for arm in results["arms"])) > 1:
        tally = ", ".join(f"{arm} {counts.get(arm, 0)}" for arm in results["arms"])
        warn("unbalanced", f"arms have different numbers of boots: {tally}")


def _failed(boots: list[dict], warn) -> None:
    failed = [boot["about"] for boot in boots if boot["about"].get("outcome") != OK]
    if not failed:
        return
    kinds = Counter(about.get("outcome") or "unknown" for about in failed)
    guests = Counter(about["arm"] for about in failed if about.get("outcome") in GUEST_FAULTS)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    void = Counter(about["arm"] for about in failed if about.get("outcome") == NOT_PARALLEL)
    told = f"; guest faults by arm: {by_arm(guests)}" if guests else ""
    told += f"; void by arm: {by_arm(void)}" if void else ""
    warn("failed boots", f"{len(failed)} of {len(boots)} boots failed ({text}){told}")
    arms = {boot["about"]["arm"] for boot in boots}
    lost = Counter({arm: guests[arm] + void[arm] for arm in arms})
    most, least = max(lost, key=lambda arm: lost[arm]), min(lost, key=lambda arm: lost[arm])
    if most != least and stats.one_sided_binomial(lost[most], lost[least]) <= ONE_SIDED:
        warn("lost in one arm", f"boots of {most} were thrown away more often than of {least} ({lost[most]} and {lost[least]}): if "
             "the slow ones run out of time, those that are left are the quick ones")


def by_arm(counts: dict[str, int]) -> str:
    return ", ".join(f"{arm} {count}" for arm, count in sorted(counts.items()) if count)


def _filed(boots: list[dict], warn) -> None:
    """Boots whose folder holds another boot's things, and bytes that changed since."""
    for boot in boots:
        if boot["about"].get("outcome") == FOREIGN:
            warn("foreign boot", f"boot {boot['about']['id']} is {boot['note']}")
    changed = [boot["about"]["id"] for boot in boots if boot["used"] and boot.get("changed")]
    if changed:
        warn("changed bytes", f"the bytes of {_named(changed)} are no longer those that were archived after the boot")


def _losses(used: list[dict], warn) -> None:
    lost = [boot["digest"].get("lost") or 0 for boot in used]
    damaged = [boot["digest"].get("damaged") or 0 for boot in used]
    if any(lost):
        missing = sum(bool(boot["digest"].get("missing")) for boot in used)
        then = (f"what rested on them is left out in {missing} of them" if missing else
                "curves have gaps, no figure rests on them")
        warn("lost samples", f"{sum(lost)} telemetry records were lost in {sum(map(bool, lost))} boots: {then}")
    _left_out(used, warn)
    if any(damaged):
        warn("damaged frames", f"{sum(damaged)} damaged frames in {sum(map(bool, damaged))} boots")


def _left_out(used: list[dict], warn) -> None:
    """Figures that boots do not have, because records were lost that they rest on."""
    rounds = [(boot["about"]["id"], entry) for boot in used for test in boot["digest"].get("tests") or []
              for entry in test["rounds"]]
    bare = [boot for boot, entry in rounds if not entry["complete"]]
    if bare:
        why = ", ".join(sorted({entry["lost"][0] for _, entry in rounds if not entry["complete"] and entry.get("lost")}))
        warn("no counters", f"{len(bare)} of {len(rounds)} rounds count for no counter, in {_named(bare)}"
             f"{f' ({why})' if why else ''}; their times stand")
    gone = [(boot["about"]["id"], test) for boot in used for test in boot["digest"].get("tests") or []
            if test.get("rounds_lost")]
    if gone:
        warn("lost rounds", f"the results of {sum(test['rounds_lost'] for _, test in gone)} rounds were lost, so "
             f"{', '.join(sorted({test['name'] for _, test in gone}))} has no figure in {_named([boot for boot, _ in gone])}")
    rest = [(boot["about"]["id"], text) for boot in used for text in boot["digest"].get("missing") or []
            if not text.startswith(("counters of", "the time of"))]
    for text in dict.fromkeys(text for _, text in rest):
        warn("lost records", f"left out in {_named([boot for boot, other in rest if other == text])}: {text}")


def _named(boots: list[str], most: int = 4) -> str:
    """'1 boot (01-A)'."""
    names = list(dict.fromkeys(boots))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} boot{'s' if len(names) != 1 else ''} ({', '.join(names[:most])}{more})"


def _clocks(used: list[dict], warn) -> None:
    worst = 0.0
    for boot in used:
        hello = boot["digest"].get("hello") or {}
        if hello.get("tsc_hz"):
            worst = max([worst, *(abs(cpu[3]) / hello["tsc_hz"] for cpu in hello.get("cpus") or [])])
    if worst > SKEW_SECONDS:
        warn("skewed TSC", f"the CPUs' clocks differ by up to {worst * 1e6:.0f} µs")


def _host(run: dict, used: list[dict], warn) -> None:
    cores = (run.get("host") or {}).get("cores") or 1
    cpus = (run.get("machine") or {}).get("cpus") or 1
    loads, steals = [], []
    for boot in used:
        host = boot["about"].get("host") or {}
        load = host.get("load")
        loads.append(load[0] if isinstance(load, list) and load else 0)
        steals.append(host.get("steal") or 0)
    busy = [load for load in loads if load > max(cores, cpus) + 0.5]
    if busy:
        warn("host load", f"the host was busy beside the boots: load up to {max(busy):.1f} on {cores} cores in "
             f"{len(busy)} of {len(used)} boots")
    stolen = [steal for steal in steals if steal > STEAL_SHARE]
    if stolen:
        warn("steal", f"the host was itself robbed of CPU time: up to {100 * max(stolen):.0f} % in "
             f"{len(stolen)} of {len(used)} boots")


def _distance(results: dict, used: list[dict], warn) -> None:
    """The probes for parallel CPUs say how far apart two CPUs are: round trips of one word a millisecond. Where a host
    moves a virtual CPU to another part of its caches (an inference: nothing here sees it), they are several times fewer.
    It takes two probes on end, since one by itself is a CPU that was kept from it, and a tenth of a boot."""
    rates = {(boot["about"]["id"], boot["about"]["arm"]):
             [probe["rate"] for probe in distance.probes(boot["digest"]) if probe["rate"]]
             for boot in used}
    usual = float(np.median([rate for found in rates.values() for rate in found] or [0]))
    far = {boot: [max(two) for two in zip(found, found[1:]) if max(two) * distance.FAR < usual]
           for boot, found in rates.items()}
    near = {boot: [min(two) for two in zip(found, found[1:]) if min(two) > usual * distance.FAR]
            for boot, found in rates.items()}
    apart = next((long for kind in (far, near)
                  if (long := {boot: found for boot, found in kind.items() if len(found) > LASTING * len(rates[boot])})), None)
    if not apart:
        return
    rate = float(np.median([rate for found in apart.values() for rate in found]))
    arms = ", ".join(f"{arm} {count}" for arm, count in sorted(Counter(arm for _, arm in apart).items()))
    how = "further apart" if rate < usual else "closer together"
    adjusted = sum(bool(test.get("distance") and not test["distance"].get("differ")) for test in results["tests"])
    then = (f"taken out of {adjusted} test{'s' if adjusted != 1 else ''} on several CPUs" if adjusted else
            "not taken out: tests in which CPUs meet follow it, whatever the arm")
    warn("distance", f"two CPUs were {max(rate / usual, usual / rate):.1f} times {how} than usual in {len(apart)} of "
         f"{len(used)} boots ({arms}): {rate:,.0f} round trips of a word a ms instead of {usual:,.0f}, as when a "
         f"host moves them; {then}")


def _images(used: list[dict], warn) -> None:
    if len({boot["about"].get("image") for boot in used}) > 1:
        warn("images differ", "the arms booted different images: code layout differs too, so a difference need not "
             "be the arm's doing")


def _rounds(used: list[dict], warn) -> None:
    moved = set()
    for boot in used:
        for test in boot["digest"].get("tests") or []:
            for entry in test["rounds"]:
                if any(cpu[0] != cpu[1] for cpu in entry.get("cpus") or []):
                    moved.add(test["name"])
    if moved:
        warn("moved", f"threads ran on other CPUs than they were pinned to in {', '.join(sorted(moved))}")
