"""What the live panels show, kept from records as they come; no drawing here.

What a counter means to its panel stands in timeline.py, by rules, so that none is named here.

Memory is bounded: per boot a window of WINDOW buckets of WIDTH seconds (levels: FINE times as
many), the last values of the counters that feed a panel (at most KEYS_MOST), and ROUNDS_MOST
results a test; per run one figure a test and boot. What was lost is a gap in every line: buckets
between the record before a loss and the one after it have no value. Time is the kernel's, so that
nothing moves while nothing comes.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import leftout
from ..decode import Fault, Record, Text
from ..rounds import boot_figure
from ..shapes import BOOT_STREAM, SCOPES
from .timeline import FINE, WIDTH, WINDOW, Roles, Timeline

KEYS_MOST = 100_000
ROUNDS_MOST = 101
TESTS_MOST = 1000
LEVELS_MOST = 64
LOST = ("gap", "damage", "shape", "incomplete", "foreign", "repeat")


def typed(values: dict, key: str, kind: type):
    """values[key] if it is of this kind, else an empty one: files that people may have edited are
    read so."""
    value = values.get(key)
    return value if isinstance(value, kind) else kind()


@dataclass
class Test:
    name: str
    unit: str = ""
    skip: str = ""
    values: deque = field(default_factory=lambda: deque(maxlen=ROUNDS_MOST))

    @property
    def figure(self) -> float | None:
        return boot_figure(self.values)


@dataclass
class Lock:
    label: str
    before: float = 0  # acquisitions before the present test began
    taken: float = 0
    contended: float = 0
    waited: float = 0


@dataclass
class Cache:
    name: str
    capacity: int = 0  # objects in its front end
    limits: dict[str, int] = field(default_factory=dict)  # of gauges that have one


@dataclass
class Histogram:
    """How long the calls of one level and direction took, over the rounds of a test."""

    counts: dict[int, int] = field(default_factory=dict)  # by bucket (docs/PROTOCOL.md)
    most: int = 0

    @property
    def samples(self) -> int:
        return sum(self.counts.values())


class Level(NamedTuple):
    """A gauge over time."""

    label: str
    times: list[float]
    values: list[float | None]
    unit: str = ""
    limit: int | None = None


class BootState:
    """One boot, as far as it has come."""

    def __init__(self, id: str = "", arm: str = "", pair: int = 0, point: dict | None = None):
        self.id, self.arm, self.pair, self.point = id, arm, pair, point or {}
        self.place = 0  # in the run's order, from 1; 0 without one
        self.hello: dict = {}
        self.left_out: list[dict] = []  # what its kernel had no room for
        self.hz = 0
        self.roles = Roles()
        self.timeline = Timeline()
        self.tests: dict[int, Test] = {}
        self.locks: dict[int, Lock] = {}
        self.caches: dict[int, Cache] = {}
        self.cpus: set[int] = set()
        self.timed = False
        self.test = ""
        self.round = 0
        self.outcome = ""  # bye's or "panic"
        self.records = self.lost = self.damaged = 0
        self.now = 0.0  # seconds since the first record
        self.window = ""  # the test since whose beginning the lock panel counts, and when that was
        self.window_began = 0.0
        self._start: int | None = None
        # of the newest test that sent any: by (level, call), and frees by (allocating, freeing CPU)
        self.latency: dict[tuple[str, str], Histogram] = {}
        self.matrix: dict[tuple[int, int], int] = {}
        self._observed: dict[int, tuple[dict, dict]] = {}  # the two, by test: rounds take turns
        self._values: dict[tuple, tuple[int, int]] = {}
        self._totals: dict[tuple, int] = {}  # of each gauge's line, over its instances
        self._exchanged: dict[tuple, float] = {}  # (scope, instance): with its barn, in this test
        self._barn: tuple | None = None  # the (scope, instance) that the barn's lines are of
        self._lost_since: float | None = None

    def take(self, item: Record | Fault | Text) -> None:
        if isinstance(item, Fault):
            self._fault(item)
        elif isinstance(item, Record):
            self.records += 1
            if self._start is None:
                self._start = item.time
            getattr(self, f"_take_{item.type}", self._take_other)(item)

    def seconds(self, ticks: int) -> float:
        if not self.hz or self._start is None:
            return 0.0
        return max(0.0, (ticks - self._start) / self.hz)

    def _fault(self, fault: Fault) -> None:
        if fault.kind == "gap":
            self.lost += fault.count
        elif fault.kind in LOST:
            self.damaged += 1
        if fault.kind in LOST and self._lost_since is None and fault.time is not None:
            self._lost_since = self.seconds(fault.time)

    def _take_other(self, record: Record) -> None:
        pass

    def _take_hello(self, record: Record) -> None:
        self.hello = record.body
        self.left_out = leftout.of_boot(self.hello, None)
        self.hz = record.body["tsc_hz"]
        self.cpus = {row[0] for row in record.body["cpus"]}

    def _take_schema(self, record: Record) -> None:
        self.roles.add(record.body)

    def _take_object(self, record: Record) -> None:
        body = record.body
        if body["kind"] == "test" and (body["id"] in self.tests or len(self.tests) < TESTS_MOST):
            test = self.tests.setdefault(body["id"], Test(body["name"], body.get("unit", "")))
            test.skip = body.get("skip", "")
            if test.skip:  # its memory ran out: what it had does not count
                test.values.clear()
        elif body["kind"] == "cache" and len(self.caches) < KEYS_MOST:
            cache = Cache(body["name"], body.get("capacity", 0), body.get("limits", {}))
            self.caches[body["id"]] = cache
        elif body["kind"] == "lock" and len(self.locks) < KEYS_MOST:
            label = body.get("class", "lock")
            if body["name"] and body["name"] != label:
                label = f"{label} {body['name']}"
            self.locks.setdefault(body["id"], Lock(label))

    def _take_bench(self, record: Record) -> None:
        body = record.body
        test = self.tests.get(body["test"])
        name = test.name if test else f"test {body['test']}"
        if body["phase"] == "begin":
            if name != self.test:
                self._new_test(name)
            self.timed, self.round = True, body["round"]
        elif body["phase"] == "end":
            self.timed = False
        elif test and body["operations"]:
            test.values.append(self._per_operation(test, body))

    def skipped(self) -> list[Test]:
        return [test for test in self.tests.values() if test.skip]

    def _per_operation(self, test: Test, body: dict) -> float:
        """In the test's unit: cycles are instructions where the unit says so, else turned into
        ns."""
        cycles = body["cycles"] / body["operations"]
        return cycles * 1e9 / self.hz if test.unit.startswith("ns") and self.hz else cycles

    def _new_test(self, name: str) -> None:
        self.test = self.window = name
        self.window_began = self.now
        self._exchanged.clear()
        for lock in self.locks.values():
            lock.before += lock.taken
            lock.taken = lock.contended = lock.waited = 0

    def _observe(self, body: dict) -> None:
        """Goes on with the tables of this test."""
        if body["test"] in self._observed or len(self._observed) < TESTS_MOST:
            self.latency, self.matrix = self._observed.setdefault(body["test"], ({}, {}))

    def _take_latency(self, record: Record) -> None:
        body = record.body
        self._observe(body)
        key = body["level"], body["call"]
        if key in self.latency or len(self.latency) < LEVELS_MOST:
            found = self.latency.setdefault(key, Histogram())
            found.most = max(found.most, body["max"])
            for bucket, count in body["buckets"]:
                found.counts[bucket] = found.counts.get(bucket, 0) + count

    def _take_matrix(self, record: Record) -> None:
        self._observe(record.body)
        for made_on, count in record.body["from"]:
            key = made_on, record.body["cpu"]
            self.matrix[key] = self.matrix.get(key, 0) + count

    def _take_lost(self, record: Record) -> None:
        body = record.body
        if "from" in body and "to" in body:
            self.timeline.lose(self.seconds(body["from"]), self.seconds(body["to"]))

    def _take_panic(self, record: Record) -> None:
        self.outcome, self.timed = "panic", False

    def _take_bye(self, record: Record) -> None:
        self.outcome, self.timed = record.body["outcome"], False
        self.left_out = leftout.of_boot(self.hello, record.body)

    def _take_sample(self, record: Record) -> None:
        seconds = self.seconds(record.time)
        self.now = max(self.now, seconds)
        if self._lost_since is not None:
            self.timeline.lose(self._lost_since, seconds)
            self._lost_since = None
        counters = self.roles.counters
        for row in record.body:
            scope, instance, cpu = row[:3]
            for index in range(3, len(row), 2):
                counter = counters.get(row[index])
                if counter is not None and SCOPES[scope] == counter.scope:
                    self._value(counter, instance, cpu, record, row[index + 1], seconds)

    def _value(self, counter, instance, cpu, record, value, seconds) -> None:
        key = (counter.id, instance, cpu)
        before_time, before = self._values.get(key, (-1, 0))
        if record.time < before_time or (before_time < 0 and len(self._values) >= KEYS_MOST):
            return
        self._values[key] = (record.time, value)
        place = counter.scope, instance
        if counter.kind == "gauge":
            line = (counter.role, counter.name, *(place if counter.role == "barn" else ()))
            self._totals[line] = self._totals.get(line, 0) + value - before
            self.timeline.set(line, seconds, self._totals[line])
            return
        amount = max(0, value - before)
        if counter.role in ("barn", "stored", "slabs"):
            self._exchanged[place] = self._exchanged.get(place, 0) + amount
        if counter.role == "churn":
            self.timeline.add((counter.role, counter.name), seconds, amount)
        if counter.role in ("barn", "churn"):
            return
        self.cpus.add(cpu)
        if counter.role in ("stored", "slabs") and counter.unit != "objects":
            cache = self.caches.get(instance) if counter.scope == "cache" else None
            amount *= cache.capacity if cache else 1
        self.timeline.add((counter.role, cpu), seconds, amount)
        lock = self.locks.get(instance) if counter.scope == "lock" else None
        if lock:
            setattr(lock, counter.role, getattr(lock, counter.role) + amount)

    # What the panels ask

    def contention(self, cpu: int):
        """(times, share of acquisitions contended)."""
        return self.timeline.share(("contended", cpu), ("taken", cpu))

    def waiting(self, cpu: int):
        """(times, share of the time spent waiting), or none if no wait was ever timed."""
        if not self.hz or not self.timeline.keys("waited", cpu):
            return [], []
        times, rates = self.timeline.rate(("waited", cpu))
        return times, [None if rate is None else min(1.0, rate / self.hz) for rate in rates]

    def hits(self, cpu: int):
        """(times, share of operations that the front end served)."""
        return self._part(cpu, "hit", "miss")

    def supply(self, cpu: int):
        """(times, share of the objects brought to the front end that came from the barn or depot),
        or none where there is no such thing."""
        return self._part(cpu, "stored", "slabs") if self.has_barn else ([], [])

    def _part(self, cpu: int, role: str, other: str):
        values = []
        for bucket in self.timeline.span():
            part, rest = (self.timeline.total((name, cpu), bucket) for name in (role, other))
            known = part + rest > 0 and bucket not in self.timeline.lost
            values.append(part / (part + rest) if known else None)
        return self.timeline.times(values)

    def churn(self) -> list[tuple]:
        """(label, times, amount a second) of each counter of that panel."""
        return [
            (f"{counter.name} ({counter.unit})", *self.timeline.rate(("churn", counter.name)))
            for counter in self.roles.by_panel["churn"]
        ]

    def provides(self) -> set[str]:
        """Those panels that need not be there, for which this boot has something."""
        has = {"barn": self.has_barn, "latency": self.latency, "matrix": self.matrix,
               "footprint": self.timeline.keys("footprint")}
        return {name for name, found in has.items() if found}

    @property
    def has_barn(self) -> bool:
        """Whether anything was ever in one, or could be: an image may have barns, and its boot
        arguments none."""
        return self._barn is not None or bool(self._barns())

    def _barns(self) -> dict[tuple, None]:
        """(scope, instance) of what has a barn or depot."""
        gauges = {counter.name for counter in self.roles.by_panel["barn"]
                  if counter.kind == "gauge"}
        found = {key[2:]: None for key in self.timeline.keys("barn") if len(key) > 2}
        limited = {("cache", id): None for id, cache in self.caches.items()
                   if gauges & cache.limits.keys()}
        return {**found, **limited}

    def barn_of(self) -> tuple[str, list[Level]]:
        """The cache that was exchanged with most, and the levels of its barn or depot."""
        barns = self._barns()
        if not barns:
            return "", []
        busiest = max(barns, key=lambda place: self._exchanged.get(place, 0))
        if self._barn is None or self._exchanged.get(busiest):
            self._barn = busiest
        scope, instance = self._barn
        cache = self.caches.get(instance) if scope == "cache" else None
        cache = cache or Cache(f"{scope} {instance}")
        levels = []
        for counter in self.roles.by_panel["barn"]:
            key = ("barn", counter.name, *self._barn)
            limit = cache.limits.get(counter.name)
            if counter.kind == "gauge" and (limit is not None or self.timeline.seen(key)):
                levels.append(Level(counter.name, *self.timeline.level(key), counter.unit, limit))
        return cache.name, levels

    def footprint(self) -> list[Level]:
        return [Level(counter.name, *self.timeline.level(("footprint", counter.name)), counter.unit)
                for counter in self.roles.by_panel["footprint"] if counter.kind == "gauge"]

    @property
    def crossed(self) -> tuple[int, int]:
        """Frees of another CPU's objects, and all, as far as the matrix goes."""
        away = sum(count for (made_on, freed_on), count in self.matrix.items()
                   if made_on != freed_on)
        return away, sum(self.matrix.values())

    def busiest_locks(self, most: int) -> list[Lock]:
        """Those with most contention since the test began, then the most used in the boot."""
        used = [lock for lock in self.locks.values() if lock.taken or lock.before]
        order = sorted(used,
                       key=lambda lock: (-lock.contended, -lock.before - lock.taken, lock.label))
        return order[:most]

    def figures(self) -> dict[str, float]:
        return {test.name: test.figure for test in self.tests.values() if test.values}


@dataclass
class BootSummary:
    """What a run keeps of a boot that is over, or of the one that runs."""

    id: str
    arm: str
    pair: int
    point: dict
    outcome: str | None = None  # None while it runs
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        return self.outcome in (None, "ok")

    @property
    def attempt(self) -> int:
        """03-A is the first, 03-A.2 the second."""
        number = self.id.rpartition(".")[2] if "." in self.id else "1"
        return int(number) if number.isdecimal() else 1


class RunState:
    """The run around the boots: arms, pairs, and each boot's figures."""

    def __init__(self, title: str = "", arms: dict | None = None, reference: str = ""):
        self.title, self.arms, self.reference = title, arms or {}, reference
        self.planned = 0
        self.over_committed = False
        self.state = "running"
        self.alone = False  # one boot by itself: there is nothing to compare it with
        self.boots: dict[str, BootSummary] = {}
        self.units: dict[str, str] = {}
        self.current: BootState | None = None  # the boot that sent records last
        self.coming = ""  # the boot that was started and has sent none yet
        self.provided: set[str] = set()  # by any boot so far (BootState.provides)

    def describe(self, run: dict) -> None:
        """Takes run.json as far as it goes: the view must show something of any run folder."""
        self.title = str(run.get("title") or run.get("experiment") or self.title)
        self.arms = typed(run, "arms", dict)
        self.reference = str(run.get("reference") or next(iter(self.arms), ""))
        self.planned = len(typed(run, "order", list))
        self.alone = len(self.arms) == 1 and not self.planned
        self.over_committed = bool(typed(run, "machine", dict).get("over_committed"))
        self.state = str(run.get("state") or "running")

    def where(self) -> str:
        """Which boot this is, and what it does; how many failed."""
        boot = self.current
        if self.state != "running" and not self.alone:
            good = sum(one.outcome == "ok" for one in self.boots.values())
            return f"run {self.state}: {good} of {len(self.boots)} boots ok{self.failed()}"
        if boot is None:
            coming = f"boot {self.coming} was started"
            return (coming if self.coming else "waiting for the first boot") + self.failed()
        what = boot.outcome or (f"{boot.test}, round {boot.round + 1}" if boot.test else "starting")
        if self.coming and self.boots[self.coming].outcome is None:
            what += f"; boot {self.coming} was started"
        count = f" ({boot.place} of {self.planned})" if boot.place and self.planned else ""
        arm = f", arm {boot.arm}" if boot.arm and self.arms else ""
        return f"boot {boot.id}{count}{arm}: {what}{self.failed()}"

    def failed(self) -> str:
        """'; 2 failed (1 hang, 1 panic)', '' if none did."""
        kinds = Counter(one.outcome for one in self.boots.values() if not one.counts)
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return f"; {kinds.total()} failed ({told})" if kinds else ""

    def instead(self, empty: str) -> str:
        """What a panel says that has nothing to draw: a boot that failed will not bring it any more."""
        if self.current is None:
            over = self.state != "running" and not self.alone
            return "no boot sent anything" if over else "waiting for the first boot"
        summary = self.boots.get(self.current.id)
        if summary is not None and not summary.counts:
            return f"nothing to show: boot {summary.id}\nended early: {summary.outcome}"
        return empty

    def begin(self, boot: BootState) -> None:
        """A boot was started. The boot before it stays in the picture until this one sends
        something."""
        self.boots[boot.id] = BootSummary(boot.id, boot.arm, boot.pair, boot.point)
        self.coming = boot.id
        if self.current is None and not self.planned:
            self.current = boot

    def update(self, boot: BootState) -> None:
        """After records were taken: the boot's figures so far."""
        self.current, self.coming = boot, ""
        self.provided |= boot.provides()
        summary = self.boots[boot.id]
        summary.figures = boot.figures()
        for test in boot.tests.values():
            self.units.setdefault(test.name, test.unit)

    def here(self) -> list[BootSummary]:
        """The boots at the present point of the axes that count: of a pair that was run again, the
        last try."""
        point = self.current.point if self.current else {}
        boots = [boot for boot in self.boots.values() if boot.point == point]
        last: dict[int, int] = {}
        for boot in boots:
            last[boot.pair] = max(last.get(boot.pair, 0), boot.attempt)
        return [boot for boot in boots if boot.counts and boot.attempt == last[boot.pair]]

    def tests(self, most: int) -> list[str]:
        """Tests with results, in order; if there are too many, the ones that moved last."""
        names = list(dict.fromkeys(name for boot in self.here() for name in boot.figures))
        if len(names) > most and self.current and self.current.test in names:
            end = max(most, names.index(self.current.test) + 1)
            return names[end - most : end]
        return names[:most]

    def dots(self, test: str) -> dict[str, list[float]]:
        """arm -> the figures of its boots, in their order; of a boot by itself, its newest
        rounds."""
        found: dict[str, list[float]] = {}
        if self.alone and self.current:
            tests = self.current.tests.values()
            values = [list(one.values) for one in tests if one.name == test and one.values]
            return {self.current.arm: values[-1]} if values else {}
        for boot in self.here():
            if test in boot.figures:
                found.setdefault(boot.arm, []).append(boot.figures[test])
        return found

    def over(self, test: str) -> dict[str, float]:
        """other arm -> the reference's newest boot over that arm's newest, in this test."""
        dots = self.dots(test)
        base = dots.get(self.reference)
        if not base:
            return {}
        return {arm: base[-1] / values[-1] for arm, values in dots.items()
                if arm != self.reference and values[-1] > 0}


__all__ = ["BOOT_STREAM", "FINE", "WIDTH", "WINDOW", "BootState", "BootSummary", "Lock", "RunState",
           "Test", "Timeline"]
