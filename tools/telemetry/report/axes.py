"""What a report says of an experiment with axes: for each test one table, one row a point, with the time and what the
workload tells besides it, so that a price stands next to what is paid for it."""

from __future__ import annotations

from .. import units
from . import words
from .block import Heading, Paragraph, Table


def blocks(results: dict) -> list:
    if len(results["points"]) < 2 or not results["figures"]:
        return []
    out: list = [Heading("Along the axes")]
    for name in dict.fromkeys(entry["test"] for entry in results["figures"]):
        out += [Paragraph("", name), _table(results, name)]
    return out


def _table(results: dict, name: str) -> Table:
    arms, others = list(results["arms"]), words.others(results)
    figures = list(dict.fromkeys(entry["name"] for entry in results["figures"] if entry["test"] == name))
    unit = next((test["unit"] for test in results["tests"] if test["name"] == name), "")
    table = Table(["point", *(f"{unit} {arm}" for arm in arms), *(f"verdict {arm}" for arm in others),
                   *(f"`{figure}` {arm}" for figure in figures for arm in arms)], [], left=1)
    for point in results["points"]:
        test = next((t for t in results["tests"] if (t["name"], t["point"]) == (name, point)), None)
        row = [words.point_text(point)]
        row += [units.number(test["arms"][arm]["median"] if test else None) for arm in arms]
        row += [_verdict((test["versus"] if test else {}).get(arm)) for arm in others]
        for figure in figures:
            entry = next((e for e in results["figures"] if (e["name"], e["test"], e["point"]) == (figure, name, point)), None)
            row += [units.count(entry["arms"][arm]["median"] if entry and arm in entry["arms"] else None) for arm in arms]
        table.rows.append(row)
    return table


def _verdict(versus: dict | None) -> str:
    return f"{units.number(versus['ratio'])} {versus['verdict']}" if versus else "–"
