"""Tests that ran out of memory: who was short of what, and what is left to say of them.

A boot in which a test was short has no result of it: the kernel skips it from then on, and its earlier rounds are those
in which its CPUs happened to hold less. For the same reason an arm of which one boot was short has no figure of that
test: its other boots are those that got by. So there is no verdict, and sums over tests leave the test out in all arms.
"""

from __future__ import annotations

from . import units, verdict


def find(used: dict[str, list[dict]]) -> dict[str, dict[str, list[dict]]]:
    """{test: {arm: [one for each boot that was short: round, asked, held, had]}} of the boots that count."""
    found: dict[str, dict[str, list[dict]]] = {}
    for arm, boots in used.items():
        for boot in boots:
            for entry in boot["digest"].get("skipped") or []:
                if entry.get("shortage"):
                    found.setdefault(entry["name"], {}).setdefault(arm, []).append(entry["shortage"])
    return found


def wanted(shortage: dict) -> str:
    asked = units.bytes_(shortage["asked"]) if shortage.get("asked") else "a cache"
    return f"wanted {asked} on top of {units.bytes_(shortage.get('held'))}, had {units.bytes_(shortage.get('had'))}"


def reason(by_arm: dict[str, list[dict]], used: dict[str, list[dict]]) -> str:
    """By arm, in how many of its boots; the figures are those of its first."""
    parts = [f"in {len(by_arm[arm])} of {len(used[arm])} boots of {arm} ({wanted(by_arm[arm][0])})"
             for arm in used if by_arm.get(arm)]
    return f"short of memory {' and '.join(parts)}"


def entries(short: dict, used: dict[str, list[dict]], point: dict) -> list[dict]:
    """For `skipped` of results.json."""
    return [{"name": name, "reason": reason(by_arm, used), "point": point,
             "shortage": {arm: {"boots": len(of), "of": len(used[arm]), **of[0]} for arm, of in by_arm.items()}}
            for name, by_arm in short.items()]


def take_out(tests: list[dict], short: dict) -> None:
    """The figures of arms that were short: the boots that were not are a choice of their own."""
    for test in tests:
        for arm in short.get(test["name"], {}):
            about = test["arms"][arm]
            nothing = [None] * len(about["boots"])
            about |= {"median": None, "boots": nothing, "means": list(nothing)}


def nothing_said(test: dict, short: dict, used: dict[str, list[dict]], arms: tuple[str, str]) -> verdict.Comparison | None:
    """The comparison of two arms of which one was short; None: neither was."""
    by_arm = {arm: found for arm, found in short.get(test["name"], {}).items() if arm in arms}
    return verdict.Comparison(verdict="none", why=reason(by_arm, used)) if by_arm else None


def without(used: dict[str, list[dict]], short: dict) -> dict[str, list[dict]]:
    """The boots, less what they measured of tests that were short anywhere."""
    if not short:
        return used
    return {arm: [{**boot, "digest": {**boot["digest"], "tests": [
        test for test in boot["digest"].get("tests") or [] if test["name"] not in short]}} for boot in boots]
        for arm, boots in used.items()}
