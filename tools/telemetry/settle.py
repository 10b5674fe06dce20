"""One verdict from two: the times as measured, and as adjusted to one pace and one distance (pace.py, distance.py).

The adjusted times are what is judged, since they are sharper. They are believed as far as the times as measured allow:

  faster, slower   if as measured nothing speaks against it: neither another verdict, nor an effect that points the other
                   way, nor a reading that knows the arms (then as measured must claim the same)
  no difference    if as measured there is none either: an adjustment can take an arm's own effect out
  at two distances  where the arms feel the distance differently times are not adjusted, and what is said as measured must
                   hold near and far

Else the verdict is undecided, and says what each of the two is.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from . import stats
from .verdict import Comparison, _as_ratios, _inside

CLAIMS = ("faster", "slower")


def settle(adjusted: Comparison, raw: Comparison, knows: list[str]) -> Comparison:
    """knows: in words, what was taken out and differs between the arms."""
    out = dataclasses.replace(adjusted)
    both = f"as adjusted {adjusted.verdict}{_told(adjusted)}, as measured {raw.verdict}{_told(raw)}"
    if adjusted.verdict in CLAIMS and raw.verdict != adjusted.verdict:
        if raw.verdict != "undecided":
            return _open(out, both)
        if knows:
            return _open(out, f"{'; '.join(knows)}, so the adjustment may make the difference: {both}")
        if raw.ratio is not None and (raw.ratio < 1) != (adjusted.ratio < 1):
            return _open(out, f"the times as measured point the other way: {both}")
    elif adjusted.verdict == "no difference" and raw.verdict != "no difference":
        why = f"{'; '.join(knows)}, so the adjustment may hide a difference: " if knows else ""
        return _open(out, why + both)
    elif adjusted.verdict == "undecided" and raw.verdict != "undecided":
        return _open(out, f"{adjusted.why}; {both}")
    return out


def at_both_ends(raw: Comparison, ends: list[tuple[np.ndarray, np.ndarray]], minimum_effect: float,
                 slopes: str) -> Comparison:
    """raw, where the arms feel the distance differently; ends: log figures of reference and arm, near and far."""
    out = dataclasses.replace(raw)
    near, far = (stats.shift_between(*sides, raw.level) for sides in ends)
    if raw.verdict not in (*CLAIMS, "no difference") or near is None or far is None:
        return out
    sign = -1 if raw.verdict == "faster" else 1
    holds = all(_inside(end, math.log1p(minimum_effect)) if raw.verdict == "no difference" else
                end.low is not None and (end.low if sign > 0 else -end.high) > 0 and sign * end.shift > raw.threshold
                for end in (near, far))
    if holds:
        return out
    told = " and ".join(f"{math.exp(end.shift):.3g}{_text(_as_ratios(end))} {where}"
                        for end, where in ((near, "near"), (far, "far")))
    return _open(out, f"the arms feel the distance between CPUs differently ({slopes}), so their ratio hangs on where the host "
                      f"puts them: {told}; as measured {raw.verdict}{_told(raw)}")


def _open(out: Comparison, why: str) -> Comparison:
    out.verdict, out.why, out.beyond = "undecided", why, False
    return out


def _told(comparison: Comparison) -> str:
    return "" if comparison.ratio is None else f" ({comparison.ratio:.3g}{_text(comparison.interval)})"


def _text(interval) -> str:
    low, high = interval
    return "" if low is None or high is None else f", {low:.3g} to {high:.3g}"
