"""Expectations: rules over arm medians that turn a run into a test, such as "B < 0.5 * A".

    rule    = sum (("<" | ">" | "<=" | ">=") sum)+        a chain holds if every step holds
    sum     = term (("+" | "-") term)*
    term    = factor (("*" | "/") factor)*
    factor  = number | arm | "-" factor | "(" sum ")"

A key names what the arms' letters stand for: "test:NAME" its time an operation, "counter:NAME" the sum
over all timed rounds ("counter:NAME@TEST" of one test), "lock:CLASS.FIELD" likewise, "figure:NAME@TEST" what a
workload tells of its rounds besides their time. Parsed here, not by
Python: a file from somebody else must not be able to run anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import HayloftError, did_you_mean

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(<=|>=|[-+*/<>()]))")
_COMPARE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
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


def evaluate(expectations: dict[str, str], results: dict) -> list[dict]:
    """The entries of results.json: one an expectation and axis point. held is false where it cannot be told."""
    found = []
    for key, text in expectations.items():
        rule = parse_rule(text, results["arms"])
        for point in results["points"]:
            values, missing = _values(key, point, results)
            if missing and not _any_boot_counts(point, results):
                missing = "no boot counts"
            held = rule.holds(values) if not missing else None
            entry = {"test": key, "rule": text, "held": bool(held), "point": point,
                     "values": {arm: values.get(arm) for arm in results["arms"]}}
            if held is None:
                entry["reason"] = missing or "an arm has no value, or the rule divides by zero"
            found.append(entry)
    return found


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
