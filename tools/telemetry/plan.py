"""Which boots, in which order: pure, decided before anything boots.

A pair is one boot of every arm at one axis point. Points are interleaved: pair 1 of every point, then
pair 2, so that a drift of the machine falls on all of them alike. Orders:

  random-blocks  a block is what is planned up to a look, or the whole run: half of its pairs in orders drawn with the
                 recorded seed, the other half in their reverses, all of them shuffled. So slots balance as in abba, and no
                 rhythm of the machine keeps step with the arms. Blocks of two pairs would be too small for that: with six
                 pairs they leave eight orders, and a quarter of those is strict abba or its mirror
  abba           every second pair reversed (three arms: ABC CBA); a host job that comes every fourth boot meets one arm
  pairs          each pair's order drawn by itself: what comparing within pairs assumes, at the price of balance
  alternate      never reversed, so it cannot tell an arm from a slot
  random         what `pairs` is called in older files
"""

import dataclasses
import random
import re

ALTERNATE_WARNING = "order = \"alternate\" cannot see slot bias: whoever boots first in a pair always is the same"


@dataclasses.dataclass(frozen=True)
class Slot:
    """One planned boot. point_index numbers the points; pair and slot count from 1 and 0."""

    id: str
    arm: str
    point: dict
    point_index: int
    pair: int
    slot: int

    def describe(self):
        return {"id": self.id, "arm": self.arm, "point": self.point, "pair": self.pair, "slot": self.slot}


def boot_id(pair, arm, point_index, points, attempt=1, width=2):
    """01-A; with axes 01-A-p2; a second attempt 01-A.2."""
    suffix = f"-p{point_index + 1}" if points > 1 else ""
    again = f".{attempt}" if attempt > 1 else ""
    return f"{pair:0{width}d}-{arm}{suffix}{again}"


def attempt_of(identity):
    found = re.search(r"\.([0-9]+)$", identity)
    return int(found[1]) if found else 1


def _blocks(arms, pairs, looks, shuffler):
    """The order of the arms in each pair of one point, for random-blocks."""
    found = []
    for end in [*(look for look in looks or () if look < pairs), pairs]:
        size = end - len(found)
        drawn = [shuffler.sample(arms, len(arms)) for _ in range((size + 1) // 2)]
        block = [names for one in drawn for names in (one, one[::-1])][:size]
        shuffler.shuffle(block)
        found += block
    return found


def draw(arms, points, pairs, order, seed, looks=None):
    """The planned boots in order: a list of Slot. arms: their names; looks: in pairs, where some are planned."""
    shuffler = random.Random(seed)
    width = max(2, len(str(pairs)))
    slots: list[Slot] = []
    blocks = [_blocks(list(arms), pairs, looks, shuffler) for _ in points] if order == "random-blocks" else []
    for pair in range(1, pairs + 1):
        for index, point in enumerate(points):
            names = list(arms)
            if order == "abba" and pair % 2 == 0:
                names.reverse()
            elif order in ("random", "pairs"):
                shuffler.shuffle(names)
            elif order == "random-blocks":
                names = blocks[index][pair - 1]
            for slot, name in enumerate(names):
                slots.append(Slot(boot_id(pair, name, index, len(points), width=width), name, point, index, pair, slot))
    return slots


def warnings(arms, pairs, order):
    found = []
    if order == "alternate":
        found.append(ALTERNATE_WARNING)
    if order in ("abba", "random-blocks") and pairs % 2 and pairs > 1:
        found.append(f"{pairs} pairs: an odd number leaves {order} unbalanced by one slot")
    if len(set(arms.values())) < len(arms):
        found.append("two arms have the same arguments: an A/A comparison")
    return found
