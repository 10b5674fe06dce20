"""How long calls took, who freed whose objects, and what an object's place costs: from the digests of a run's
boots to the entries of results.json.

A latency record is a histogram of one round: buckets of four an octave (docs/PROTOCOL.md). The rounds of a
test are added up for each boot; a percentile is worked out in each boot and the boots' median is what is told,
as for every other figure. Inside a bucket values are taken to lie evenly, so a percentile is as good as its
bucket is narrow: a fifth of its value. One that less than one sample lies above is null.

Levels and their meaning come with the records: this file knows none by name.
"""

from __future__ import annotations

from statistics import median

STEPS = 4  # buckets an octave
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def lower(bucket: int) -> int:
    """The least value of this bucket."""
    return bucket if bucket < STEPS else (STEPS + bucket % STEPS) << (bucket // STEPS - 1)


def percentile(counts: dict[int, int], share: float, most: int) -> float | None:
    """The value that this share of the samples lies below; `most` is the largest seen."""
    total = sum(counts.values())
    if total * (1 - share) < 1:
        return None
    wanted, passed = share * total, 0
    for bucket in sorted(counts):
        if passed + counts[bucket] >= wanted:
            low, high = lower(bucket), min(lower(bucket + 1), most + 1)
            return low + max(0, high - low) * (wanted - passed) / counts[bucket]
        passed += counts[bucket]
    return float(most)


def latency(used: dict[str, list[dict]], point: dict, unit: str) -> list[dict]:
    """One entry a test, level and call. used: the digests of each arm's boots."""
    boots = {arm: [_histograms(digest) for digest in digests] for arm, digests in used.items()}
    entries = []
    for key in _in_order(boots):
        test, level, call = key
        found = [one[key] for members in boots.values() for one in members if key in one]
        entry = {"test": test, "level": level, "call": call, "point": point, "unit": unit, "about": found[0]["about"],
                 "every": found[0]["every"], "clock": median(one["clock"] for one in found), "arms": {}}
        for arm, members in boots.items():
            here = [one[key] for one in members if key in one]
            if here:
                entry["arms"][arm] = _latency_arm(here)
        entries.append(entry)
    return entries


def _in_order(boots: dict[str, list[dict]]) -> list[tuple]:
    keys = dict.fromkeys(key for members in boots.values() for one in members for key in one)
    tests = {test: place for place, test in enumerate(dict.fromkeys(key[0] for key in keys))}
    levels = {level: place for place, level in enumerate(dict.fromkeys(key[1] for key in keys))}
    return sorted(keys, key=lambda key: (tests[key[0]], levels[key[1]], key[2]))


def _histograms(digest: dict) -> dict[tuple, dict]:
    """{(test, level, call): the sum of its rounds} of one boot; of tests of which all came."""
    found: dict[tuple, dict] = {}
    for test in _whole(digest, "latency"):
        for entry in test["rounds"]:
            for record in entry.get("latency") or []:
                key = test["name"], record["level"], record["call"]
                one = found.setdefault(key, {"counts": {}, "max": 0, "about": record.get("about") or "",
                                             "every": record.get("every") or 1, "clock": record.get("clock") or 0})
                one["max"] = max(one["max"], record["max"])
                for bucket, count in record["buckets"]:
                    one["counts"][bucket] = one["counts"].get(bucket, 0) + count
    return found


def _whole(digest: dict, kind: str) -> list[dict]:
    return [test for test in digest.get("tests") or []
            if not test.get("rounds_lost") and not any(kind in (entry.get("lost") or []) for entry in test["rounds"])]


def _latency_arm(boots: list[dict]) -> dict:
    counts: dict[int, int] = {}
    for one in boots:
        for bucket, count in one["counts"].items():
            counts[bucket] = counts.get(bucket, 0) + count
    out: dict = {"samples": sum(counts.values())}
    for name, share in PERCENTILES.items():
        values = [percentile(one["counts"], share, one["max"]) for one in boots]
        out[name] = median(values) if None not in values else None
    out["max"] = max(one["max"] for one in boots)
    out["buckets"] = [[lower(bucket), counts[bucket]] for bucket in sorted(counts)]
    return out


def matrix(used: dict[str, list[dict]], point: dict) -> list[dict]:
    """One entry a test: cells [allocating CPU, freeing CPU, frees], medians over boots of the rounds' sums."""
    boots = {arm: [_cells(digest) for digest in digests] for arm, digests in used.items()}
    tests = dict.fromkeys(test for members in boots.values() for one in members for test in one)
    entries = []
    for test in tests:
        entry = {"test": test, "point": point, "arms": {}}
        for arm, members in boots.items():
            here = [one[test] for one in members if test in one]
            if here:
                entry["arms"][arm] = _matrix_arm(here)
        entries.append(entry)
    return entries


def _cells(digest: dict) -> dict[str, dict[tuple[int, int], int]]:
    found: dict[str, dict] = {}
    for test in _whole(digest, "matrix"):
        for entry in test["rounds"]:
            for freed_on, made_on, count in entry.get("matrix") or []:
                cells = found.setdefault(test["name"], {})
                cells[made_on, freed_on] = cells.get((made_on, freed_on), 0) + count
    return found


def _matrix_arm(boots: list[dict]) -> dict:
    places = sorted({place for one in boots for place in one})
    shares = [sum(n for (made, freed), n in one.items() if made != freed) / sum(one.values())
              for one in boots if sum(one.values())]
    return {"frees": median(sum(one.values()) for one in boots),
            "remote_share": median(shares) if shares else None,
            "cells": [[*place, median(one.get(place, 0) for one in boots)] for place in places]}


def overhead(used: dict[str, list[dict]], point: dict) -> list[dict]:
    """One entry a cache: what one object takes of its slab, when all of it is used. It is arithmetic, not measured,
    and the same in every boot of an arm."""
    arms: dict[str, dict[str, dict]] = {}
    for arm, digests in used.items():
        arms[arm] = {}
        for digest in digests:  # the same in each, but one may have lost a name
            for cache in digest.get("caches") or []:
                if cache.get("objects"):
                    arms[arm].setdefault(cache["name"], cache)
    entries = []
    for name in dict.fromkeys(name for caches in arms.values() for name in caches):
        entry = {"cache": name, "point": point, "size": None, "arms": {}}
        for arm, caches in arms.items():
            cache = caches.get(name)
            if cache and cache.get("size"):
                each = cache["slab"] / cache["objects"]
                entry["size"] = cache["size"]
                entry["arms"][arm] = {"bytes": each, "state": cache.get("state") or 0,
                                      "share": each / cache["size"] - 1}
        if entry["arms"]:
            entries.append(entry)
    return entries
