"""One boot's bytes in, one boot's facts out: the content of result.json.

Everything comes from the telemetry stream alone (boot.json only lends the boot its identity), so an old
archive can be digested again. The kernel sends absolute values; a round's counters are the values known
at its end less those known at its begin. They come from the boot's own stream alone, whose full samples
before each mark tell everything that happened between two of them; what ticks sent meanwhile is for curves.

A figure is what it would be had nothing been lost, or it is not there and `missing` says so. So each figure asks
the ledger (ledger.py) about the records that it rests on: a round's counters about full samples, marks, names and the
list of counters; a test's time about the results of all its rounds; what was seen of a round, its probes and
checks about their own. A record that was lost is never stood for by another.

Counters come from the schema records: this file knows none by name. It sums CPUs and keeps instances
(caches, locks, nodes) apart; only values other than 0 are kept. Sums are differences, maxima and gauges
the value at the round's end.

A test that ran out of memory is skipped, and its rounds, if it had some before, are not in the result.

What it deliberately does not do: judge. Whether the CPUs were parallel is the one exception, since a
boot is void without it: see PARALLEL_RATE.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from statistics import median

from . import decode, figures, leftout, ledger, units
from .errors import HayloftError
from .rounds import boot_figure
from .shapes import SCOPES

SCHEMA = 1
EVENTS_KEPT = 500
SHARED_PORT = "com1"
NAMED = ("cache", "lock", "node")  # scopes whose instances have names
MARK_LOST = "a mark of the round was lost"
BOOT_STREAM = decode.BOOT_STREAM
LATENCY_KEYS = ("level", "about", "call", "every", "clock", "max", "buckets")

# Round trips a millisecond between two CPUs below which they took turns during a probe, instead of running at
# the same time. Two busy vCPU threads that each have a host CPU pass a line to and fro hundreds of times a
# millisecond or more; two that take turns on one host CPU do it once a time slice, so less than twice. The
# gap is wide, so the bar is the same for every machine. One probe lasts a few ms and can be hit by a single
# time slice of somebody else's, which says little about the rest of the boot; there are several before,
# between and after the timed parts, and the share of them that took turns estimates the share of the boot
# that went so. A boot in which that share is above TURNS_ALLOWED is void.
PARALLEL_RATE = 20.0
TURNS_ALLOWED = 0.25

# Where CPUs cannot but take turns, the probe's figure is kept and not judged. Knobs that say so when they are
# not at these values: more vCPUs than host CPUs; rounds counted in operations, as under icount's one thread.
NOT_PROBED = {"overcommit": "0", "kbench.ops": "0"}


def digest_boot(boot_dir: Path, shared_line: bool | None = None) -> dict:
    """Digests boot_dir/telemetry.bin. shared_line: console and telemetry on one port; None: see boot.json."""
    boot_dir = Path(boot_dir)
    boot = _boot_json(boot_dir)
    if shared_line is None:
        shared_line = (boot.get("knobs") or {}).get("telemetry.port") == SHARED_PORT
    digest = Digest()
    decoder, checksum = decode.Decoder(shared_line), hashlib.sha256()
    try:
        with open(boot_dir / "telemetry.bin", "rb") as source:
            while data := source.read(decode.READ):
                checksum.update(data)
                digest.take(decoder.feed(data))
        digest.take(decoder.finish())
    except FileNotFoundError:
        digest.missing = True
    except OSError as error:
        raise HayloftError(f"{boot_dir}/telemetry.bin: cannot be read: {error.strerror}") from error
    out = digest.result(decoder.next_numbers())
    return {"schema": SCHEMA, **{key: boot.get(key) for key in ("id", "arm", "point", "pair")},
            "capture": {"bytes": decoder.offset, "sha256": checksum.hexdigest()}, **out}


def is_of(result: dict, boot_dir: Path) -> bool:
    """Whether this result was worked out from the bytes that lie there now; bytes that are gone cannot deny it."""
    try:
        with open(Path(boot_dir) / "telemetry.bin", "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise HayloftError(f"{boot_dir}/telemetry.bin: cannot be read: {error.strerror}") from error
    return (result.get("capture") or {}).get("sha256") == found


def _boot_json(boot_dir: Path) -> dict:
    try:
        boot = json.loads((boot_dir / "boot.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # a boot that is just ending has none yet
    return boot if isinstance(boot, dict) else {}


class Digest:
    """Collects a boot's records; result() puts them in order and works out the rounds."""

    def __init__(self):
        self.hello: dict | None = None
        self.bye: dict | None = None
        self.panic: dict | None = None
        self.missing = False
        self.records = 0
        self.damaged = 0
        self.gaps: dict[int, int] = {}
        self.reported: dict[int, int] = {}
        self.faults: dict[str, int] = {}
        self.counters: dict[int, dict] = {}
        self.objects: dict[tuple[str, int], dict] = {}
        self.checks: list[dict] = []
        self.events: list[dict] = []
        self.events_total = 0
        self.figures: dict[tuple[str, str], list[int]] = {}  # (test, figure): one a round
        self.latency: dict[tuple[int, int], list[dict]] = {}
        self.matrix: dict[tuple[int, int], dict[int, list]] = {}
        self.ledger = ledger.Ledger()  # the boot's own stream
        self.over = False  # another boot began in the same bytes

    def take(self, items: list) -> None:
        for item in items:
            if isinstance(item, decode.Record):
                if item.boot == 0:  # bytes of a later boot in the same file are not this boot's
                    self.records += 1
                    self._record(item)
            elif isinstance(item, decode.Fault) and not self.over:
                self.faults[item.kind] = self.faults.get(item.kind, 0) + 1
                self.over = item.kind == "restart"
                self.ledger.gap_of(item)
                if item.kind == "gap":
                    self.gaps[item.stream] = self.gaps.get(item.stream, 0) + item.count
                else:
                    self.damaged += 1

    def _record(self, record: decode.Record) -> None:
        body = record.body
        if record.stream == BOOT_STREAM:
            self.ledger.came(record)
        if record.missing and record.type != "panic":
            return  # facts that are had in part are not had
        if record.type == "latency":
            self.latency.setdefault((body["test"], body["round"]), []).append(
                {key: body.get(key) for key in LATENCY_KEYS})
        elif record.type == "matrix":
            self.matrix.setdefault((body["test"], body["round"]), {})[body["cpu"]] = body["from"]
        elif record.type == "schema":
            self.counters[body["id"]] = body
        elif record.type == "object":
            self.objects[body["kind"], body["id"]] = body
        elif record.type == "check":
            self.checks.append(body)
        elif record.type == "event":
            self.events_total += 1
            if body["kind"] == "figure":
                for name, value in (body.get("values") or {}).items():
                    self.figures.setdefault((body.get("text", ""), name), []).append(value)
            if len(self.events) < EVENTS_KEPT:
                self.events.append({"time": record.time, "cpu": record.stream, **body})
        elif record.type == "lost":
            stream = body["stream"]
            self.reported[stream] = self.reported.get(stream, 0) + body["count"]
        elif record.type in ("hello", "bye", "panic") and getattr(self, record.type) is None:
            setattr(self, record.type, body)

    def result(self, next_numbers: dict[int, int]) -> dict:
        rounds = _Rounds(self)
        tests = rounds.run()
        return {
            "hello": self.hello,
            "bye": self.bye,
            "panic": self.panic,
            "refused": (self.hello or {}).get("refused") or [],
            "left_out": leftout.of_boot(self.hello, self.bye),
            "no_capture": self.missing,
            "records": self.records,
            "lost": self._lost(next_numbers),
            "damaged": self.damaged,
            "faults": self.faults,
            "missing": rounds.what_is_missing(self, tests),
            "parallel": parallel(self.checks, (self.hello or {}).get("knobs"), not rounds.missing["check"]),
            "tests": tests,
            "tests_lost": rounds.tests_lost(),
            "skipped": [
                {"name": body["name"], "reason": body["skip"],
                 **({"shortage": body["shortage"]} if body.get("shortage") else {})}
                for (kind, _), body in sorted(self.objects.items())
                if kind == "test" and body.get("skip")
            ],
            "counters": [self.counters[number] for number in sorted(self.counters)],
            "caches": _named(self.objects, "cache", ("name", "size", "capacity", "slab", "objects", "state")),
            "checks": self.checks,
            "events": self.events,
            "events_total": self.events_total,
        }

    def _lost(self, next_numbers: dict[int, int]) -> int:
        """Records that were made and did not arrive: gaps, and what the totals say is missing at the end.

        A kernel whose ring is full counts a loss without using up a number in some streams' last moments;
        so its own count is a lower bound as well.
        """
        lost = dict(self.gaps)
        for stream, offered, counted in (self.bye or {}).get("totals") or []:
            tail = max(0, offered - next_numbers.get(stream, 0))
            lost[stream] = max(lost.get(stream, 0) + tail, counted)
        for stream, count in self.reported.items():
            lost[stream] = max(lost.get(stream, 0), count)
        return sum(lost.values())


def _named(objects: dict, kind: str, keys: tuple[str, ...]) -> list[dict]:
    chosen = sorted(number for what, number in objects if what == kind)
    return [{key: objects[kind, number].get(key) for key in keys} for number in chosen]


def parallel(checks: list[dict], knobs: dict | None = None, whole: bool = True) -> dict | None:
    """What the ping-pong probes say; None if there was none. ok is None where turns are all there can be. Not whole:
    probes may have been lost, so what came is judged, and no figure is made of it."""
    probes = []
    for check in checks:
        if check["name"] != "parallel":
            continue
        values = check.get("values") or {}
        if "roundtrips" in values and values.get("ms", 0) > 0:
            rate = values["roundtrips"] / values["ms"]
            probes.append({"when": check.get("when", ""), "rate": rate})
    if not probes:
        return None
    turns = [probe for probe in probes if probe["rate"] < PARALLEL_RATE]
    share = len(turns) / len(probes)
    out = {
        "ok": share <= TURNS_ALLOWED,
        "rate": median(probe["rate"] for probe in probes),
        "least": PARALLEL_RATE,
        "turns": share,
        "turns_allowed": TURNS_ALLOWED,
        "probes": probes,
        "whole": whole,
    }
    if any((knobs or {}).get(name, usual) != usual for name, usual in NOT_PROBED.items()):
        out["ok"] = None
    elif not out["ok"]:
        out["reason"] = (
            f"in {len(turns)} of {len(probes)} probes two CPUs took turns (exchanged a line less than "
            f"{PARALLEL_RATE:.0f} times a ms), more than {TURNS_ALLOWED:.0%} of them"
        )
    if not whole:
        out |= {"rate": None, "turns": None, "probes": []}
    return out


class _Rounds:
    """Follows samples and bench marks of the boot's own stream; yields the tests with their rounds.

    A round's counters are the values at its end less those at its begin, so they rest on every full sample up to its
    end: one that did not come leaves values unknown (`known`) until the next complete one. They also rest on both
    marks with no other between them, on the whole list of counters, and on a name for everything that counted.
    """

    def __init__(self, digest: Digest):
        self.stretches = list(digest.ledger.stretches())
        self.objects, self.counters = digest.objects, digest.counters
        self.latency, self.matrix, self.figures = digest.latency, digest.matrix, digest.figures
        self.tsc_hz = (digest.hello or {}).get("tsc_hz") or 0
        self.values: dict[tuple[int, int, int, int], int] = {}
        self.known = True
        self.begun: tuple[tuple[int, int], dict | None] | None = None
        self.closed: dict[tuple[int, int], tuple | str] = {}
        self.last: dict | None = None  # the result that latency and matrix records belong to
        self.tests: dict[int, list[dict]] = {}
        self.rounds = 0  # of each test, by what marks spoke of
        self.missing = Counter()  # records, by kind, as far as figures rest on them

    def run(self) -> list[dict]:
        for number, stretch in enumerate(self.stretches):
            self._stretch(stretch, number == 0)
        return [self._test(number, rounds) for number, rounds in sorted(self.tests.items())
                if ("test", number) in self.objects and not self.objects["test", number].get("shortage")]

    def _stretch(self, stretch: ledger.Stretch, first: bool) -> None:
        samples = [record for record in stretch.records if record.type == "sample" and not record.missing]
        mark = stretch.mark
        body = mark.body if mark is not None and mark.type == "bench" else {}
        self.missing["check"] += stretch.lost("check")
        self.missing["bench"] += stretch.lost("bench")
        if first or isinstance(stretch.missing, dict):
            self.missing["object"] += stretch.lost("object")
        if first:  # the list comes before everything that counts
            self.missing["schema"] = stretch.lost("schema")
        for kind in ("latency", "matrix"):  # what was seen of a round comes behind its result
            if self.last is not None and stretch.lost(kind):
                self.last["lost"].append(kind)
        if stretch.lost("sample"):
            self.known = False
        elif samples and body.get("whole") == sum(record.frames for record in samples) and not stretch.lost("bench"):
            self.values.clear()  # what a complete sample does not name is 0
            self.known = True
        for record in samples:
            self._sample(record.body)
        if body:
            self.rounds = max(self.rounds, body["round"] + 1)
            self._bench(body, stretch.lost("bench"))

    def _sample(self, rows: list) -> None:
        values = self.values
        for scope, instance, cpu, *pairs in rows:
            for at in range(0, len(pairs), 2):
                values[scope, instance, cpu, pairs[at]] = pairs[at + 1]

    def _bench(self, body: dict, lost_marks: int) -> None:
        key = body["test"], body["round"]
        if body["phase"] == "begin":
            self.begun = key, dict(self.values) if self.known else None
            self.closed.pop(key, None)
        elif body["phase"] == "end":
            begun, self.begun = self.begun, None
            if begun is None or begun[0] != key or lost_marks:
                self.closed[key] = MARK_LOST
            elif begun[1] is None or not self.known:
                self.closed[key] = "a sample that its sums rest on was lost"
            elif self.missing["schema"]:
                self.closed[key] = "the list of counters is not whole"
            else:
                self.closed[key] = self._difference(begun[1])
        self.last = None
        if body["phase"] == "result":
            self.last = self._result(key, body)
            self.tests.setdefault(body["test"], []).append(self.last)

    def _result(self, key: tuple[int, int], body: dict) -> dict:
        operations, cycles = body["operations"], body["cycles"]
        out = {
            "round": body["round"],
            "operations": operations,
            "cycles": cycles,
            "wall": body.get("wall"),
            "cycles_per_op": cycles / operations if operations else None,
            "ns_per_op": None,
            "cpus": body.get("cpus") or [],
            "yardstick": body.get("yardstick") or [],
            "n": body.get("n", 0),
            "counted": body.get("counted"),
            "claimed": body.get("claimed"),
        }
        if operations and self.tsc_hz:
            out["ns_per_op"] = units.ns(cycles / operations, self.tsc_hz)
        found = self.closed.pop(key, MARK_LOST)
        out["complete"] = not isinstance(found, str)  # else there are no counters for this round
        out["counters"], out["locks"] = found if out["complete"] else ({}, {})
        out["lost"] = [] if out["complete"] else [found]
        return out

    def _observed(self, number: int, entry: dict) -> dict:
        """A round with what latency= and matrix= saw of it, if they were on and all of it came."""
        key = number, entry["round"]
        if key in self.latency and "latency" not in entry["lost"]:
            entry["latency"] = self.latency[key]
        if key in self.matrix and "matrix" not in entry["lost"]:
            entry["matrix"] = [[cpu, *pair] for cpu, pairs in sorted(self.matrix[key].items()) for pair in pairs]
        return entry

    def _difference(self, before: dict) -> tuple[dict, dict] | str:
        """({counter: {instance: value}}, {class: {owner: {counter: value}}}) of one round; a text where something that
        counted has no name."""
        sums: dict[tuple[int, int, int], int] = {}
        for (scope, instance, cpu, number), value in self.values.items():
            kind = self.counters.get(number, {}).get("kind")
            if kind == "sum":
                value -= before.get((scope, instance, cpu, number), 0)
            if not value:
                continue
            key = scope, instance, number
            sums[key] = max(sums.get(key, 0), value) if kind == "max" else sums.get(key, 0) + value
        counters: dict[str, dict] = {}
        locks: dict[str, dict] = {}
        for (scope, instance, number), value in sorted(sums.items()):
            if number not in self.counters or scope >= len(SCOPES):
                continue
            name = self.counters[number]["name"]
            if SCOPES[scope] in NAMED and (SCOPES[scope], instance) not in self.objects:
                return f"the name of {SCOPES[scope]} {instance} was lost"
            if SCOPES[scope] == "lock":
                lock = self.objects["lock", instance]
                owners = locks.setdefault(lock.get("class") or "unknown", {})
                row = owners.setdefault(lock["name"] or f"lock{instance}", {})
                merge = max if self.counters[number]["kind"] == "max" else int.__add__
                row[name] = merge(row.get(name, 0), value)
            else:
                row = counters.setdefault(name, {})
                label = self.objects[SCOPES[scope], instance]["name"] if SCOPES[scope] in NAMED else ""
                row[label] = row.get(label, 0) + value
        return counters, locks

    def _test(self, number: int, rounds: list[dict]) -> dict:
        about = self.objects["test", number]
        name = about["name"]
        lost = self.rounds - len({entry["round"] for entry in rounds}) if self.missing["bench"] else 0
        told = figures.collect(self.figures, name, len(rounds) if self.missing["bench"] == 0 else self.rounds)
        return {
            "name": name,
            "figures": told,
            "unit": about.get("unit") or "ns/op",
            "shape": about.get("shape") or "",
            "cpus": about.get("cpus"),
            "ns_per_op": boot_figure(entry["ns_per_op"] for entry in rounds) if not lost else None,
            "cycles_per_op": boot_figure(entry["cycles_per_op"] for entry in rounds) if not lost else None,
            "rounds_lost": max(0, lost),
            "rounds": [self._observed(number, entry) for entry in rounds],
        }

    def tests_lost(self) -> int:
        """Tests of which there is nothing, at least: their names were lost, or every one of their results."""
        told = {number: about for (kind, number), about in self.objects.items() if kind == "test"}
        named = {number for number, about in told.items() if not about.get("skip")}
        lost = self.tests.keys() - told.keys()  # one that ran short of memory half way is not lost: it is skipped
        if self.missing["bench"]:
            lost |= named - self.tests.keys()
        return len(lost) or int(bool(self.missing["bench"] and self.missing["object"]))

    def what_is_missing(self, digest: Digest, tests: list[dict]) -> list[str]:
        """For people: each kind of figure that is not there, or not whole, because something was lost."""
        if not self.tests and not digest.bye:
            return []  # a boot that ended before its tests has nothing that could be missing
        rounds = [entry for test in tests for entry in test["rounds"]]
        bare = [entry for entry in rounds if not entry["complete"]]
        told = [name for name in {test for test, _ in digest.figures}
                if any(test["name"] == name and not test["figures"] for test in tests)]
        found = []
        if not digest.hello:
            found.append("times in ns: no hello came")
        if self.missing["schema"]:
            found.append("all counters: their list is not whole")
        if bare:
            why = ", ".join(sorted({entry["lost"][0] for entry in bare}))
            found.append(f"counters of {len(bare)} of {len(rounds)} rounds: {why}")
        found += [f"the time of {test['name']}: {test['rounds_lost']} of its rounds were lost"
                  for test in tests if test["rounds_lost"]]
        if self.tests_lost():
            found.append(f"all of {self.tests_lost()} tests: their names or results were lost")
        for kind in ("latency", "matrix"):
            lost = sum(kind in entry["lost"] for entry in rounds)
            if lost and (getattr(digest, kind)):
                found.append(f"{kind} of {lost} rounds: records of it were lost")
        found += [f"figures of {name}: some of its rounds' were lost" for name in sorted(told)]
        if self.missing["check"]:
            found.append("checks, and how often two CPUs met: some were lost")
        if self.missing["object"]:
            found.append("names of caches, locks, nodes or tests: some were lost")
        return found
