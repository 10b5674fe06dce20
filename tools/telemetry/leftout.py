"""What a kernel had to leave out: memory beyond its tables, CPUs beyond those that it runs, locks without statistics.

The kernel names each kind with its unit and texts in hello and bye (docs/PROTOCOL.md), so this file knows none. hello tells
what was known before the first test, bye the whole boot's amounts; a boot that sent no bye is known by its hello, and one of an
older kernel, which told nothing, has left out nothing that is known. Of a kind that voids, figures would be read as facts and
are none: such a boot does not count (outcome.py). Pure.
"""

from __future__ import annotations

from .units import count


def of_boot(hello: dict | None, bye: dict | None) -> list[dict]:
    """One entry a kind, all keys there; bye's amounts stand, and what only hello had room for is kept."""
    found: dict[str, dict] = {}
    for body in (hello, bye):
        for told in (body or {}).get("left_out") or []:
            blank = {"unit": "", "amount": 0, "of": 0, "detail": "", "doc": "", "voids": False}
            found[told["name"]] = {**found.get(told["name"], {"name": told["name"], **blank}),
                                   **{key: told[key] for key in blank if key in told}}
    return list(found.values())


def amount(entry: dict) -> str:
    of = f" of {count(entry['of'])}" if entry["of"] else ""
    return f"{count(entry['amount'])}{of} {entry['unit']}"


def what(entry: dict) -> str:
    return (entry["doc"] or entry["name"]) + (f" ({entry['detail']})" if entry["detail"] else "")


def text(entry: dict) -> str:
    return f"{amount(entry)}: {what(entry)}"


def voiding(entries: list[dict]) -> str:
    """Why a boot with these does not count; "" if it does."""
    return "; ".join(text(entry) for entry in entries if entry["voids"] and entry["amount"])


def of_run(boots: list[dict], arms: list[str], points: list[dict]) -> list[dict]:
    """results.json's `left_out`: by point and kind, of each arm's boots, those that do not count too: how many left it out,
    and the largest amount."""
    found: dict[tuple[int, str], dict] = {}
    for boot in boots:
        point, arm = boot["about"].get("point", {}), boot["about"]["arm"]
        if point not in points or arm not in arms:
            continue
        for entry in boot["digest"].get("left_out") or []:
            about = found.setdefault((points.index(point), entry["name"]), {
                **{key: entry[key] for key in ("name", "unit", "doc", "voids")}, "point": point, "arms": {}})
            told = about["arms"].setdefault(arm, {"boots": 0, "amount": 0, "of": 0, "detail": ""})
            told["boots"] += 1
            if entry["amount"] >= told["amount"]:
                told.update({key: entry[key] for key in ("amount", "of", "detail")})
    return [found[key] for key in sorted(found)]


def unlike(entry: dict, arms: list[str]) -> bool:
    """Whether it is not the same in every arm, so that the arms did not have the same machine."""
    return len({(entry["arms"].get(arm) or {"amount": 0})["amount"] for arm in arms}) > 1


def warnings(entries: list[dict], arms: list[str]) -> list[dict]:
    """What stands at the top of a report; the amounts stand beside the tests."""
    found = []
    for entry in entries:
        told = ", ".join(f"{arm} {amount({**entry, **row})} in {row['boots']} boots" for arm, row in entry["arms"].items())
        then = ": such boots do not count" if entry["voids"] else (
            ": the arms did not have the same machine" if unlike(entry, arms) else "")
        line = f"the kernel left out {what({**entry, 'detail': ''})} ({told}){then}"
        if all(line != known["text"] for known in found):
            found.append({"kind": "left out", "text": line})
    return found
