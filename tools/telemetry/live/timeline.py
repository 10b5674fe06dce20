"""What each counter means to its panel, and values over time; no drawing here.

Which counter feeds which panel is the schema's `panel` column. A panel needs to know what its
counters mean to one another; these rules say it, so that no counter is named here:

  contention  (lock scope) the first counter in ops counts acquisitions, the second the contended
              ones; the first in cycles the time waited
  hits        a counter whose name ends in _fast, _hit or _prefilled counts what a CPU had itself and
              took no lock for; the others what it had to go further for, to a barn or depot too.
              That is the same under every front end
  supply      objects that came to the front end from behind it: from slabs if the counter's name
              begins with refill, else from the barn or depot. What is not counted in objects comes
              by the cache's capacity
  barn        each gauge is a line of its own, of one cache: the one that was exchanged with most
              since the test began. The limits of a gauge come with the cache's name
  churn       each counter is a line of its own: how much of it a second
  footprint   each gauge is a line of its own: how much of it there is, over all instances

A Timeline keeps the newest WINDOW buckets of WIDTH seconds, levels in FINE parts of each, and which
of them something was lost in.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 0.5  # seconds a bucket
WINDOW = 240  # buckets kept
FINE = 4  # levels are kept in so many parts of a bucket: they change within one
PANELS = ("contention", "hits", "supply", "barn", "churn", "footprint")


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
            return "hit" if counter.name.endswith(("_fast", "_hit", "_prefilled")) else "miss"
        if panel == "supply":
            return "slabs" if counter.name.startswith("refill") else "stored"
        return panel


class Timeline:
    """Sums and last values in buckets of time, the newest WINDOW of them."""

    def __init__(self):
        self.latest = 0  # the bucket that still fills
        self.lost: set[int] = set()
        self._sums: dict[tuple, dict[int, float]] = {}
        self._last: dict[tuple, dict[int, float]] = {}  # in FINE parts of a bucket
        self._before: dict[tuple, float] = {}  # the newest value that is older than the window

    def _advance(self, seconds: float) -> int:
        bucket = max(0, int(seconds / WIDTH))
        if bucket > self.latest:
            self.latest = bucket
            oldest = bucket - WINDOW
            for table in self._sums.values():
                for old in [number for number in table if number < oldest]:
                    del table[old]
            for key, table in self._last.items():
                for old in sorted(number for number in table if number < oldest * FINE):
                    self._before[key] = table.pop(old)
            self.lost = {number for number in self.lost if number >= oldest}
        return bucket

    def add(self, key: tuple, seconds: float, amount: float) -> None:
        bucket = self._advance(seconds)
        table = self._sums.setdefault(key, {})
        table[bucket] = table.get(bucket, 0) + amount

    def set(self, key: tuple, seconds: float, value: float) -> None:
        self._advance(seconds)
        self._last.setdefault(key, {})[max(0, int(seconds / WIDTH * FINE))] = value

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
        """The level at the end of each part of a bucket."""
        table, value = self._last.get(key, {}), self._before.get(key, 0.0)
        times, values = [], []
        for bucket in self.span():
            for part in range(bucket * FINE, (bucket + 1) * FINE):
                value = table.get(part, value)
                times.append((part + 1) * WIDTH / FINE)
                values.append(None if bucket in self.lost else value)
        return times, values
