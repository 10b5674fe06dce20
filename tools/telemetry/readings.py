"""Whether a reading that times are adjusted by knows the arms.

The yardstick (pace.py) and the round trips between CPUs (distance.py) are meant to be the machine's doing. An arm that slows
them makes the adjustment take a part of its own effect out, or put one in. So they are tried as times are, by the same
family test, in up to three ways, since each sees what another cannot:

  over boots     any boot with any: sees a shift where the machine keeps still
  within pairs   the arms of one pair: sees it where the machine changes slowly; needs six pairs
  within states  for the distance only, near with near and far with far: sees it where the host moves CPUs

A reading knows an arm if any way says so, and if what that does to the times is worth a word.
"""

from __future__ import annotations

import numpy as np

from . import verdict

SHIFT = 0.05  # on the log scale: what a reading that knows the arms may do to a time unsaid

# what is taken out of the times: its key in a test's entry, and its readings there: by boot, and by boot within states
ADJUSTED = (("pace", ("yardstick",)), ("distance", ("roundtrip", "own")))


def look(entries: list[dict], reference: str, arms: dict[str, list[int]]) -> None:
    """Notes in each adjusted entry, under `knows`, the arms that its reading knows: {arm: {shift, p}}, log scale. entries:
    the tests of one axis point; arms: the pair of each of their boots."""
    for key, names in ADJUSTED:
        tests = [entry for entry in entries if entry.get(key)]
        for test in tests:
            test[key]["knows"] = {}
        for arm in arms if tests else ():
            if arm == reference or min(len(arms[arm]), len(arms[reference])) < verdict.FEWEST_PAIRS:
                continue
            _one_arm(tests, key, names, arms, reference, arm)


def _one_arm(tests: list[dict], key: str, names: tuple, arms: dict, reference: str, arm: str) -> None:
    compared = verdict.Rules(arms_compared=len(arms) - 1)
    within = verdict.Rules(arms_compared=len(arms) - 1, scheme="pairs")
    for name in names:
        sides = [_side(tests, key, name, of, arms[of]) for of in (reference, arm)]
        whole = np.nanmean(sides[1].values, axis=0) - np.nanmean(sides[0].values, axis=0)
        differences = verdict.pair_differences(*sides)
        ways = [(compared, whole)]
        if len(differences):
            ways.append((within, np.nanmedian(differences, axis=0)))
        for rules, shifts in ways:
            for test, p, shift in zip(tests, verdict.family_p(*sides, rules), shifts):
                known = test[key]["knows"].get(arm)
                if p <= verdict.ALPHA and abs(_weight(test[key]) * shift) > SHIFT and (known is None or p < known["p"]):
                    test[key]["knows"][arm] = {"shift": float(shift), "p": float(p)}


def _weight(found: dict) -> float:
    """How far times follow the reading: where each arm has its own slope, the larger."""
    own = [abs(one) for one in (found.get("slopes") or {}).values() if one is not None]
    return max([found["slope"], *own]) if found.get("differ") else found["slope"]


def _side(tests: list[dict], key: str, name: str, arm: str, pairs: list[int]) -> verdict.Side:
    values = np.array([[np.nan if one is None else one for one in test[key][name][arm]] for test in tests], dtype=float).T
    keep = ~np.isnan(values).all(axis=1)
    return verdict.Side(values[keep], np.array(pairs, dtype=int)[keep])
