"""Tidy tables of a run: one observation a row, for spreadsheets, R and pandas.

  tests.csv     one row a test and boot: the geometric mean of its rounds
  rounds.csv    one row a round
  counters.csv  one row a counter, test, cache and arm: the median over the boots

Made from results.json and the boots' result.json; nothing is computed here that is not there.
"""

import csv
import pathlib

from . import progress, store
from .errors import HayloftError


def to_csv(name, out=None):
    run = store.open_run(name)
    folder = pathlib.Path(out) if out else run.dir / "csv"
    results = store.read_json(run.dir / "results.json", f"./hayloft report {run.dir} makes it")
    folder.mkdir(parents=True, exist_ok=True)
    axes = sorted({key for point in run.info["points"] for key in point})
    boots = [boot for boot in run.boots().values() if boot["outcome"] == "ok"]
    if not boots:
        raise HayloftError(f"{run.dir}: no boot of it went well, so there is nothing to export")
    written = [_write(folder / "tests.csv", ["boot", "pair", "arm", *axes, "test", "unit", "value"],
                      _tests(run, boots, axes)),
               _write(folder / "rounds.csv", ["boot", "arm", *axes, "test", "round", "operations", "cycles", "wall",
                                              "ns_per_op"], _rounds(run, boots, axes)),
               _write(folder / "counters.csv", ["counter", "unit", "test", "cache", *axes, "arm", "median"],
                      _counters(results, axes))]
    for path, rows in written:
        print(f"{path}: {rows} rows")
    return 0


def _write(path, header, rows):
    count = 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(header)
        for row in rows:
            out.writerow(["" if value is None else value for value in row])
            count += 1
    return path, count


def _result(run, boot):
    path = run.boots_dir / boot["id"] / "result.json"
    return store.read_json(path, f"./hayloft report {run.dir} makes it again")


def _tests(run, boots, axes):
    for boot in boots:
        for (test, unit), value in progress.boot_figures(_result(run, boot)).items():
            yield [boot["id"], boot["pair"], boot["arm"], *(boot["point"].get(key) for key in axes), test, unit, value]


def _rounds(run, boots, axes):
    for boot in boots:
        for test in _result(run, boot)["tests"]:
            for found in test["rounds"]:
                yield [boot["id"], boot["arm"], *(boot["point"].get(key) for key in axes), test["name"],
                       *(found.get(key) for key in ("round", "operations", "cycles", "wall", "ns_per_op"))]


def _counters(results, axes):
    for entry in results["counters"]:
        for arm, found in entry["arms"].items():
            yield [entry["name"], entry.get("unit"), entry["test"], entry["cache"],
                   *((entry.get("point") or {}).get(key) for key in axes), arm, found.get("median")]
