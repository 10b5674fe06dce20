"""What workloads tell of a round besides its time ("figure" events, such as slabs held before and after a shrink),
by arm. No figure is known here by name.

A boot's figure is the median of its rounds, as a round of a workload that stands still has none in between; the run's
is the median of its boots. No verdicts: they are for reading beside the tests, and for expectations.
"""

from __future__ import annotations

from statistics import median

from . import units


def collect(events: dict[tuple[str, str], list[int]], test: str, rounds: int) -> dict[str, float]:
    """One boot's figures of one test; events: values by (test, figure), one a round. Where an event was lost there is
    no figure: the median of the others is another."""
    return {name: median(values) for (of, name), values in events.items() if of == test and len(values) == rounds}


def entries(digests: dict[str, list[dict]], point: dict, reference: str) -> list[dict]:
    """The entries of results.json, in the order in which tests and figures were first told."""
    names: dict[tuple[str, str], None] = {}
    for members in digests.values():
        for digest in members:
            for test in digest.get("tests") or []:
                names.update(dict.fromkeys((test["name"], name) for name in test.get("figures") or {}))
    out = []
    for test, name in names:
        arms = {}
        for arm, members in digests.items():
            boots = [_of(digest, test, name) for digest in members]
            arms[arm] = {"median": units.middle(boots), "boots": boots}
        before = arms[reference]["median"]
        versus = {arm: {"change": about["median"] / before - 1 if before and about["median"] is not None else None}
                  for arm, about in arms.items() if arm != reference}
        out.append({"name": name, "test": test, "point": point, "arms": arms, "versus": versus})
    return out


def _of(digest: dict, test: str, name: str) -> float | None:
    for entry in digest.get("tests") or []:
        if entry["name"] == test:
            return (entry.get("figures") or {}).get(name)
    return None
