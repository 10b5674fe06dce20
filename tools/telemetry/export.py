"""Tidy tables of a run: one observation a row, for spreadsheets, R and pandas.

  tests.csv     one row a test and boot that counts: the figure that is judged (`value`), and as it was measured (`raw`),
                which differ where pace or distance were taken out
  rounds.csv    one row a round of these boots
  counters.csv  one row a counter, test, cache and arm: the median over the boots
  boots.csv     one row a boot, those that do not count too: what became of it, whether it counts, and why not

The same boots, units and figures as in the report: all of it is worked out anew from the boots' bytes.
"""

import csv
import pathlib

from . import analyse, store
from .errors import HayloftError, cannot_write

BOOT_COLUMNS = ("outcome", "used", "reason", "lost", "damaged", "seconds", "started")


def to_csv(name, out=None):
    run = store.open_run(name)
    folder = pathlib.Path(out) if out else run.dir / "csv"
    results = analyse.analyse_run(run.dir)
    if not any(boot["used"] for boot in results["boots"]):
        raise HayloftError(f"{run.dir}: no boot of it counts, so there is nothing to export")
    axes = sorted({key for point in results["points"] for key in point})
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    written = [_write(folder / "tests.csv", ["boot", "pair", "arm", *axes, "test", "unit", "value", "raw"],
                      _tests(results, axes)),
               _write(folder / "rounds.csv", ["boot", "arm", *axes, "test", "round", "operations", "cycles", "wall",
                                              "ns_per_op", "cycles_per_op"], _rounds(run, results, axes)),
               _write(folder / "counters.csv", ["counter", "unit", "test", "cache", *axes, "arm", "median"],
                      _counters(results, axes)),
               _write(folder / "boots.csv", ["boot", "pair", "attempt", "arm", *axes, *BOOT_COLUMNS],
                      _boots(results, axes))]
    for path, rows in written:
        print(f"{path}: {rows} rows")
    return 0


def _write(path, header, rows):
    count = 0
    with store.aside(path) as made, open(made, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(header)
        for row in rows:
            out.writerow(["" if value is None else value for value in row])
            count += 1
    return path, count


def _point(about, axes):
    return ((about.get("point") or {}).get(key) for key in axes)


def _counting(results, point, arm):
    """The boots behind an arm's values, in the same order."""
    return [boot for boot in results["boots"] if boot["used"] and boot["arm"] == arm and boot["point"] == point]


def _tests(results, axes):
    for test in results["tests"]:
        for arm, about in test["arms"].items():
            raw = about.get("raw") or about["boots"]
            for boot, value, measured in zip(_counting(results, test["point"], arm), about["boots"], raw):
                if measured is not None:
                    yield [boot["id"], boot["pair"], arm, *_point(boot, axes), test["name"], test["unit"], value, measured]


def _rounds(run, results, axes):
    for boot, facts in analyse.digests_of(run.dir, [boot for boot in results["boots"] if boot["used"]]):
        for test in facts["tests"]:
            for found in test["rounds"]:
                yield [boot["id"], boot["arm"], *_point(boot, axes), test["name"],
                       *(found.get(key) for key in ("round", "operations", "cycles", "wall", "ns_per_op", "cycles_per_op"))]


def _counters(results, axes):
    for entry in results["counters"]:
        for arm, found in entry["arms"].items():
            yield [entry["name"], entry.get("unit"), entry["test"], entry["cache"], *_point(entry, axes), arm,
                   found.get("median")]


def _boots(results, axes):
    for boot in results["boots"]:
        yield [boot["id"], boot["pair"], boot["attempt"], boot["arm"], *_point(boot, axes),
               *(boot.get(key) for key in BOOT_COLUMNS)]
