"""What a boot's rounds come to: one figure a test, the geometric mean of the rounds.

Not their median. Where a hardware thread's neighbour comes and goes, the speed of a core has two peaks (1.75 apart in
time an operation on the machine this was measured on, for seconds at a time). The median of rounds from two peaks jumps
from one to the other, and is the worst of the usual means for them; a mean moves in proportion. The geometric one,
because arms are compared by ratios. A round that went wholly astray moves its boot, and boots are then compared
by ranks, which one boot cannot move. docs/DECISIONS.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import geometric_mean


def boot_figure(values: Iterable[float | None]) -> float | None:
    """One figure for the rounds of a boot, in their unit; None where no round has a value."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return geometric_mean(known) if min(known) > 0 else 0.0
