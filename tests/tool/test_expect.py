"""Rules over arm medians: what they mean, and that bad ones are refused with place and nearest name."""

import pytest
from hypothesis import given, strategies as st
from telemetry import expect, verdicts
from telemetry.errors import HayloftError

ARMS = ["A", "B", "C"]


@pytest.mark.parametrize(
    "text, values, held",
    [
        ("B < 0.5 * A", {"A": 100, "B": 49}, True),
        ("B < 0.5 * A", {"A": 100, "B": 50}, False),
        ("B <= 0.5 * A", {"A": 100, "B": 50}, True),
        ("A > 10 * B", {"A": 0.6, "B": 0}, True),
        ("A - B - C > 0", {"A": 10, "B": 6, "C": 3}, True),
        ("A / B / 2 >= 5", {"A": 100, "B": 10}, True),
        ("A + B * 2 < 9", {"A": 3, "B": 3}, False),
        ("(A + B) * 2 <= 12", {"A": 3, "B": 3}, True),
        ("-A < -2", {"A": 3}, True),
        ("1 < B/A < 2", {"A": 10, "B": 15}, True),
        ("1 < B/A < 2", {"A": 10, "B": 25}, False),
        ("A>=1e3", {"A": 1000}, True),
        ("A < .5", {"A": 0.4}, True),
    ],
)
def test_rules(text, values, held):
    assert expect.parse_rule(text, ARMS).holds(values) is held


@pytest.mark.parametrize("values", [{"A": None, "B": 1}, {"B": 1}, {"A": 0, "B": 1}])
def test_what_cannot_be_told_is_not_held(values):
    assert expect.parse_rule("B / A < 2", ARMS).holds(values) is None


@pytest.mark.parametrize(
    "text, said",
    [
        ("B < 0.5 * D", "no arm is called 'D'"),
        ("B", "compares nothing"),
        ("B <", "ends where"),
        ("< B", "stands where"),
        ("(A < B", "')' is missing"),
        ("A < B)", "not expected"),
        ("1 < 2", "names no arm"),
        ("A ** 2 < B", "stands where"),
        ("A < B; import os", "means nothing"),
        ("__import__('os') < A", "means nothing"), ("system(A) < B", "no arm is called"),
        ("", "ends where"),
        ("A = B", "means nothing"),
        ("(" * 200 + "A" + ")" * 200 + " < B", "too deeply"),
        ("-" * 5000 + "A < B", "too deeply"),
    ],
)
def test_bad_rules_are_one_line_with_a_place(text, said):
    with pytest.raises(HayloftError) as failure:
        expect.parse_rule(text, ARMS)
    message = str(failure.value)
    assert said in message and "column" in message and "\n" not in message
    assert failure.value.exit_code == 2


@given(st.text(alphabet="AB0123456789.+-*/()<>= \t", max_size=40))
def test_any_text_is_a_rule_or_refused(text):
    try:
        rule = expect.parse_rule(text, ARMS)
    except HayloftError:
        return
    assert rule.holds({"A": 2.0, "B": 3.0, "C": 1.0}) in (True, False, None)


def results():
    arms = {"A": {"median": 100.0}, "B": {"median": 40.0}}
    return {
        "arms": {"A": "", "B": ""},
        "points": [{"n": 1}, {"n": 2}],
        "boots": [{"used": True, "point": {"n": 1}}, {"used": True, "point": {"n": 2}}],
        "schema_counters": [{"name": "spills"}, {"name": "quiet"}],
        "tests": [{"name": "t", "point": {"n": 1}, "arms": arms},
                  {"name": "t", "point": {"n": 2}, "arms": {"A": {"median": 1.0}, "B": {"median": 40.0}}}],
        "counters": [{"name": "spills", "test": "t", "cache": None, "point": {"n": 1}, "arms": arms},
                     {"name": "spills", "test": None, "cache": None, "point": {"n": 1},
                      "arms": {"A": {"median": 7.0}, "B": {"median": 8.0}}}],
        "figures": [{"name": "pigs", "test": "t", "point": {"n": 1}, "arms": arms}],
        "locks": [{"name": "heap", "test": None, "point": {"n": 1},
                   "arms": {"A": {"x_share": 0.5, "taken": 10}, "B": {"x_share": 0.0, "taken": 1}}}],
    }


def held(key, rule):
    return [entry["held"] for entry in expect.evaluate({key: rule}, results())]


def test_a_rule_is_asked_at_every_point():
    assert held("test:t", "B < A") == [True, False]


def test_counters_and_locks():
    assert held("counter:spills", "B > A")[0] is True
    assert held("counter:spills@t", "B > A")[0] is False
    assert held("lock:heap.x_share", "A > 10 * B")[0] is True
    assert held("lock:heap.taken", "A > 10 * B")[0] is False


def test_figures():
    assert held("figure:pigs@t", "B < A")[0] is True
    assert held("figure:pigs@t", "B > A")[0] is False


def test_a_counter_that_never_moved_is_zero():
    assert held("counter:quiet", "A <= 0") == [True, True]


@pytest.mark.parametrize("key", ["test:absent", "counter:absent", "lock:absent.taken", "lock:heap", "lock:heap.absent",
                                 "figure:absent@t", "figure:pigs@absent", "figure:pigs"])
def test_what_is_missing_fails_and_says_so(key):
    entry = expect.evaluate({key: "A < B"}, results())[0]
    assert entry["held"] is False and entry["reason"]


@pytest.mark.parametrize("key", ["test:t", "test:absent", "counter:spills", "lock:heap.taken", "figure:pigs@t"])
def test_where_no_boot_counts_that_is_the_reason(key):
    """Not that a test did not run or a lock was not taken: nobody knows."""
    empty = {**results(), "tests": [], "counters": [], "schema_counters": [], "figures": [], "locks": []}
    empty["boots"] = [{"used": False, "point": {"n": 1}}, {"used": True, "point": {"n": 2}}]
    reasons = [entry["reason"] for entry in expect.evaluate({key: "A < B"}, empty)]
    assert reasons[0] == "no boot counts" and reasons[1] != "no boot counts"


def test_the_terminal_says_why_a_rule_was_not_met(tmp_path, capsys):
    """Names of figures are known after the boots only, so this is where a misspelt one shows."""
    rows = [{"test": "figure:slab@maple", "rule": "B > A", "held": False, "reason": "test maple told no figure slab"},
            {"test": "lock:cache.contended_share", "rule": "A > 10 * B", "held": False, "values": {"A": 0.0, "B": 0.25}},
            {"test": "test:maple", "rule": "B < A", "held": True, "values": {"A": 2.0, "B": 1.0}}]
    verdicts.show(tmp_path, {"tests": [], "arms": {}, "reference": "A", "expectations": rows})
    said = capsys.readouterr().out
    assert "expected figure:slab@maple: B > A: FAILED (test maple told no figure slab)" in said
    assert "expected lock:cache.contended_share: A > 10 * B: FAILED (A = 0, B = 0.25)" in said
    assert "expected test:maple: B < A: held\n" in said
