"""What a report says of the layers of the allocator: the memory that each holds, how long calls of each take
(latency=on), and which CPU freed what which CPU allocated (matrix=on).

No layer is known here by name: names and what they mean come from the kernel, with the counters and the
records.
"""

from __future__ import annotations

from .. import observed, units
from . import words
from .block import Heading, Paragraph, Table

SIZE_TOLD = 64  # bytes: the object whose overhead is told
LATENCY_ROWS = 60
MATRIX_CPUS = 8  # with more, the table has the shares only; the picture has all
MEANING = {
    "icount": "Under icount the clock counts instructions, of all vCPUs: these are instructions, not time, and what "
              "another vCPU executed meanwhile is in them.",
    "tcg": "Under tcg these are ticks of the host's clock while translated code ran: good for comparing arms and "
           "levels, not for saying what hardware would take; a long tail is the host's scheduling as well.",
}
MEASURED = ("TSC cycles from a call to its return, interrupts that came in between included; a long tail is the "
            "host's scheduling as well.")


def blocks(results: dict) -> list:
    return _memory(results) + _latency(results) + _matrix(results)


# -- memory ---------------------------------------------------------------------------------------


def _memory(results: dict) -> list:
    if not results["footprint"]:
        return []
    out: list = [Heading("Memory held")]
    told = _overhead(results)
    if told:
        out.append(Paragraph(told, f"A {SIZE_TOLD}-byte object"))
    arms = list(results["arms"])
    in_bytes = [entry for entry in results["footprint"] if entry["unit"] == "bytes"]
    if in_bytes:
        table = Table(["where", *arms, "what it is"], [], left=1)
        for entry in in_bytes:
            cells = [units.bytes_((entry["arms"].get(a) or {}).get("bytes")) for a in arms]
            table.rows.append([_gauge_name(entry), *cells, entry["doc"]])
        out += [Paragraph("Bytes by layer at the end of a test's rounds, when the test holds nothing any more, at most "
                          "over the tests: what is not the users' is stranded there."), table]
    rest = [entry for entry in results["footprint"] if entry["unit"] != "bytes"]
    if rest:
        table = Table(["gauge", "unit", *arms, *(f"bytes {arm}" for arm in arms), "what it is"], [], left=2)
        for entry in rest:
            cells = [units.count((entry["arms"].get(a) or {}).get("median")) for a in arms]
            cells += [units.bytes_((entry["arms"].get(a) or {}).get("bytes")) for a in arms]
            table.rows.append([_gauge_name(entry), entry["unit"], *cells, entry["doc"]])
        out += [Paragraph("At the end of a test's rounds, at most over the tests."), table]
    return out


def _gauge_name(entry: dict) -> str:
    where = words.point_text(entry["point"])
    return f"`{entry['name']}`" + (f" ({where})" if where else "")


def _overhead(results: dict) -> str:
    """In words: arms that agree are told once."""
    said: dict[str, list[str]] = {}
    for entry in results.get("overhead") or []:
        if entry["size"] != SIZE_TOLD:
            continue
        for arm, about in entry["arms"].items():
            text = (f"takes {units.number(about['bytes'])} bytes of its slab, {units.share(about['share'])} more than "
                    f"itself; {units.number(about['state'])} of them keep its state")
            said.setdefault(text, [])
            if arm not in said[text]:
                said[text].append(arm)
    everybody = len(said) == 1
    return "; ".join(text if everybody else f"in {', '.join(arms)} it {text}" for text, arms in said.items()) + (
        "." if said else "")


# -- how long calls took --------------------------------------------------------------------------


def _latency(results: dict) -> list:
    entries = results.get("latency") or []
    if not entries:
        return []
    arms = [arm for arm in results["arms"] if any(arm in entry["arms"] for entry in entries)]
    kind = results["machine"].get("kind")
    unit = entries[0]["unit"]
    out: list = [Heading("How long calls took"), Paragraph(
        f"{MEANING.get(kind, MEASURED)} One call in {entries[0]['every']} of each level is timed; a call contains what "
        f"the levels below it took, and {units.number(entries[0]['clock'])} {unit} for looking at the clock twice. "
        "Percentiles are medians over boots, each good to a fifth of its value; the maximum is the largest of all.")]
    table = Table(["test", "level", "call", *(f"{what} {arm}" for what in ("samples", "p50", "p99", "p99.9", "max")
                                               for arm in arms)], [], left=3)
    for entry in entries[:LATENCY_ROWS]:
        found = [entry["arms"].get(arm) or {} for arm in arms]
        cells = [units.count(one.get("samples")) for one in found]
        cells += [_cycles(one.get(key)) for key in (*observed.PERCENTILES, "max") for one in found]
        table.rows.append([words.test_label(entry | {"name": entry["test"]}), entry["level"], entry["call"], *cells])
    out.append(table)
    if len(entries) > LATENCY_ROWS:
        out.append(Paragraph(f"{len(entries) - LATENCY_ROWS} more rows are in results.json."))
    levels = Table(["level", "what it is"], [], left=1)
    for entry in entries:
        row = [entry["level"], entry["about"]]
        if row not in levels.rows:
            levels.rows.append(row)
    return [*out, levels]


def _cycles(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value < 1e6 else units.count(value)


# -- who freed what another allocated -------------------------------------------------------------


def _matrix(results: dict) -> list:
    entries = results.get("matrix") or []
    if not entries:
        return []
    arms = [arm for arm in results["arms"] if any(arm in entry["arms"] for entry in entries)]
    shares = Table(["test", *(f"frees {arm}" for arm in arms), *(f"of another CPU's objects {arm}" for arm in arms)], [])
    for entry in entries:
        found = [entry["arms"].get(arm) or {} for arm in arms]
        shares.rows.append([words.test_label(entry | {"name": entry["test"]}), *(units.count(f.get("frees")) for f in found),
                            *(units.share(f.get("remote_share")) for f in found)])
    out: list = [Heading("Who freed what"), Paragraph(
        "Every free of a small or large kmalloc object by the CPU that made it and the CPU that allocated the object; "
        "sums over a test's rounds, medians over boots. Pages of alloc_pages are not in it."), shares]
    cpus = sorted({cpu for entry in entries for about in entry["arms"].values() for cell in about["cells"]
                   for cpu in cell[:2]})
    if len(cpus) > MATRIX_CPUS:
        return out
    cells = Table(["test", "arm", "allocated on", *(f"freed on CPU {cpu}" for cpu in cpus)], [], left=3)
    for entry in entries:
        if not any(about["remote_share"] for about in entry["arms"].values()):
            continue
        for arm in arms:
            found = {(made, freed): n for made, freed, n in (entry["arms"].get(arm) or {"cells": []})["cells"]}
            for made in sorted({place[0] for place in found}):
                cells.rows.append([words.test_label(entry | {"name": entry["test"]}), arm, f"CPU {made}",
                                   *(units.count(found.get((made, freed), 0)) for freed in cpus)])
    return [*out, cells] if cells.rows else out
