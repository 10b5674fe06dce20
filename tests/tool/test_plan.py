"""The order of boots: pairs stay together, abba balances slots, random repeats from its seed."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from telemetry import plan
from telemetry.experiment import ORDERS


def arms_of(slots):
    return "".join(slot.arm for slot in slots)


def test_abba_reverses_every_second_pair():
    assert arms_of(plan.draw("AB", [{}], 4, "abba", 1)) == "ABBAABBA"
    assert arms_of(plan.draw("ABC", [{}], 2, "abba", 1)) == "ABCCBA"


def test_alternate_never_reverses_and_says_what_it_cannot_see():
    assert arms_of(plan.draw("AB", [{}], 3, "alternate", 1)) == "ABABAB"
    assert any("slot bias" in text for text in plan.warnings({"A": "x", "B": "y"}, 6, "alternate"))


def test_ids():
    slots = plan.draw("AB", [{}], 2, "abba", 1)
    assert [slot.id for slot in slots] == ["01-A", "01-B", "02-B", "02-A"]
    slots = plan.draw("AB", [{"n": 1}, {"n": 2}], 1, "abba", 1)
    assert [slot.id for slot in slots] == ["01-A-p1", "01-B-p1", "01-A-p2", "01-B-p2"]
    assert plan.boot_id(3, "A", 0, 1, attempt=2) == "03-A.2"
    assert plan.attempt_of("03-A.2") == 2 and plan.attempt_of("03-A") == 1


def test_warnings():
    assert any("odd" in text for text in plan.warnings({"A": "x", "B": "y"}, 5, "abba"))
    assert any("A/A" in text for text in plan.warnings({"A": "x", "B": "x"}, 6, "abba"))
    assert plan.warnings({"A": "x", "B": "y"}, 6, "abba") == []


@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 12), st.sampled_from(ORDERS),
       st.integers(0, 2**32 - 1))
def test_every_arm_boots_once_a_pair_and_point(arms, points, pairs, order, seed):
    names = "ABCDE"[:arms]
    slots = plan.draw(names, [{"n": n} for n in range(points)], pairs, order, seed)
    assert slots == plan.draw(names, [{"n": n} for n in range(points)], pairs, order, seed)
    assert len({slot.id for slot in slots}) == len(slots) == arms * points * pairs
    for at in range(0, len(slots), arms):
        group = slots[at:at + arms]
        assert {slot.arm for slot in group} == set(names)
        assert len({(slot.pair, slot.point_index) for slot in group}) == 1


@pytest.mark.parametrize("order", ["abba", "random-blocks"])
@pytest.mark.parametrize("arms", ["AB", "ABC"])
def test_every_arm_gets_every_mirrored_slot_alike(arms, order):
    for seed in range(20):
        mean = Counter()
        for slot in plan.draw(arms, [{}, {"n": 2}], 6, order, seed):
            mean[slot.arm, slot.point_index] += slot.slot
        assert len(set(mean.values())) == 1, "an arm stands earlier than another on average"


def test_random_blocks_are_mirrored_pairs_shuffled():
    drawn = set()
    for seed in range(400):
        order = arms_of(plan.draw("AB", [{}], 6, "random-blocks", seed))
        pairs = [order[at:at + 2] for at in range(0, 12, 2)]
        assert Counter(pairs) == {"AB": 3, "BA": 3}
        drawn.add(tuple(pairs))
    assert len(drawn) == 20, "every order that balances"


def test_random_blocks_balance_up_to_each_look():
    for seed in range(20):
        order = arms_of(plan.draw("AB", [{}], 30, "random-blocks", seed, looks=[6, 12, 30]))
        pairs = [order[at:at + 2] for at in range(0, 60, 2)]
        assert [pairs[:look].count("AB") for look in (6, 12, 30)] == [3, 6, 15]


def test_random_blocks_balance():
    assert any("odd" in text for text in plan.warnings({"A": "x", "B": "y"}, 5, "random-blocks"))
