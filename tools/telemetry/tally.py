"""Counters and locks of a run, from the rounds of its boots: who counted what, by arm.

Input: for each arm the digests of its boots. Sums are added over a test's timed rounds; a maximum is the
largest; a gauge is the value at the end of the test's last round. Sums over all tests add sums and take
the largest of the rest. Derived counters are worked out from the formulas that the kernel sent with its
schema. No name is known here.

Throughput differs between arms, so besides the plain sum each entry has the figure for one operation of
the test (for a sum over all tests: the mean of the tests' figures), and that is what the p values are about.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from . import verdict

_TERM = re.compile(r"([+-]?)\s*([A-Za-z_][A-Za-z0-9_.]*)")
COUNTER_DRAWS = 4000  # labellings drawn for the counters where they cannot be listed: there are many counters
SMALL_CHANGE = 0.01  # a counter that moved by less an operation is not called changed
PAGE_BYTES = 4096

Key = tuple[str, str | None, str | None]  # counter, test, cache


def formula_terms(formula: str) -> list[tuple[int, str]]:
    """'a + b - c' as [(1, 'a'), (1, 'b'), (-1, 'c')]."""
    return [(-1 if sign == "-" else 1, name) for sign, name in _TERM.findall(formula)]


class BootTally:
    """One boot's figures: values by (counter, test, cache), locks by (class, test)."""

    def __init__(self, digest: dict, schema: dict[str, dict]):
        self.schema = schema
        self.values: dict[Key, float] = {}
        self.locks: dict[tuple[str, str | None], dict[str, dict[str, int]]] = {}
        self.operations: dict[str | None, int] = {}
        self.incomplete: list[str] = ["?"] * (digest.get("tests_lost") or 0)
        for test in digest.get("tests") or []:
            self._test(test)
        self._derive()
        self._totals()

    def _test(self, test: dict) -> None:
        name = test["name"]
        if test.get("rounds_lost") or not all(entry["complete"] for entry in test["rounds"]):
            self.incomplete.append(name)
            return
        self.operations[name] = sum(entry["operations"] for entry in test["rounds"])
        last = test["rounds"][-1]
        for entry in test["rounds"]:
            for counter, by_instance in entry["counters"].items():
                if self._kind(counter) == "gauge" and entry is not last:
                    continue
                for instance, value in by_instance.items():
                    cache = instance if self._scope(counter) == "cache" else None
                    _merge(self.values, (counter, name, cache), value, self._kind(counter))
            for lock_class, owners in entry["locks"].items():
                row = self.locks.setdefault((lock_class, name), {})
                for owner, values in owners.items():
                    for counter, value in values.items():
                        _merge(row.setdefault(owner, {}), counter, value, self._kind(counter))

    def _scope(self, counter: str) -> str:
        return self.schema.get(counter, {}).get("scope", "")

    def _kind(self, counter: str) -> str:
        return self.schema.get(counter, {}).get("kind", "sum")

    def _derive(self) -> None:
        """Derived counters for each test and cache, where any of their parts is there."""
        for name, about in self.schema.items():
            if about["kind"] != "derived":
                continue
            terms = formula_terms(about.get("formula") or "")
            parts = {part for _, part in terms}
            places = {key[1:] for key in self.values if key[0] in parts}
            for test, cache in places:
                total = sum(sign * self.values.get((part, test, cache), 0) for sign, part in terms)
                if total:
                    self.values[name, test, cache] = total

    def _totals(self) -> None:
        """Adds (counter, test, None) over caches and (counter, None, None) over tests."""
        for (name, test, cache), value in list(self.values.items()):
            if cache is not None:
                # Different caches hold different things at the same time: gauges add up as well.
                _merge(self.values, (name, test, None), value, "max" if self._kind(name) == "max" else "sum")
        for (name, test, cache), value in list(self.values.items()):
            if cache is None and test is not None:
                kind = self._kind(name)
                _merge(self.values, (name, None, None), value, "sum" if kind in ("sum", "derived") else "max")
        for (lock_class, test), owners in list(self.locks.items()):
            if test is None:
                continue
            row = self.locks.setdefault((lock_class, None), {})
            for owner, values in owners.items():
                for counter, value in values.items():
                    _merge(row.setdefault(owner, {}), counter, value, self._kind(counter))
        self.operations[None] = sum(count for name, count in self.operations.items() if name is not None)

    def counts(self, test: str | None) -> bool:
        """Whether this boot knows all that a test counted; None: that every test did."""
        return bool(self.operations.get(test)) and not (test is None and self.incomplete)

    def mean_rate(self, counter: str) -> float:
        """Of the tests' figures for one operation: every test weighs the same, however many operations it did."""
        rates = [self.values.get((counter, test, None), 0) / count
                 for test, count in self.operations.items() if test is not None and count]
        return sum(rates) / len(rates) if rates else math.nan


def _merge(into: dict, key, value: float, kind: str) -> None:
    into[key] = max(into.get(key, value), value) if kind == "max" else into.get(key, 0) + value


# -- counters -------------------------------------------------------------------------------------


@dataclass
class Point:
    """What was counted at one axis point: pair number and tally of each boot used, by arm."""

    point: dict
    arms: dict[str, list[tuple[int, "BootTally"]]]
    keys: list[Key] = field(default_factory=list)
    tables: dict[str, "_Table"] = field(default_factory=dict)


def counters(points: list[Point], reference: str, schema: dict, rules: verdict.Rules) -> list[dict]:
    """The entries of results.json, point by point."""
    for here in points:
        here.keys = _keys(here.arms, schema)
        here.tables = {arm: _table(boots, here.keys) for arm, boots in here.arms.items()}
    p_values = _p_values(points, reference, schema, rules)
    return [entry for number, here in enumerate(points)
            for entry in _entries(here, reference, schema, {key[1:]: p for key, p in p_values.items() if key[0] == number})]


def _entries(here: Point, reference: str, schema: dict, p_values: dict) -> list[dict]:
    keys, tables, point = here.keys, here.tables, here.point
    entries = []
    for column, (name, test, cache) in enumerate(keys):
        key, about = keys[column], schema[name]
        entry = {"name": name, "test": test, "cache": cache, "point": point, "unit": about["unit"],
                 "kind": about["kind"], "arms": {}, "versus": {}}
        for arm, table in tables.items():
            entry["arms"][arm] = {"median": _median(table.plain[:, column]), "per_op": _median(table.per_op[:, column])}
        for arm in tables:
            if arm != reference:
                entry["versus"][arm] = _change(entry["arms"][reference], entry["arms"][arm],
                                               p_values.get((arm, key)))
        entries.append(entry)
    return entries


def _keys(arms: dict, schema: dict[str, dict]) -> list[Key]:
    """Every entry that some boot has, by schema order; the sums over everything last for their name."""
    order = {name: number for number, name in enumerate(schema)}
    tests: dict[str, int] = {}
    present = set()
    for boots in arms.values():
        for _, tally in boots:
            present.update(key for key in tally.values if key[0] in order)
            for test in tally.operations:
                if test is not None:
                    tests.setdefault(test, len(tests))
    last = len(tests)
    return sorted(
        present,
        key=lambda key: (order[key[0]], tests.get(key[1], last), key[2] is None, key[2] or ""),
    )


@dataclass
class _Table:
    """A row a boot, a column a key; NaN where the boot's rounds were incomplete."""

    plain: np.ndarray
    per_op: np.ndarray
    operations: np.ndarray


def _table(boots: list, keys: list[Key]) -> _Table:
    shape = len(boots), len(keys)
    table = _Table(np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan))
    for row, (_, tally) in enumerate(boots):
        for column, (name, test, cache) in enumerate(keys):
            count = tally.operations.get(test)
            if not tally.counts(test):
                continue
            value = tally.values.get((name, test, cache), 0)
            table.plain[row, column] = value
            table.operations[row, column] = count
            table.per_op[row, column] = value / count if test is not None else tally.mean_rate(name)
    return table


def _p_values(points: list[Point], reference: str, schema: dict, rules: verdict.Rules) -> dict:
    """{(point's number, arm, key): p}; the family is every counter of the run that is a sum, at all points: a row is a pair.
    The figure for one operation and the sum must both differ by more than chance, so p is the larger of theirs: what goes
    by time (telemetry's records) falls for one operation wherever an arm is faster."""
    columns = [(number, c) for number, here in enumerate(points) for c, key in enumerate(here.keys)
               if schema[key[0]]["kind"] in ("sum", "derived")]
    found: dict = {}
    rules = verdict.Rules(scheme=rules.scheme, arms_compared=rules.arms_compared, seed=rules.seed,
                          draws=COUNTER_DRAWS)
    for measure in (_log_rate, _log_sum):
        sides = {arm: _side(points, arm, columns, measure) for arm in points[0].arms} if columns else {}
        for arm in sides:
            if arm == reference or min(len(sides[arm].values), len(sides[reference].values)) < 2:
                continue
            for (number, c), p in zip(columns, verdict.family_p(sides[reference], sides[arm], rules)):
                key = number, arm, points[number].keys[c]
                found[key] = max(float(p), found.get(key, 0.0))
    return found


def _side(points: list[Point], arm: str, columns: list[tuple[int, int]], measure) -> verdict.Side:
    blocks = []
    for number, here in enumerate(points):
        chosen = [c for of, c in columns if of == number]
        blocks.append(([pair for pair, _ in here.arms[arm]], measure(here.tables[arm], chosen)))
    return verdict.Side(*verdict.rows_by_pair(blocks))


def _log_rate(table: _Table, chosen: list[int]) -> np.ndarray:
    """Logarithm of the rate an operation; one event in a boot is the least that can be told from none."""
    return np.log(np.maximum(table.per_op[:, chosen], 0) + 1 / table.operations[:, chosen])


def _log_sum(table: _Table, chosen: list[int]) -> np.ndarray:
    return np.log(np.maximum(table.plain[:, chosen], 0) + 1)


def _change(reference: dict, arm: dict, p: float | None) -> dict:
    out = {"change": _relative(reference["median"], arm["median"]),
           "per_op_change": _relative(reference["per_op"], arm["per_op"]), "p": p, "verdict": "none"}
    if p is not None:
        moved = _moved(out["change"], arm["median"]) and _moved(out["per_op_change"], arm["per_op"])
        same_way = _way(reference["median"], arm["median"]) == _way(reference["per_op"], arm["per_op"])
        out["verdict"] = "changed" if p <= verdict.ALPHA and moved and same_way else "undecided"
    return out


def _moved(change: float | None, after: float | None) -> bool:
    """Both the sum and the figure an operation must move: else only the speed did (ticks a second are the same,
    ticks an operation are not)."""
    return bool(after) if change is None else abs(change) >= SMALL_CHANGE


def _way(before: float | None, after: float | None) -> int:
    """Of a counter that goes partly by operations and partly by time the sum rises and the figure an operation falls
    wherever an arm is faster: nothing but the speed changed."""
    return 0 if before is None or after is None else int(np.sign(after - before))


def _relative(before: float | None, after: float | None) -> float | None:
    """Null where the reference is 0: there is no ratio to nothing."""
    if before is None or after is None or before == 0:
        return None
    return after / before - 1


def _median(values) -> float | None:
    values = [float(v) for v in values if v is not None and np.isfinite(v)]
    return median(values) if values else None


def boots_of(here: Point, schema: dict, kind: str, name: str, field: str, test: str | None) -> dict[str, list[float]]:
    """One figure of an entry of results.json, boot by boot: a counter's sum, or a field of a lock class."""
    if kind == "counter":
        if (name, test, None) not in here.keys:
            return {arm: [0.0] * len(boots) for arm, boots in here.arms.items()}  # never sent
        column = here.keys.index((name, test, None))
        return {arm: [float(v) for v in table.plain[:, column] if np.isfinite(v)] for arm, table in here.tables.items()}
    names = [n for n, about in schema.items() if about["scope"] == "lock" and about["kind"] != "derived"]
    return {arm: [_lock_row([_over_owners(tally.locks.get((name, test), {}), schema)], names, schema).get(field)
                  for _, tally in boots] for arm, boots in here.arms.items()}


# -- locks ----------------------------------------------------------------------------------------


def locks(arms: dict[str, list[tuple[int, BootTally]]], schema: dict, point: dict) -> list[dict]:
    """One entry a class and test, the class's sum over tests last; by owner inside."""
    names = [name for name, about in schema.items() if about["scope"] == "lock" and about["kind"] != "derived"]
    present: dict[tuple[str, str | None], set[str]] = {}
    for boots in arms.values():
        for _, tally in boots:
            for key, owners in tally.locks.items():
                present.setdefault(key, set()).update(owners)
    classes = list(dict.fromkeys(key[0] for key in present))
    entries = []
    for lock_class in classes:
        tests = [test for name, test in present if name == lock_class and test is not None]
        for test in [*tests, None]:
            owners = sorted(present[lock_class, test])
            entry = {"name": lock_class, "test": test, "point": point, "arms": {}, "owners": {}}
            for arm, boots in arms.items():
                rows = [tally.locks.get((lock_class, test), {}) for _, tally in boots if tally.counts(test)]
                entry["arms"][arm] = _lock_row([_over_owners(row, schema) for row in rows], names, schema)
            for owner in owners:
                entry["owners"][owner] = {
                    arm: _lock_row([tally.locks.get((lock_class, test), {}).get(owner, {}) for _, tally in boots
                                    if tally.counts(test)], names, schema)
                    for arm, boots in arms.items()
                }
            entries.append(entry)
    return entries


def _over_owners(owners: dict[str, dict], schema: dict) -> dict:
    total: dict = {}
    for values in owners.values():
        for counter, value in values.items():
            _merge(total, counter, value, schema.get(counter, {}).get("kind", "sum"))
    return total


def _lock_row(boots: list[dict], names: list[str], schema: dict) -> dict:
    """Medians over boots; besides, each counter in the unit of the first as its share of the first."""
    row = {name: _median([values.get(name, 0) for values in boots]) for name in names}
    if not names:
        return row
    first = names[0]
    for name in names[1:]:
        if schema[name]["unit"] == schema[first]["unit"] and schema[name]["kind"] == "sum":
            # A lock that was never taken was never found taken.
            shares = [values.get(name, 0) / values[first] if values.get(first) else 0.0 for values in boots]
            row[f"{name}_share"] = _median(shares)
    return row


# -- memory held ----------------------------------------------------------------------------------


def footprint(arms: dict[str, list[tuple[int, BootTally]]], digests: list[dict], schema: dict) -> list[dict]:
    """What each layer held at the end of a test's rounds, at most over the tests, in bytes where it can be said."""
    sizes = {cache["name"]: cache.get("size") or 0 for digest in digests for cache in digest.get("caches") or []}
    entries = []
    for name, about in schema.items():
        if about["kind"] != "gauge" or about["scope"] not in ("cache", "node"):
            continue
        entry = {"name": name, "unit": about["unit"], "doc": about.get("doc", ""),
                 "panel": about.get("panel", "none"), "arms": {}}
        for arm, boots in arms.items():
            values, in_bytes = [], []
            for _, tally in boots:
                if not tally.counts(None):
                    continue
                values.append(tally.values.get((name, None, None), 0))
                in_bytes.append(_bytes_held(tally, name, about["unit"], sizes))
            known = bool(in_bytes) and all(value is not None for value in in_bytes)
            entry["arms"][arm] = {"median": _median(values), "bytes": _median(in_bytes) if known else None}
        if any(arm["median"] for arm in entry["arms"].values()):
            entries.append(entry)
    return entries


def _bytes_held(tally: BootTally, name: str, unit: str, sizes: dict[str, int]) -> float | None:
    if unit == "bytes":
        return tally.values.get((name, None, None), 0)
    if unit == "pages":
        return tally.values.get((name, None, None), 0) * PAGE_BYTES
    if unit != "objects":
        return None
    by_test: dict[str, float] = {}
    for (counter, test, cache), value in tally.values.items():
        if counter == name and cache is not None and test is not None:
            by_test[test] = by_test.get(test, 0) + value * sizes.get(cache, 0)
    return max(by_test.values(), default=0)
