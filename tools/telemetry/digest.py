"""One boot's bytes in, one boot's facts out: the content of result.json.

Everything comes from the telemetry stream alone (boot.json only lends the boot its identity), so an old
archive can be digested again. The kernel sends absolute values; a round's counters are the values known
at its end less those known at its begin. Records of different streams arrive out of order, so all
samples and bench marks are put in order of their time first: a value counts for a mark if it was taken
no later than the mark.

Counters come from the schema records: this file knows none by name. It sums CPUs and keeps instances
(caches, locks, nodes) apart; only values other than 0 are kept. Sums are differences, maxima and gauges
the value at the round's end.

A test that ran out of memory is skipped, and its rounds, if it had some before, are not in the result.

What it deliberately does not do: judge. Whether the CPUs were parallel is the one exception, since a
boot is void without it: see PARALLEL_RATE.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from . import decode, figures, leftout, units
from .errors import HayloftError
from .rounds import boot_figure
from .shapes import SCOPES

SCHEMA = 1
EVENTS_KEPT = 500
SHARED_PORT = "com1"
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
    decoder = decode.Decoder(shared_line)
    try:
        with open(boot_dir / "telemetry.bin", "rb") as source:
            while data := source.read(decode.READ):
                digest.take(decoder.feed(data))
        digest.take(decoder.finish())
    except FileNotFoundError:
        digest.missing = True
    except OSError as error:
        raise HayloftError(f"{boot_dir}/telemetry.bin: cannot be read: {error.strerror}") from error
    out = digest.result(decoder.next_numbers())
    return {"schema": SCHEMA, **{key: boot.get(key) for key in ("id", "arm", "point", "pair")}, **out}


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
        self.timed: list[tuple[int, int, decode.Record]] = []  # samples and bench marks

    def take(self, items: list) -> None:
        for item in items:
            if isinstance(item, decode.Record):
                if item.boot == 0:  # bytes of a later boot in the same file are not this boot's
                    self.records += 1
                    self._record(item)
            elif isinstance(item, decode.Fault):
                self.faults[item.kind] = self.faults.get(item.kind, 0) + 1
                if item.kind == "gap":
                    self.gaps[item.stream] = self.gaps.get(item.stream, 0) + item.count
                else:
                    self.damaged += 1

    def _record(self, record: decode.Record) -> None:
        body = record.body
        if record.type == "latency":
            self.latency.setdefault((body["test"], body["round"]), []).append(
                {key: body.get(key) for key in LATENCY_KEYS})
        elif record.type == "matrix":
            self.matrix.setdefault((body["test"], body["round"]), {})[body["cpu"]] = body["from"]
        elif record.type in ("sample", "bench"):
            self.timed.append((record.time, len(self.timed), record))
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
        tests = _Rounds(self).run()
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
            "parallel": parallel(self.checks, (self.hello or {}).get("knobs")),
            "tests": tests,
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


def parallel(checks: list[dict], knobs: dict | None = None) -> dict | None:
    """What the ping-pong probes say; None if there was none. ok is None where turns are all there can be."""
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
    }
    if any((knobs or {}).get(name, usual) != usual for name, usual in NOT_PROBED.items()):
        out["ok"] = None
    elif not out["ok"]:
        out["reason"] = (
            f"in {len(turns)} of {len(probes)} probes two CPUs took turns (exchanged a line less than "
            f"{PARALLEL_RATE:.0f} times a ms), more than {TURNS_ALLOWED:.0%} of them"
        )
    return out


class _Rounds:
    """Replays samples and bench marks in order of time; yields the tests with their rounds."""

    def __init__(self, digest: Digest):
        self.timed = sorted(digest.timed, key=lambda entry: entry[:2])
        self.objects = digest.objects
        self.gauges = {number for number, about in digest.counters.items() if about["kind"] == "gauge"}
        self.latency, self.matrix, self.figures = digest.latency, digest.matrix, digest.figures
        self.counters = digest.counters
        self.tsc_hz = (digest.hello or {}).get("tsc_hz") or 0
        self.values: dict[tuple[int, int, int, int], int] = {}
        self.open: dict[tuple[int, int], dict] = {}
        self.closed: dict[tuple[int, int], dict] = {}
        self.tests: dict[int, list[dict]] = {}

    def run(self) -> list[dict]:
        for _, _, record in self.timed:
            if record.type == "sample":
                self._sample(record.body, record.stream)
            else:
                self._bench(record.body)
        return [self._test(number, rounds) for number, rounds in sorted(self.tests.items())
                if not self.objects.get(("test", number), {}).get("shortage")]

    def _sample(self, rows: list, stream: int) -> None:
        """A gauge counts from the boot's own stream only: its full samples say what differs from the full sample
        before, so one that a tick saw high and that is back where it was is not told again."""
        values, skip = self.values, set() if stream == BOOT_STREAM else self.gauges
        for scope, instance, cpu, *pairs in rows:
            for at in range(0, len(pairs), 2):
                if pairs[at] not in skip:
                    values[scope, instance, cpu, pairs[at]] = pairs[at + 1]

    def _bench(self, body: dict) -> None:
        key = body["test"], body["round"]
        if body["phase"] == "begin":
            self.open[key] = dict(self.values)
            self.closed.pop(key, None)
        elif body["phase"] == "end":
            before = self.open.pop(key, None)
            if before is not None:
                self.closed[key] = self._difference(before)
        else:
            self.tests.setdefault(body["test"], []).append(self._result(key, body))

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
        marks = self.closed.pop(key, None)
        out["complete"] = marks is not None  # without both marks there are no counters for this round
        out["counters"] = marks[0] if marks else {}
        out["locks"] = marks[1] if marks else {}
        return out

    def _observed(self, number: int, entry: dict) -> dict:
        """A round with what latency= and matrix= saw of it, if they were on: those records come after its
        result."""
        key = number, entry["round"]
        if key in self.latency:
            entry["latency"] = self.latency[key]
        if key in self.matrix:
            entry["matrix"] = [[cpu, *pair] for cpu, pairs in sorted(self.matrix[key].items()) for pair in pairs]
        return entry

    def _difference(self, before: dict) -> tuple[dict, dict]:
        """({counter: {instance: value}}, {class: {owner: {counter: value}}}) of one round."""
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
            if SCOPES[scope] == "lock":
                lock = self.objects.get(("lock", instance), {})
                owners = locks.setdefault(lock.get("class") or "unknown", {})
                row = owners.setdefault(lock.get("name") or f"lock{instance}", {})
                merge = max if self.counters[number]["kind"] == "max" else int.__add__
                row[name] = merge(row.get(name, 0), value)
            else:
                row = counters.setdefault(name, {})
                label = self._instance(SCOPES[scope], instance)
                row[label] = row.get(label, 0) + value
        return counters, locks

    def _instance(self, scope: str, instance: int) -> str:
        if scope in ("cpu", "global"):
            return ""
        return self.objects.get((scope, instance), {}).get("name") or f"{scope}{instance}"

    def _test(self, number: int, rounds: list[dict]) -> dict:
        about = self.objects.get(("test", number), {})
        name = about.get("name") or f"test{number}"
        return {
            "name": name,
            "figures": figures.collect(self.figures, name),
            "unit": about.get("unit") or "ns/op",
            "shape": about.get("shape") or "",
            "cpus": about.get("cpus"),
            "ns_per_op": boot_figure(entry["ns_per_op"] for entry in rounds),
            "cycles_per_op": boot_figure(entry["cycles_per_op"] for entry in rounds),
            "rounds": [self._observed(number, entry) for entry in rounds],
        }
