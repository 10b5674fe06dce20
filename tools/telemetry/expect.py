"""Expectations: rules over arm medians that turn a run into a test, such as "B < 0.5 * A".

    rule    = sum (("<" | ">" | "<=" | ">=") sum)+        a chain holds if every step holds
    sum     = term (("+" | "-") term)*
    term    = factor (("*" | "/") factor)*
    factor  = number | arm | "-" factor | "(" sum ")"

A rule is asked of boots, not of medians, with the certainty of a verdict:

    held, not held   a comparison of two arms by ranks: of every boot of one with every boot of the other, as the interval of a
                     ratio is made. Of one arm, or of three, by Student's interval over boots
    cannot tell      neither can be shown, or the test has no verdict, or times as measured and as adjusted differ in it

What has no value at all (a test that did not run, a name that is wrong) has not held, as before. Under icount figures are
exact, so there the rule is asked of them.

A key names what the arms' letters stand for: "test:NAME" its time an operation, "counter:NAME" the sum
over all timed rounds ("counter:NAME@TEST" of one test), "lock:CLASS.FIELD" likewise, "figure:NAME@TEST" what a
workload tells of its rounds besides their time. Parsed here, not by
Python: a file from somebody else must not be able to run anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

import numpy as np

from . import stats, verdict
from .errors import HayloftError, did_you_mean

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(<=|>=|[-+*/<>()]))")
_COMPARE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
HELD, NOT_HELD, CANNOT_TELL = "held", "not held", "cannot tell"
DEEPEST = 50
LONGEST_SHOWN = 80


@dataclass(frozen=True)
class Rule:
    """text as written; sums as trees of tuples; comparisons between neighbours."""

    text: str
    sums: tuple
    comparisons: tuple[str, ...]
    arms: frozenset[str]

    def holds(self, values: dict[str, float | None]) -> bool | None:
        """None if an arm has no value or something is divided by nothing."""
        try:
            numbers = [_evaluate(tree, values) for tree in self.sums]
        except (ZeroDivisionError, OverflowError, LookupError):
            return None
        return all(_COMPARE[c](a, b) for c, a, b in zip(self.comparisons, numbers, numbers[1:]))

    def judge(self, boots: dict[str, list[float | None]]) -> str:
        """boots: an arm's values, one a boot."""
        steps = [_judge_step(sign, left, right, boots) for sign, left, right in zip(self.comparisons, self.sums, self.sums[1:])]
        return NOT_HELD if NOT_HELD in steps else HELD if set(steps) == {HELD} else CANNOT_TELL


def _judge_step(sign: str, left, right, boots: dict[str, list[float | None]]) -> str:
    arms = sorted(_arms_in(left) | _arms_in(right))
    if not arms:
        return HELD if _COMPARE[sign](_evaluate(left, {}), _evaluate(right, {})) else NOT_HELD
    known = [[value for value in boots.get(arm) or [] if value is not None] for arm in arms]
    fewest = min(map(len, known))
    if fewest < verdict.FEWEST_PAIRS:
        return CANNOT_TELL
    together = product(*known) if len(arms) == 2 else zip(*known)
    try:
        gaps = np.array([_evaluate(left, here) - _evaluate(right, here)
                         for values in together for here in [dict(zip(arms, values))]])
    except (ZeroDivisionError, OverflowError):
        return CANNOT_TELL
    good = int(sum(_COMPARE[sign](gap, 0.0) for gap in gaps))
    if len(arms) == 2:
        out, coverage = stats.order_bounds(stats.mann_whitney_tail(len(known[0]), len(known[1])), verdict.LEVEL)
        sure = coverage >= verdict.LEVEL
        return HELD if sure and len(gaps) - good <= out else NOT_HELD if sure and good <= out else CANNOT_TELL
    if good in (0, fewest) and 2.0 ** (1 - fewest) <= verdict.ALPHA:
        return HELD if good else NOT_HELD
    middle = float(gaps.mean())
    half = stats.t_quantile((1 + verdict.LEVEL) / 2, fewest - 1) * float(gaps.std(ddof=1)) / fewest**0.5
    ends = {_COMPARE[sign](end, 0.0) for end in (middle - half, middle + half)}
    return CANNOT_TELL if len(ends) > 1 else HELD if ends.pop() else NOT_HELD


def _arms_in(tree) -> set[str]:
    if isinstance(tree, str):
        return {tree}
    return set() if isinstance(tree, float) else _arms_in(tree[1]) | _arms_in(tree[2])


def parse_rule(text: str, arms) -> Rule:
    """A rule about these arms; HayloftError says what is wrong and where."""
    return _Parser(text, list(arms)).rule()


class _Parser:
    def __init__(self, text: str, arms: list[str]):
        self.text, self.arms, self.used = text, arms, set()
        self.tokens = self._split()
        self.at = 0

    def _split(self) -> list[tuple[str, str, int]]:
        found, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if not match:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                self.fail(f"'{self.text[at]}' means nothing", at)
            kind = ("number", "name", "sign")[match.lastindex - 1]
            found.append((kind, match[match.lastindex], match.start(match.lastindex)))
            at = match.end()
        return found

    def fail(self, what: str, at: int | None = None):
        if at is None:
            at = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        shown = self.text if len(self.text) <= LONGEST_SHOWN else self.text[:LONGEST_SHOWN] + "…"
        raise HayloftError(f"in the rule '{shown}', column {at + 1}: {what}; a rule is like 'B < 0.5 * A'")

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def rule(self) -> Rule:
        sums, comparisons = [self.sum(0)], []
        while self.peek() in _COMPARE:
            comparisons.append(self.peek())
            self.at += 1
            sums.append(self.sum(0))
        if self.peek():
            self.fail(f"'{self.peek()}' is not expected here")
        if not comparisons:
            self.fail("compares nothing: < > <= or >= is missing")
        if not self.used:
            self.fail("names no arm, so it is always the same", 0)
        return Rule(self.text, tuple(sums), tuple(comparisons), frozenset(self.used))

    def sum(self, depth: int):
        left = self.term(depth)
        while self.peek() in ("+", "-"):
            sign = self.peek()
            self.at += 1
            left = (sign, left, self.term(depth))
        return left

    def term(self, depth: int):
        left = self.factor(depth)
        while self.peek() in ("*", "/"):
            sign = self.peek()
            self.at += 1
            left = (sign, left, self.factor(depth))
        return left

    def factor(self, depth: int):
        if depth > DEEPEST:
            self.fail("nested too deeply")
        if self.at >= len(self.tokens):
            self.fail("ends where a number or an arm should follow")
        kind, word, _ = self.tokens[self.at]
        if kind == "name" and word not in self.arms:
            self.fail(f"no arm is called '{word}'{did_you_mean(word, self.arms)}")
        self.at += 1
        if kind == "number":
            return float(word)
        if kind == "name":
            self.used.add(word)
            return word
        if word == "-":
            return ("-", 0.0, self.factor(depth + 1))
        if word == "(":
            inner = self.sum(depth + 1)
            if self.peek() != ")":
                self.fail("a ')' is missing")
            self.at += 1
            return inner
        self.at -= 1
        self.fail(f"'{word}' stands where a number or an arm should")


def _evaluate(tree, values: dict[str, float | None]) -> float:
    if isinstance(tree, float):
        return tree
    if isinstance(tree, str):
        if values.get(tree) is None:
            raise LookupError(tree)
        return float(values[tree])
    sign, left, right = tree
    left, right = _evaluate(left, values), _evaluate(right, values)
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return left * right if sign == "*" else left / right


# -- against results ------------------------------------------------------------------------------


def evaluate(expectations: dict[str, str], results: dict, boots_of=None) -> list[dict]:
    """The entries of results.json: one an expectation and axis point. held is true, false, or null where the boots cannot
    tell; false as well where there is nothing to ask. boots_of(kind, name, field, test, point): {arm: values of boots}, of
    what results have no boots of."""
    found = []
    for key, text in expectations.items():
        rule = parse_rule(text, results["arms"])
        for point in results["points"]:
            values, missing = _values(key, point, results)
            if missing and not _any_boot_counts(point, results):
                missing = "no boot counts"
            on_medians = rule.holds(values) if not missing else None
            entry = {"test": key, "rule": text, "held": False, "outcome": CANNOT_TELL, "point": point,
                     "values": {arm: values.get(arm) for arm in results["arms"]}}
            if on_medians is None:
                entry["reason"] = missing or "an arm has no value, or the rule divides by zero"
            else:
                entry["outcome"], reason = _outcome(rule, key, point, results, boots_of, on_medians)
                entry["held"] = {HELD: True, NOT_HELD: False}.get(entry["outcome"])
                if reason:
                    entry["reason"] = reason
            found.append(entry)
    return found


def _outcome(rule: Rule, key: str, point: dict, results: dict, boots_of, on_medians: bool) -> tuple[str, str]:
    kind, _, name = key.partition(":")
    name, _, test = name.partition("@")
    if (results.get("machine") or {}).get("kind") == "icount":
        return (HELD if on_medians else NOT_HELD), ""
    if kind == "test":
        return _outcome_of_test(rule, next(e for e in results["tests"] if e["name"] == name and e["point"] == point))
    field = name.partition(".")[2] if kind == "lock" else "median"
    if kind == "figure":
        arms = next(e["arms"] for e in results["figures"] if (e["name"], e["test"], e["point"]) == (name, test, point))
        boots = {arm: about["boots"] for arm, about in arms.items()}
    else:
        boots = boots_of(kind, name.partition(".")[0] if kind == "lock" else name, field, test or None, point) if boots_of else {}
    said = rule.judge(boots)
    return said, _few(rule, boots) if said == CANNOT_TELL else ""


def _outcome_of_test(rule: Rule, entry: dict) -> tuple[str, str]:
    for arm, versus in entry.get("versus", {}).items():
        if arm in rule.arms and versus["verdict"] in ("refused", "unreliable", "none"):
            return CANNOT_TELL, f"{versus['verdict']}: {versus['why']}"
    arms = entry["arms"]
    said = {name: rule.judge({arm: about.get(name) or about["boots"] for arm, about in arms.items()}) for name in ("boots", "raw")}
    # what only the adjusted times show counts where the verdict rests on them too (settle.py)
    settled = all(versus["verdict"] == versus["adjusted"]["verdict"] for arm, versus in entry.get("versus", {}).items()
                  if arm in rule.arms and versus.get("adjusted"))
    if said["boots"] != said["raw"] and not (settled and said["raw"] == CANNOT_TELL):
        return CANNOT_TELL, f"as adjusted {said['boots']}, as measured {said['raw']}"
    return said["boots"], _few(rule, {arm: about["boots"] for arm, about in arms.items()}) if said["boots"] == CANNOT_TELL else ""


def _few(rule: Rule, boots: dict) -> str:
    counts = [sum(value is not None for value in boots.get(arm) or []) for arm in rule.arms]
    if min(counts, default=0) < verdict.FEWEST_PAIRS:
        return f"{min(counts, default=0)} boots of an arm: with fewer than {verdict.FEWEST_PAIRS} nothing is shown"
    return f"the boots do not show it, nor the contrary, with {100 * verdict.LEVEL:.0f} %"


def _any_boot_counts(point: dict, results: dict) -> bool:
    return any(boot["used"] and boot["point"] == point for boot in results["boots"])


def _values(key: str, point: dict, results: dict) -> tuple[dict[str, float | None], str]:
    kind, _, name = key.partition(":")
    name, _, test = name.partition("@")
    if kind == "test":
        return _pick(results["tests"], point, lambda e: e["name"] == name, "median", f"test {name} did not run")
    if kind == "counter":
        chosen = lambda e: e["name"] == name and e["test"] == (test or None) and e["cache"] is None  # noqa: E731
        if not any(chosen(entry) for entry in results["counters"]):
            known = any(about["name"] == name for about in results.get("schema_counters") or [])
            if known:  # never sent, so it is 0 wherever boots counted at all
                return {arm: 0.0 for arm in results["arms"]}, ""
        return _pick(results["counters"], point, chosen, "median", f"counter {name} was not counted")
    if kind == "figure":
        return _pick(results["figures"], point, lambda e: (e["name"], e["test"]) == (name, test), "median",
                     f"test {test} told no figure {name}")
    lock_class, _, field = name.partition(".")
    if not field:
        return {}, f"lock:{name} names no field; write lock:{name}.FIELD"
    return _pick(
        results["locks"],
        point,
        lambda e: e["name"] == lock_class and e["test"] == (test or None),
        field,
        f"lock {lock_class} was not taken",
    )


def _pick(entries: list[dict], point: dict, chosen, field: str, missing: str):
    for entry in entries:
        if entry["point"] == point and chosen(entry):
            values = {arm: about.get(field) for arm, about in entry["arms"].items()}
            if all(value is None for value in values.values()):
                return {}, f"no arm has a value for {field}"
            return values, ""
    return {}, missing
