"""The last thing a run prints: a verdict for each test, what to distrust, and where the report is."""

import sys

from rich.table import Table
from rich.text import Text

from . import console as consoles

_STYLES = {"faster": "bold green", "slower": "bold red", "unreliable": "yellow", "refused": "yellow"}


def _number(value):
    if value is None:
        return ""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _interval(versus):
    low, high = versus.get("interval") or (None, None)
    return f"{low:.2f}..{high:.2f}" if low is not None and high is not None else ""


def _why(expectation):
    """The reason, or what a rule that did not hold was asked of."""
    if expectation.get("reason"):
        return f" ({expectation['reason']})"
    if expectation["held"]:
        return ""
    values = (expectation.get("values") or {}).items()
    told = ", ".join(f"{arm} = {_number(value)}" for arm, value in values if value is not None)
    return f" ({told})" if told else ""


def _point(point):
    return " ".join(f"{key.removeprefix('machine.')}={value}" for key, value in point.items())


def table(results):
    """A rich Table of every test, or None where there is none."""
    tests = results.get("tests") or []
    if not tests:
        return None
    others = list(dict.fromkeys(name for test in tests for name in test["versus"]))
    reference = results["reference"]
    found = Table(box=None, pad_edge=False, header_style="bold")
    found.add_column("test", no_wrap=True)
    pointed = any(test.get("point") for test in tests)
    if pointed:
        found.add_column("point")
    found.add_column("unit")
    for name in (reference, *others):
        found.add_column(name, justify="right")
    for name in others:
        found.add_column(f"{name}/{reference}", justify="right")
        found.add_column("interval", justify="right")
        found.add_column("verdict", no_wrap=True)
    for test in tests:
        cells = [test["name"]] + ([_point(test.get("point") or {})] if pointed else []) + [test.get("unit") or ""]
        cells += [_number((test["arms"].get(name) or {}).get("median")) for name in (reference, *others)]
        for name in others:
            versus = test["versus"].get(name) or {}
            verdict = versus.get("verdict") or "none"
            ratio = versus.get("ratio")
            cells += [f"{ratio:.2f}" if ratio is not None else "", _interval(versus),
                      Text(verdict, style=_STYLES.get(verdict, ""))]
        found.add_row(*cells)
    return found


def show(folder, results):
    console = consoles.console(file=sys.stdout, width=140)
    found = table(results)
    if found is None:
        console.print("no test has a result", markup=False)
    else:
        consoles.show(console, found)
        if any(versus.get("ratio") is not None for test in results["tests"] for versus in test["versus"].values()):
            first = results["reference"]
            other = next(arm for test in results["tests"] for arm in test["versus"])
            console.print(f"{first} and {other}: medians over boots; {other}/{first}: the median ratio of a boot of {other} "
                          f"to one of {first}, each with each", markup=False)
    for entry in results.get("skipped") or []:
        console.print(f"skipped: {entry['name']}: {entry['reason']}", markup=False)
    for entry in results.get("expectations") or []:
        held = {True: "held", False: "FAILED"}.get(entry["held"], "cannot tell")
        console.print(f"expected {entry['test']}: {entry['rule']}: {held}{_why(entry)}", markup=False)
    for text in results.get("warnings") or []:
        console.print(f"warning: {text if isinstance(text, str) else text.get('text', text)}", markup=False)
    print(f"report: {folder / 'report.html'} and {folder / 'report.md'}")
