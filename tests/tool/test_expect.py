"""Rules over arm medians: what they mean, and that bad ones are refused with place and nearest name."""

import numpy as np
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


def about(middle, boots=6):
    return {"median": middle, "boots": [middle * (0.99 + 0.02 * at / boots) for at in range(boots)]}


def boots_of(kind, name, field, test, point):
    """What results have the medians of."""
    entries = results()["locks" if kind == "lock" else "counters"]
    for entry in entries:
        if (entry["name"], entry["test"], entry["point"]) == (name, test, point):
            return {arm: about(values[field])["boots"] for arm, values in entry["arms"].items()}
    return {"A": [0.0] * 6, "B": [0.0] * 6}


def results():
    arms = {"A": about(100.0), "B": about(40.0)}
    return {
        "arms": {"A": "", "B": ""},
        "points": [{"n": 1}, {"n": 2}],
        "boots": [{"used": True, "point": {"n": 1}}, {"used": True, "point": {"n": 2}}],
        "schema_counters": [{"name": "spills"}, {"name": "quiet"}],
        "tests": [{"name": "t", "point": {"n": 1}, "arms": arms},
                  {"name": "t", "point": {"n": 2}, "arms": {"A": about(1.0), "B": about(40.0)}}],
        "counters": [{"name": "spills", "test": "t", "cache": None, "point": {"n": 1}, "arms": arms},
                     {"name": "spills", "test": None, "cache": None, "point": {"n": 1},
                      "arms": {"A": {"median": 7.0}, "B": {"median": 8.0}}}],
        "figures": [{"name": "pigs", "test": "t", "point": {"n": 1}, "arms": arms}],
        "locks": [{"name": "heap", "test": None, "point": {"n": 1},
                   "arms": {"A": {"x_share": 0.5, "taken": 10}, "B": {"x_share": 0.0, "taken": 1}}}],
    }


def held(key, rule):
    return [entry["held"] for entry in expect.evaluate({key: rule}, results(), boots_of)]


def test_a_rule_is_asked_at_every_point():
    assert held("test:t", "B < A") == [True, False]


def test_counters_and_locks():
    assert held("counter:spills", "B > A")[0] is True
    assert held("counter:spills@t", "B > A")[0] is False
    assert held("lock:heap.x_share", "A > 10 * B")[0] is True
    assert held("lock:heap.taken", "A > 20 * B")[0] is False


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


@pytest.mark.parametrize("rule, boots, said", [
    ("B < 0.9 * A", {"A": [100, 101, 102, 103], "B": [80, 81, 82, 83]}, "held"),
    ("B < 0.9 * A", {"A": [100, 101, 102, 103], "B": [100, 99, 101, 102]}, "not held"),
    ("B < 0.9 * A", {"A": [100, 101, 102, 103], "B": [80, 95, 82, 93]}, "cannot tell"),
    ("B < 0.9 * A", {"A": [100, 101, 102], "B": [10, 11, 12]}, "cannot tell"),  # three pairs show nothing
    ("B < 0.9 * A", {"A": [100], "B": [10]}, "cannot tell"),
    ("A > 10 * B", {"A": [0.5] * 6, "B": [0.0] * 6}, "held"),
    ("A > 10", {"A": [20, 30, 25, 22]}, "held"),
    ("A > 10", {"A": [20, 1, 25, 2]}, "cannot tell"),
    ("A > 10", {"A": [2, 1, 3, 2]}, "not held"),
    ("A >= 1", {"A": [1, 1, 1, 1, 1, 2]}, "held"),
    ("A + B + C <= 0", {"A": [0] * 4, "B": [0] * 4, "C": [0] * 4}, "held"),
    ("A + B + C <= 0", {"A": [0] * 4, "B": [3] * 4, "C": [0] * 4}, "not held"),
    ("1.1 * C > B < 0.9 * A", {"A": [100] * 6, "B": [80] * 6, "C": [79] * 6}, "held"),
    ("1.1 * C > B < 0.9 * A", {"A": [100] * 6, "B": [80] * 6, "C": [60] * 6}, "not held"),
])
def test_a_rule_is_held_or_not_only_if_the_boots_show_it(rule, boots, said):
    assert expect.parse_rule(rule, "ABC").judge(boots) == said


def test_a_true_rule_with_room_seldom_fails():
    """B < A with B 5 % below, boots 5 % apart: medians have it the other way in one run of 25, and nobody is told so."""
    rng = np.random.default_rng(40)
    rule = expect.parse_rule("B < A", "AB")
    said = [rule.judge({"A": list(np.exp(0.05 * rng.standard_normal(6))), "B": list(0.95 * np.exp(0.05 * rng.standard_normal(6)))})
            for _ in range(1000)]
    assert said.count("not held") <= 3 and said.count("cannot tell") > 300
    edge = [rule.judge({arm: list(np.exp(0.05 * rng.standard_normal(6))) for arm in "AB"}) for _ in range(1000)]
    assert edge.count("held") <= 45 and edge.count("not held") <= 45  # 2.1 % each: 1 / 47


@pytest.mark.parametrize("versus, raw, held", [
    ({"verdict": "faster", "why": ""}, None, True), ({"verdict": "undecided", "why": ""}, None, True),
    ({"verdict": "none", "why": "one pair"}, None, None), ({"verdict": "unreliable", "why": "panics"}, None, None),
    ({"verdict": "refused", "why": "tcg"}, None, None), ({"verdict": "faster", "why": ""}, [100.0] * 6, None),
    ({"verdict": "faster", "adjusted": {"verdict": "faster"}}, [20.0, 100.0] * 3, True),  # the noise was taken out
    ({"verdict": "undecided", "adjusted": {"verdict": "faster"}}, [20.0, 100.0] * 3, None)])  # and it was not trusted
def test_without_a_verdict_nothing_is_held(versus, raw, held):
    found = results()
    found["tests"][0]["versus"] = {"B": versus}
    if raw:
        found["tests"][0]["arms"]["B"]["raw"] = raw
    entry = expect.evaluate({"test:t": "B < 0.9 * A"}, found)[0]
    assert entry["held"] is held and entry["outcome"] == ("held" if held else "cannot tell")
    assert held or entry["reason"]


def test_counted_instructions_are_exact():
    found = results() | {"machine": {"kind": "icount"}}
    found["tests"][0]["arms"] = {"A": {"median": 100.0, "boots": [100.0]}, "B": {"median": 40.0, "boots": [40.0]}}
    assert expect.evaluate({"test:t": "B < 0.9 * A"}, found)[0]["held"] is True
