"""What a report says beside the published figures: times where they disagree, and counters and other figures in a
before/after/change table of each test that stands beside them (`beside` in experiments/published.toml; else every
test).

A published row names what it is about: `test` a time an operation (shown in the table of tests), `counter` a sum over
the timed rounds, `figure` what a workload tells besides its time, `throughput` operations a second. A change of
counters is that of the totals, as published: the faster arm does more operations in the same time.
"""

from __future__ import annotations

from .. import units
from . import words
from .block import Bullets, Heading, Paragraph, Table


def blocks(results: dict) -> list:
    published = results.get("published_result")
    if not published:
        return []
    out: list = [Heading("Beside the published figures")]
    about = f"Published: {published.get('machine', 'unknown machine')}"
    about += f"; {published['conditions']}" if published.get("conditions") else ""
    about += f"; {published['status']}" if published.get("status") else ""
    out.append(Paragraph(about + ". Figures of different machines are for direction and magnitude, not for equality."))
    surprises = words.surprises(results)
    if surprises:
        out.append(Paragraph("", "Did not come out as published"))
        out.append(Bullets(surprises))
    else:
        out.append(Paragraph("Everything that was run came out as published, in direction and magnitude."))
    for arm in words.others(results):
        out += _tables(results, arm)
    reasons = words.explanations(results)
    if reasons:
        out.append(Paragraph("", f"Why, on {results['machine'].get('kind')}"))
        out.append(Bullets(reasons))
    elif surprises and results["tests"]:
        out.append(Paragraph(f"No explanation is recorded for {results['machine'].get('kind')}.", "Why"))
    if published.get("notes"):
        out.append(Paragraph("", "Also published"))
        out.append(Bullets(list(published["notes"])))
    return out


def _tables(results: dict, arm: str) -> list:
    out = []
    for test in words.beside(results):
        rows = [_row(results, test, arm, row) for row in words.published_counts(results, arm)]
        if not rows:
            continue
        reference = results["reference"]
        table = Table(["what", "unit", f"{reference} (before)", f"{arm} (after)", "change",
                       f"published {reference}", f"published {arm}", "change"], rows, left=2)
        out += [Paragraph("", words.test_label(test)), table]
    return out


def _row(results: dict, test: dict, arm: str, row: dict) -> list[str]:
    ours = words.ours(results, test, row)
    theirs = row[results["reference"]], row[arm]
    here = ours.get(results["reference"]), ours.get(arm)
    return [words.published_name(row), row.get("unit", ""), *(units.count(value) for value in here),
            units.change(words.change_of(*here)), *(units.count(value) for value in theirs),
            units.change(words.change_of(*theirs))]
