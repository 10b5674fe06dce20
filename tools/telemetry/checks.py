"""Tests and rules of an experiment, checked against the images before anything boots; and of a run, which rules can be
judged in it.

A misspelt name costs nothing to boot: the kernel refuses tests that it does not have, but only once the machine runs, and a
rule about a test that never runs would be found out after the last boot. An image tells the names of its tests
(image.read_tests), so both are known before, all at once. Images from before they did are not asked.

What a run cannot judge although its file was right: a rule about an arm that this machine left out, about a test that
the machine skipped. Such a rule is not held and not missed; it says why it cannot be told.
"""

from __future__ import annotations

import itertools
import re

from . import expect
from .errors import HayloftError, did_you_mean


def matches(pattern: str, name: str) -> bool:
    """As the kernel does it (base/knobs.c): '*' is any run of characters, a plain name also means its children."""
    if "*" in pattern:
        return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
    return bool(pattern) and (name == pattern or name.startswith(f"{pattern}/"))


def unknown_tests(arguments: str, names: list[str] | None) -> list[str]:
    """One text for each pattern of tests= that no test of the image fits."""
    parts = sorted({name.rsplit("/", cut)[0] for name in names or [] for cut in range(name.count("/") + 1)})
    return [f"tests={pattern}: no test has such a name{did_you_mean(pattern, parts)}"
            for pattern in _patterns(arguments) if names is not None and not any(matches(pattern, n) for n in names)]


def runs(arguments: str, names: list[str]) -> set[str]:
    """The tests that an argument line chooses."""
    if value_of(arguments, "kbench", "0") == "0":
        return set()
    return {name for name in names if any(matches(pattern, name) for pattern in _patterns(arguments))}


def value_of(arguments: str, knob: str, otherwise: str) -> str:
    values = [word.partition("=")[2] for word in arguments.split() if word.partition("=")[0] == knob]
    return values[-1] if values else otherwise


def _patterns(arguments: str) -> list[str]:
    return [pattern for pattern in value_of(arguments, "tests", "*").split(",") if pattern]


def tests_named(key: str) -> str | None:
    """The test that a rule is about, None where it is about all of them."""
    kind, _, name = key.partition(":")
    return name or None if kind == "test" else name.partition("@")[2] or None


# -- before booting --------------------------------------------------------------------------------------


def check(experiment, tests: dict[str, list[str] | None]) -> None:
    """Fails with every mistake at once; tests: the names in each arm's image, None where it does not tell."""
    lines = {arm.name: [experiment.line_at(arm, point) for point in experiment.points] for arm in experiment.arms}
    wrong: dict[str, None] = {}  # in order, each once

    def note(key, text):
        try:
            experiment.fail(key, text)
        except HayloftError as error:
            wrong[str(error)] = None

    for arm in experiment.arms:
        for words, key in ((experiment.boot, ("boot",)), (arm.args, ("arms", arm.name))):
            if value_of(words, "tests", ""):
                for text in unknown_tests(words, tests[arm.name]):
                    note(key, text)
        for value in experiment.axes.get("tests", []):
            for text in unknown_tests(f"tests={value}", tests[arm.name]):
                note(("axes", "tests"), text)
    for key, text in experiment.expect.items():
        test = tests_named(key)
        if test:
            for what in _rule(test, expect.parse_rule(text, lines), lines, tests):
                note(("expect", key), what)
    if wrong:
        raise HayloftError("; ".join(wrong))


def _rule(test: str, rule, lines: dict, tests: dict) -> list[str]:
    """What is wrong with a rule about one test, if anything."""
    arms = [arm for arm in sorted(rule.arms) if tests[arm] is not None]
    known = sorted(set(itertools.chain.from_iterable(tests[arm] for arm in arms)))
    if known and test not in known:
        return [f"no test is called '{test}'{did_you_mean(test, known)}"]
    idle = [arm for arm in arms if not any(test in runs(line, tests[arm]) for line in lines[arm])]
    if not idle:
        return []
    rounds = any(value_of(line, "kbench", "0") != "0" for arm in idle for line in lines[arm])
    why = "tests= does not choose it" if rounds else "kbench=0 runs none"
    return [f"{test} never runs in arm{'s' if len(idle) > 1 else ''} {', '.join(idle)}: {why}"]


# -- in a run ---------------------------------------------------------------------------------------------


def told(expectations: dict[str, str], results: dict, arms: list[str], boots_of=None) -> tuple[dict[str, str], list[dict]]:
    """(rules that can be judged here, entries of results.json of the others, whose held is None); arms: all of the
    experiment's file."""
    fine, entries = {}, []
    for key, text in expectations.items():
        rule = expect.parse_rule(text, arms)
        reasons = [(point, _untold(key, rule, point, results)) for point in results["points"]]
        if not any(reason for _, reason in reasons):
            fine[key] = text
            continue
        judged = expect.evaluate({key: text}, results, boots_of) if not rule.arms - set(results["arms"]) else []
        for point, reason in reasons:
            own = [entry for entry in judged if entry["point"] == point]
            entries += own if not reason and own else [
                {"test": key, "rule": text, "held": None, "outcome": expect.CANNOT_TELL, "point": point,
                 "values": {arm: None for arm in results["arms"]}, "reason": reason}]
    return fine, entries


def _untold(key: str, rule, point: dict, results: dict) -> str:
    if not any(boot["used"] and boot["point"] == point for boot in results["boots"]):
        return "no boot counts"
    gone = sorted(rule.arms - set(results["arms"]))
    if gone:
        why = "; ".join(entry["reason"] for entry in results.get("skipped") or []
                        if entry.get("name") in {f"arm {arm}" for arm in gone})
        return f"arm{'s' if len(gone) > 1 else ''} {', '.join(gone)} did not run here{f': {why}' if why else ''}"
    test = tests_named(key)
    if test is None:
        return ""
    why = "; ".join(sorted({entry["reason"] for entry in results.get("skipped") or [] if entry.get("name") == test}))
    why = f": {why}" if why else ""
    entry = next((entry for entry in results["tests"] if entry["name"] == test and entry["point"] == point), None)
    if entry is None:
        return f"test {test} did not run{why}"
    lacking = sorted(arm for arm in rule.arms if all(value is None for value in entry["arms"][arm]["boots"]))
    return f"test {test} has no result in arm{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}{why}" if lacking else ""
