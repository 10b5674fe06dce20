"""The verbs that only list: knobs, counters, experiments, list."""

import tomllib

from rich.table import Table

from . import ROOT, console as consoles, defs, experiment, image, store
from .errors import HayloftError


def _print(table):
    consoles.console().print(table)


def _table(*columns):
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=index < len(columns) - 1, overflow="fold")
    return table


def knobs(path=None):
    """Every knob with its default: of an image, or of this tree."""
    if path:
        found = image.read_knobs(path)
    else:
        found = defs.parse_knobs((ROOT / "base" / "knobs.def").read_text())
    table = _table("knob", "default", "legal", "what it is")
    for knob in found:
        where = "" if knob.where == "all" else f" ({'booted machines' if knob.where == 'metal' else 'host'} only)"
        table.add_row(knob.name, knob.default, knob.range_text(), knob.doc + where)
        for value, doc in knob.values:
            table.add_row("", "", f"  {value}", doc)
    _print(table)
    return 0


def counters():
    table = _table("counter", "scope", "kind", "unit", "panel", "what it counts")
    for counter in defs.parse_counters((ROOT / "base" / "counters.def").read_text()):
        doc = f"{counter.doc} (= {counter.formula})" if counter.formula else counter.doc
        panel = "" if counter.panel == "none" else counter.panel
        table.add_row(counter.name, counter.scope, counter.kind, counter.unit, panel, doc)
    _print(table)
    return 0


def experiments():
    table = _table("experiment", "boots", "what it asks")
    for path in experiment.shipped_files():
        try:
            found = experiment.load(path)
            boots = len(found.arms) * found.pairs * len(found.points)
            table.add_row(path.stem, str(boots), found.title)
        except HayloftError as error:
            table.add_row(path.stem, "", f"cannot be used: {error}")
    _print(table)
    return 0


def _title(folder):
    try:
        return tomllib.loads((folder / "experiment.toml").read_text()).get("title", "")
    except (OSError, ValueError):
        return ""


def runs():
    """What is archived under runs/, oldest first. A run that cannot be read is listed as such."""
    folders = store.folders()
    if not folders:
        print(f"nothing is archived in {store.RUNS} yet; ./hayloft run experiments/quick.toml makes a first run")
        return 0
    table = _table("run", "state", "machine", "boots ok", "failed", "title")
    for folder in folders:
        try:
            run = store.open_run(folder)
            boots = run.boots().values()
        except HayloftError as error:
            table.add_row(folder.name, "unreadable", "", "", "", str(error))
            continue
        good = sum(boot.get("outcome") == "ok" for boot in boots)
        state = run.info["state"]
        if state == "running" and not store.is_busy(folder):
            state = "killed"
        machine = f"{run.info['machine'].get('kind')}, {run.info['machine'].get('cpus')} CPUs"
        table.add_row(folder.name, state, machine, f"{good} of {len(run.info['order'])}", str(len(boots) - good),
                      run.info.get("title") or _title(folder))
    _print(table)
    return 0
