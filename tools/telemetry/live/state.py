"""What the live panels show, kept from records as they come; no drawing here.

Which counter feeds which panel is the schema's `panel` column. A panel needs to know what its
counters mean to one another; these rules say it, so that no counter is named here:

  contention  (lock scope) the first counter in ops counts acquisitions, the second the contended
              ones; the first in cycles the time waited
  hits        a counter whose name ends in _fast or _hit counts what the front end served; the
              others what it did not
  barn        each counter is a line of its own: how much of it there is
  churn       each counter is a line of its own: how much of it a second
  footprint   each gauge is a line of its own: how much of it there is, over all instances

Memory is bounded: per boot a window of WINDOW buckets of WIDTH seconds, the last values of the
counters that feed a panel (at most KEYS_MOST), and ROUNDS_MOST results a test; per run one figure a
test and boot. What was lost is a gap in every line: buckets between the record before a loss and
the one after it have no value. Time is the kernel's, so that nothing moves while nothing comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..decode import Fault, Record, Text
from ..rounds import boot_figure
from ..shapes import BOOT_STREAM, SCOPES

WIDTH = 0.5  # seconds a bucket
WINDOW = 240  # buckets kept
KEYS_MOST = 100_000
ROUNDS_MOST = 101
TESTS_MOST = 1000
LEVELS_MOST = 64
PANELS = ("contention", "hits", "barn", "churn", "footprint")
LOST = ("gap", "damage", "shape", "incomplete", "foreign", "repeat")


def typed(values: dict, key: str, kind: type):
    """values[key] if it is of this kind, else an empty one: files that people may have edited are
    read so."""
    value = values.get(key)
    return value if isinstance(value, kind) else kind()


@dataclass
class Counter:
    id: int
    name: str
    unit: str
    kind: str
    scope: str
    role: str


class Roles:
    """Gives each counter that feeds a panel its part in it."""

    def __init__(self):
        self.counters: dict[int, Counter] = {}
        self.by_panel: dict[str, list[Counter]] = {panel: [] for panel in PANELS}

    def add(self, body: dict) -> None:
        panel = body.get("panel")
        if panel not in self.by_panel or body["kind"] == "derived" or body["id"] in self.counters:
            return
        counter = Counter(body["id"], body["name"], body["unit"], body["kind"], body["scope"], "")
        counter.role = self._role(panel, counter)
        if counter.role:
            self.counters[counter.id] = counter
            self.by_panel[panel].append(counter)

    def _role(self, panel: str, counter: Counter) -> str:
        if panel == "contention":
            taken = {other.role for other in self.by_panel[panel]}
            roles = ("taken", "contended") if counter.unit == "ops" else ("waited",)
            return next((role for role in roles if role not in taken), "")
        if panel == "hits":
            return "hit" if counter.name.endswith(("_fast", "_hit")) else "miss"
        return panel


class Timeline:
    """Sums and last values in buckets of time, the newest WINDOW of them."""

    def __init__(self):
        self.latest = 0  # the bucket that still fills
        self.lost: set[int] = set()
        self._sums: dict[tuple, dict[int, float]] = {}
        self._last: dict[tuple, dict[int, float]] = {}

    def _advance(self, seconds: float) -> int:
        bucket = max(0, int(seconds / WIDTH))
        if bucket > self.latest:
            self.latest = bucket
            oldest = bucket - WINDOW
            for table in (*self._sums.values(), *self._last.values()):
                for old in [number for number in table if number < oldest]:
                    del table[old]
            self.lost = {number for number in self.lost if number >= oldest}
        return bucket

    def add(self, key: tuple, seconds: float, amount: float) -> None:
        bucket = self._advance(seconds)
        table = self._sums.setdefault(key, {})
        table[bucket] = table.get(bucket, 0) + amount

    def set(self, key: tuple, seconds: float, value: float) -> None:
        self._last.setdefault(key, {})[self._advance(seconds)] = value

    def lose(self, start: float, end: float) -> None:
        last = self._advance(end)
        first = max(int(start / WIDTH), last - WINDOW)
        self.lost.update(range(max(0, first), last + 1))

    def span(self) -> range:
        """The buckets that are complete."""
        return range(max(0, self.latest - WINDOW + 1), self.latest)

    def keys(self, *head) -> list[tuple]:
        size = len(head)
        return sorted(key for key in {*self._sums, *self._last} if key[:size] == head)

    def total(self, key: tuple, bucket: int) -> float:
        return self._sums.get(key, {}).get(bucket, 0)

    def share(self, part: tuple, whole: tuple) -> tuple[list[float], list[float | None]]:
        """Times and part/whole; None where nothing happened or something was lost."""
        values = []
        for bucket in self.span():
            base = self.total(whole, bucket)
            known = base > 0 and bucket not in self.lost
            values.append(min(1.0, self.total(part, bucket) / base) if known else None)
        return self.times(values)

    def times(self, values: list) -> tuple[list[float], list[float | None]]:
        """Values of the whole span with their times; nothing at all if there is no value among
        them."""
        if all(value is None for value in values):
            return [], []
        return [(bucket + 0.5) * WIDTH for bucket in self.span()], values

    def rate(self, key: tuple) -> tuple[list[float], list[float | None]]:
        span = self.span()
        times = [(bucket + 0.5) * WIDTH for bucket in span]
        return times, [None if bucket in self.lost else self.total(key, bucket) / WIDTH
                       for bucket in span]

    def seen(self, key: tuple) -> bool:
        """Whether this level was ever sent; only a level that is not 0 is."""
        return key in self._last

    def level(self, key: tuple) -> tuple[list[float], list[float | None]]:
        table = self._last.get(key, {})
        times, values, value = [], [], 0.0
        for bucket in self.span():
            value = table.get(bucket, value)
            times.append((bucket + 0.5) * WIDTH)
            values.append(None if bucket in self.lost else value)
        return times, values


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


class BootState:
    """One boot, as far as it has come."""

    def __init__(self, id: str = "", arm: str = "", pair: int = 0, point: dict | None = None):
        self.id, self.arm, self.pair, self.point = id, arm, pair, point or {}
        self.place = 0  # in the run's order, from 1; 0 without one
        self.hello: dict = {}
        self.hz = 0
        self.roles = Roles()
        self.timeline = Timeline()
        self.tests: dict[int, Test] = {}
        self.locks: dict[int, Lock] = {}
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
        self.latency: dict[tuple[str, str], dict] = {}  # (level, call) of the newest round that sent any
        self.crossed: tuple[int, int] = (0, 0)  # frees of another CPU's objects, and all, of that round
        self._observed_round: tuple | None = None
        self._values: dict[tuple, tuple[int, int]] = {}
        self._totals: dict[int, int] = {}  # of each gauge, over its instances
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
        self.hz = record.body["tsc_hz"]
        self.cpus = {row[0] for row in record.body["cpus"]}

    def _take_schema(self, record: Record) -> None:
        self.roles.add(record.body)

    def _take_object(self, record: Record) -> None:
        body = record.body
        if body["kind"] == "test" and len(self.tests) < TESTS_MOST:
            test = Test(body["name"], body.get("unit", ""), body.get("skip", ""))
            self.tests.setdefault(body["id"], test)
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

    def _per_operation(self, test: Test, body: dict) -> float:
        """In the test's unit: cycles are instructions where the unit says so, else turned into
        ns."""
        cycles = body["cycles"] / body["operations"]
        return cycles * 1e9 / self.hz if test.unit.startswith("ns") and self.hz else cycles

    def _new_test(self, name: str) -> None:
        self.test = self.window = name
        self.window_began = self.now
        for lock in self.locks.values():
            lock.before += lock.taken
            lock.taken = lock.contended = lock.waited = 0

    def _observe(self, body: dict) -> None:
        """The tables are of one round: another one's begin anew."""
        if self._observed_round != (body["test"], body["round"]):
            self._observed_round = body["test"], body["round"]
            self.latency, self.crossed = {}, (0, 0)

    def _take_latency(self, record: Record) -> None:
        self._observe(record.body)
        if len(self.latency) < LEVELS_MOST:
            self.latency[record.body["level"], record.body["call"]] = record.body

    def _take_matrix(self, record: Record) -> None:
        self._observe(record.body)
        pairs = record.body["from"]
        away = sum(count for cpu, count in pairs if cpu != record.body["cpu"])
        self.crossed = self.crossed[0] + away, self.crossed[1] + sum(count for _, count in pairs)

    def _take_lost(self, record: Record) -> None:
        body = record.body
        if "from" in body and "to" in body:
            self.timeline.lose(self.seconds(body["from"]), self.seconds(body["to"]))

    def _take_panic(self, record: Record) -> None:
        self.outcome, self.timed = "panic", False

    def _take_bye(self, record: Record) -> None:
        self.outcome, self.timed = record.body["outcome"], False

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
        if counter.kind == "gauge":
            total = self._totals.get(counter.id, 0) + value - before
            self._totals[counter.id] = total
            self.timeline.set((counter.role, counter.name), seconds, total)
            return
        amount = max(0, value - before)
        if counter.role in ("barn", "churn"):
            self.timeline.add((counter.role, counter.name), seconds, amount)
            return
        self.cpus.add(cpu)
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
        values = []
        for bucket in self.timeline.span():
            hit, miss = (self.timeline.total((role, cpu), bucket) for role in ("hit", "miss"))
            known = hit + miss > 0 and bucket not in self.timeline.lost
            values.append(hit / (hit + miss) if known else None)
        return self.timeline.times(values)

    def churn(self) -> list[tuple]:
        """(label, times, amount a second) of each counter of that panel."""
        return [
            (f"{counter.name} ({counter.unit})", *self.timeline.rate(("churn", counter.name)))
            for counter in self.roles.by_panel["churn"]
        ]

    @property
    def has_barn(self) -> bool:
        """Whether anything was ever in one: an image may have barns, and its boot arguments none."""
        return any(self.timeline.seen(("barn", counter.name)) for counter in self.roles.by_panel["barn"])

    def barn(self) -> list[tuple]:
        return [
            (counter.name, *self.timeline.level(("barn", counter.name)))
            for counter in self.roles.by_panel["barn"] if counter.kind == "gauge"
        ]

    def footprint(self) -> list[tuple]:
        return [(counter.name, *self.timeline.level(("footprint", counter.name)))
                for counter in self.roles.by_panel["footprint"] if counter.kind == "gauge"]

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
        """Which boot this is, and what it does."""
        boot = self.current
        if boot is None:
            coming = f"boot {self.coming} was started"
            return coming if self.coming else "waiting for the first boot"
        what = boot.outcome or (f"{boot.test}, round {boot.round + 1}" if boot.test else "starting")
        if self.state != "running":
            what = f"run {self.state}"
        elif self.coming:
            what += f"; boot {self.coming} was started"
        count = f" ({boot.place} of {self.planned})" if boot.place and self.planned else ""
        arm = f", arm {boot.arm}" if boot.arm and self.arms else ""
        return f"boot {boot.id}{count}{arm}: {what}"

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


__all__ = ["BOOT_STREAM", "BootState", "BootSummary", "Lock", "RunState", "Test", "Timeline"]
