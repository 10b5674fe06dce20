"""What lay in the barn or depot while one boot of each arm ran: curves for results.json.

A result holds sums and the state at the end of rounds; whether a list stood at its limit all the time or
went up and down does not show in either. So the first boot that counts of each arm is read once more, as the
live view reads it (live/state.py): the cache that was exchanged with most, its gauges of the panel `barn`, and
their limits. Only changes are kept. No gauge is known here by name.
"""

from __future__ import annotations

from pathlib import Path

from . import decode
from .live.state import BootState

MOST = 6  # curves a run


def barn(run_dir: Path, used: dict[str, list[dict]], point: dict, schema: dict[str, dict], most: int = MOST) -> list[dict]:
    """One entry an arm, [] where no boot had anything in a barn. used: each arm's boots, with about and digest."""
    gauges = {name for name, about in schema.items() if about.get("panel") == "barn" and about["kind"] == "gauge"}
    found = []
    for arm, boots in used.items():
        stocked = [boot for boot in boots if _named(boot["digest"]) & gauges][:1]
        for boot in stocked if len(found) < most else ():
            entry = curves(run_dir / "boots" / boot["about"]["id"])
            if entry:
                found.append({"arm": arm, "point": point, "boot": boot["about"]["id"], **entry})
    return found


def _named(digest: dict) -> set[str]:
    return {name for test in digest.get("tests") or [] for entry in test["rounds"] for name in entry["counters"]}


def curves(boot_dir: Path) -> dict | None:
    """{cache, seconds, tests: [[name, when it began]], levels}; None if the boot's bytes are gone, or there was no barn."""
    state, tests = BootState(), []
    shared = b"telemetry.port=com1" in _read(boot_dir / "boot.json")
    data = _read(boot_dir / "telemetry.bin")
    reader = decode.Decoder(shared)
    for item in (*reader.feed(data), *reader.finish()):
        state.take(item)
        if getattr(item, "type", "") == "bench" and item.body["phase"] == "begin" and (
                not tests or tests[-1][0] != state.test):
            tests.append([state.test, state.seconds(item.time)])
    cache, levels = state.barn_of()
    if not levels:
        return None
    return {"cache": cache, "seconds": state.now, "tests": tests, "levels": [
        {"name": level.label, "unit": level.unit, "limit": level.limit, "points": _changes(level)} for level in levels]}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _changes(level) -> list[list]:
    """[seconds, value], null where something was lost; a value holds until the next."""
    points: list[list] = []
    for when, value in zip(level.times, level.values):
        if not points or points[-1][1] != value:
            points.append([when, value])
    return points
