"""A run's results in words: the answer for a newcomer, how sure it is, and what did not come out as published.

Pure functions of results.json. The first sentence must stand alone, so it names the arms by what they are
(the arguments in which they differ), the largest effect with its figures, and the lock whose waiting
changed most in that test. It states what was seen together, not what caused what.
"""

from __future__ import annotations

import math

from .. import stats, units, verdict

CLAIMS = ("faster", "slower")
SHARE_SUFFIX = "_share"
WORTH_SAYING = 0.002  # a lock's share whose change is smaller than this is not in the first sentence ...
WORTH_FACTOR = 2.0  # ... nor one that changed by less than this factor
FAR_OFF = 3.0  # a published factor and ours further apart than this differ in size


def arms_apart(arms: dict[str, str]) -> dict[str, str]:
    """Each arm's arguments without those that all arms share; 'the same' where nothing is left."""
    words = {arm: args.split() for arm, args in arms.items()}
    common = set.intersection(*(set(w) for w in words.values())) if words else set()
    return {arm: " ".join(w for w in own if w not in common) or "no arguments of its own" for arm, own in words.items()}


def alike(results: dict) -> bool:
    return len(set(results["arms"].values())) < len(results["arms"])


def point_text(point: dict) -> str:
    return ", ".join(f"{key.removeprefix('machine.')}={value}" for key, value in point.items())


def test_label(test: dict) -> str:
    where = point_text(test["point"])
    return f"{test['name']} ({where})" if where else test["name"]


def others(results: dict) -> list[str]:
    return [arm for arm in results["arms"] if arm != results["reference"]]


def figures(test: dict, reference: str, arm: str) -> str:
    """The medians, said to be that: their quotient is not the ratio, which is over all pairs of boots."""
    a, b = test["arms"][reference]["median"], test["arms"][arm]["median"]
    return f"medians {units.number(a)} → {units.number(b)} {test['unit']}"


def answer(results: dict) -> str:
    """One sentence an arm."""
    return " ".join(_answer_of(results, arm) for arm in others(results)) or "Nothing was compared: no arm is left."


def _answer_of(results: dict, arm: str) -> str:
    reference = results["reference"]
    judged = [(test, test["versus"][arm]) for test in results["tests"] if arm in test["versus"]]
    if not judged:
        return _nothing_sentence(results, arm)
    by_verdict: dict[str, list] = {}
    for test, versus in judged:
        by_verdict.setdefault(versus["verdict"], []).append((test, versus))
    if "unreliable" in by_verdict:
        return f"Arm {arm} cannot be compared with {reference}: {by_verdict['unreliable'][0][1]['why']}."
    claims = sorted(
        (entry for name in CLAIMS for entry in by_verdict.get(name, [])),
        key=lambda entry: -abs(math.log(entry[1]["ratio"])),
    )
    if claims:
        return _claim_sentence(results, arm, claims, by_verdict)
    return _no_claim_sentence(results, arm, judged, by_verdict)


def _nothing_sentence(results: dict, arm: str) -> str:
    counted, reference = boots_counted(results), results["reference"]
    if not results["boots"]:
        return f"Nothing is known of arm {arm} yet: no boot was made."
    if counted[arm] and counted[reference]:
        return f"Arm {arm} has no result: its boots went well, but no test ran."
    missing = " nor ".join(a for a in (reference, arm) if not counted[a])
    reasons = {boot["outcome"] or "unknown" for boot in results["boots"] if not boot["used"]}
    why = f" (failed boots: {', '.join(sorted(reasons))})" if reasons else ""
    return f"Arm {arm} cannot be compared with {reference}: no boot of {missing} counts{why}."


def _arm_name(results: dict, arm: str) -> str:
    return f"arm {arm} (`{arms_apart(results['arms'])[arm]}`)"


def _claim_sentence(results, arm, claims, by_verdict) -> str:
    reference = results["reference"]
    test, versus = claims[0]
    first = f"Compared with {_arm_name(results, reference)}, {_arm_name(results, arm)} makes an operation of "
    first += f"{test_label(test)} {_how_much(versus['ratio'])} ({figures(test, reference, arm)}{_reach(versus)})"
    for other, _ in claims:  # the test itself, else the next that shows less or more waiting
        waiting = lock_sentence(results, other, arm)
        if waiting:
            first += f", and {'' if other is test else f'in {test_label(other)} '}{waiting}"
            break
    return first + "; " + _the_rest(claims, by_verdict, results) + "."


def _reach(versus: dict) -> str:
    """Said where the effect is estimated beyond the minimum effect and its interval begins below."""
    low, high = versus["interval"]
    if versus.get("beyond", True) or low is None or high is None:
        return ""
    return f"; an estimate: the ratio lies between {units.number(low)} and {units.number(high)}"


def _how_much(ratio: float) -> str:
    if ratio < 1:
        return f"{units.times(1 / ratio)} faster" if ratio <= 0.505 else f"{100 * (1 - ratio):.0f} % shorter"
    return f"{units.times(ratio)} slower" if ratio >= 1.995 else f"{100 * (ratio - 1):.0f} % longer"


def _the_rest(claims, by_verdict, results) -> str:
    """What the other tests say, counted."""
    parts = []
    total = sum(len(entries) for entries in by_verdict.values())
    for name in CLAIMS:
        entries = by_verdict.get(name, [])
        if entries:
            parts.append(f"{len(entries)} of {total} tests {'is' if len(entries) == 1 else 'are'} {name}")
        elif name == "slower":
            parts.append("none is slower")
    if by_verdict.get("no difference"):
        names = [test_label(test) for test, _ in by_verdict["no difference"]]
        shown = ", ".join(names) if len(names) <= 3 else f"{len(names)} tests"
        verb = "shows" if len(names) == 1 else "show"
        parts.append(f"{shown} {verb} no difference of {100 * results['minimum_effect']:.3g} % or more")
    if by_verdict.get("undecided"):
        count = len(by_verdict["undecided"])
        parts.append(f"{count} {'is' if count == 1 else 'are'} undecided")
    if by_verdict.get("refused"):
        parts.append(f"{len(by_verdict['refused'])} cannot be judged on this machine")
    return ", ".join(parts)


def _no_claim_sentence(results, arm, judged, by_verdict) -> str:
    reference, total = results["reference"], len(judged)
    same, open_ = by_verdict.get("no difference", []), by_verdict.get("undecided", []) + by_verdict.get("none", [])
    if alike(results) and results["arms"][arm] == results["arms"][reference]:
        name = f"Arms {reference} and {arm} were booted with the same arguments, and no test tells them apart"
    elif open_ and not same:
        name = f"Nothing is decided between {_arm_name(results, reference)} and {_arm_name(results, arm)}"
    else:
        name = f"No difference between {_arm_name(results, reference)} and {_arm_name(results, arm)} is shown"
    parts = []
    if same:
        parts.append(f"{len(same)} of {total} tests differ by less than {100 * results['minimum_effect']:.3g} %")
    if open_:
        parts.append(f"{len(open_)} of {total} tests {'is' if len(open_) == 1 else 'are'} undecided")
    if by_verdict.get("refused"):
        parts.append(f"{len(by_verdict['refused'])} cannot be judged on this machine")
    return name + ": " + ", ".join(parts) + _hint(results, arm, open_) + "."


def _hint(results, arm, open_) -> str:
    """The largest effect seen among undecided tests, and what would decide it."""
    both = [(test, versus) for test, versus in open_ if versus.get("adjusted") and versus["verdict"] == "undecided"
            and {versus[kind]["verdict"] for kind in ("adjusted", "measured")} & set(CLAIMS)]
    if both:  # one of them claims something: settle.py
        test, versus = both[0]
        told = " and ".join(f"as {kind} {versus[kind]['verdict']} (ratio {units.number(versus[kind]['ratio'])})"
                            for kind in ("adjusted", "measured"))
        return f"; on {test_label(test)} the times say {told}, so neither is believed"
    seen = [(test, versus) for test, versus in open_ if versus.get("ratio")]
    if not seen:
        return ""
    test, versus = max(seen, key=lambda entry: abs(math.log(entry[1]["ratio"])))
    if abs(math.log(versus["ratio"])) <= math.log1p(results["minimum_effect"]):
        return ""
    text = f"; what was seen points to {arm} being {_how_much(versus['ratio'])} on {test_label(test)}"
    text += f" ({figures(test, results['reference'], arm)})"
    waiting = lock_sentence(results, test, arm)
    if waiting:
        text += f", and {waiting}"
    if versus.get("pairs_needed"):
        text += f"; about {versus['pairs_needed']} pairs would decide it"
    return text


def shares(row: dict) -> list[str]:
    return [key for key, value in row.items() if key.endswith(SHARE_SUFFIX) and value is not None]


def lock_sentence(results: dict, test: dict, arm: str) -> str:
    """The lock class whose share of awaited acquisitions changed most in this test, in words."""
    best = None
    for entry in results["locks"]:
        if entry["test"] != test["name"] or entry["point"] != test["point"]:
            continue
        a, b = entry["arms"].get(results["reference"]), entry["arms"].get(arm)
        if not a or not b:
            continue
        for key in shares(a)[:1]:
            before, after = a[key], b.get(key) or 0.0
            if best is None or abs(after - before) > abs(best[2] - best[1]):
                best = entry["name"], before, after
    if best is None or abs(best[2] - best[1]) < WORTH_SAYING:
        return ""
    if max(best[1:]) < WORTH_FACTOR * min(best[1:]):
        return ""
    verb = "fell" if best[2] < best[1] else "rose"
    return (f"the share of {best[0]}-lock acquisitions that found the lock taken {verb} "
            f"from {units.share(best[1])} to {units.share(best[2])}")


# -- how sure -------------------------------------------------------------------------------------


def how_sure(results: dict) -> str:
    counted = boots_counted(results)
    kind = results["machine"].get("kind")
    if kind == "icount":
        return ("Instructions are counted exactly and repeat from run to run, so there is no chance in the comparison; "
                "contention and time do not appear in it.")
    fewest = min(counted.values(), default=0) // max(1, len(results["points"]))
    if fewest == 0:
        return "Not at all: not one pair of boots counts."
    if fewest == 1:
        return "Not at all: one pair of boots shows one pair of boots."
    text = f"{_fewest_text(counted, results)} The boot is the sampling unit (the geometric mean of its rounds). "
    least = stats.smallest_p(fewest, fewest, results.get("scheme") or "boots") * max(1, len(results["arms"]) - 1)
    if fewest < verdict.FEWEST_PAIRS or least > verdict.ALPHA:
        return text + (f"With {fewest} pairs even perfect separation happens by chance with p = {min(1, least):.2g}, so "
                       "nothing can be decided; ratios are shown for what they are.")
    text += (f"p is adjusted over all {len(results['tests'])} tests of the run (max-T over arm labels, and Welch's t): in an A/A run, "
             f"the chance that any test is called faster or slower is at most {100 * verdict.ALPHA:.0f} %.")
    if results.get("looks"):
        text += f" Planned looks at {', '.join(map(str, results['looks']))} pairs share that rate."
    return text


def _fewest_text(counted: dict[str, int], results: dict) -> str:
    numbers = set(counted.values())
    points = len(results["points"])
    each = f" at each of {points} points" if points > 1 else ""
    if len(numbers) == 1:
        return f"{next(iter(numbers)) // points} boots of each arm{each} count."
    return "Boots that count: " + ", ".join(f"{arm} {count}" for arm, count in counted.items()) + "."


def boots_counted(results: dict) -> dict[str, int]:
    return {arm: sum(1 for b in results["boots"] if b["used"] and b["arm"] == arm) for arm in results["arms"]}


def thrown_away(results: dict) -> list[str]:
    """Each boot that does not count, with its reason."""
    found = []
    for boot in results["boots"]:
        if not boot["used"]:
            reason = f": {boot['reason']}" if boot.get("reason") else ""
            found.append(f"{boot['id']}: {boot['outcome'] or 'unknown'}{reason}")
    return found


# -- beside the published figures -----------------------------------------------------------------


def published_for(results: dict, test: dict, arm: str) -> dict | None:
    for row in (results.get("published_result") or {}).get("rows") or []:
        if row.get("test") == test["name"] and row.get(results["reference"]) and row.get(arm):
            return row
    return None


def beside(results: dict) -> list[dict]:
    """The tests whose counters stand beside the published ones."""
    chosen = (results.get("published_result") or {}).get("beside")
    return [test for test in results["tests"] if not chosen or test["name"] in chosen]


def published_counts(results: dict, arm: str) -> list[dict]:
    """Published rows of other things than a test's time."""
    rows = (results.get("published_result") or {}).get("rows") or []
    return [row for row in rows if published_name(row) and results["reference"] in row and arm in row]


def published_name(row: dict) -> str:
    name = next((f"`{row[kind]}`" for kind in ("counter", "figure") if row.get(kind)),
                "throughput" if row.get("throughput") else "")
    return f"{name} of `{row['cache']}`" if row.get("cache") else name


def ours(results: dict, test: dict, row: dict) -> dict[str, float | None]:
    """What a published row is about as it came out here, by arm."""
    if row.get("throughput"):
        return {arm: test["cpus"] * 1e9 / about["median"] if about["median"] and test.get("cpus") else None
                for arm, about in test["arms"].items()}
    kind, name = ("counters", row["counter"]) if row.get("counter") else ("figures", row["figure"])
    for entry in results[kind]:
        if (entry["name"], entry["test"], entry["point"], entry.get("cache")) == (name, test["name"], test["point"],
                                                                                  row.get("cache")):
            return {arm: about["median"] for arm, about in entry["arms"].items()}
    known = kind == "counters" and any(about["name"] == name for about in results.get("schema_counters") or [])
    return dict.fromkeys(results["arms"], 0.0 if known else None)  # a counter that was never sent is 0


def change_of(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else after / before - 1


def surprises(results: dict) -> list[str]:
    """Where this run and the published figures disagree, in words."""
    found = []
    for test in results["tests"]:
        for arm, versus in test["versus"].items():
            row = published_for(results, test, arm)
            if row is None:
                continue
            theirs = row[arm] / row[results["reference"]]
            text = _surprise(theirs, versus, results["minimum_effect"])
            if text:
                found.append(f"{test_label(test)}: published {_how_much(theirs)} "
                             f"({units.number(row[results['reference']])} → {units.number(row[arm])} {row.get('unit', '')}), "
                             f"here {text}")
    ran = {test["name"] for test in results["tests"]}
    if not ran:
        return ["no test has a result here"]
    skipped = {entry["name"]: entry["reason"] for entry in results["skipped"]}
    for row in (results.get("published_result") or {}).get("rows") or []:
        name = row.get("test")
        if name and name not in ran:
            found.append(f"{name}: published, but {'skipped: ' + skipped[name] if name in skipped else 'not run'} here")
    return found + _count_surprises(results)


def _count_surprises(results: dict) -> list[str]:
    """Counters that went the other way, or hardly: less than a third of what was published, on the log scale."""
    found = []
    for arm in others(results):
        for test in beside(results):
            for row in published_counts(results, arm):
                theirs = change_of(row[results["reference"]], row[arm])
                if theirs is None or abs(math.log1p(theirs)) <= math.log1p(results["minimum_effect"]):
                    continue
                here = ours(results, test, row)
                change = change_of(here.get(results["reference"]), here.get(arm))
                size = None if change is None else math.log1p(max(change, -1 + 1e-9)) / math.log1p(theirs)
                if size is None or size < 1 / FAR_OFF:
                    found.append(f"{test_label(test)}, {published_name(row)}: published {units.change(theirs)}, here "
                                 + ("there is nothing to change" if change is None else units.change(change)))
    return found


def _surprise(theirs: float, versus: dict, minimum_effect: float) -> str:
    bar = math.log1p(minimum_effect)
    size = math.log(theirs)
    ours, said = versus.get("ratio"), versus["verdict"]
    if said in ("refused", "unreliable", "none") or ours is None:
        return f"{said}: {versus['why']}"
    if abs(size) <= bar:
        return f"{said} ({_how_much(ours)})" if said in CLAIMS else ""
    expected = "faster" if size < 0 else "slower"
    if said != expected:
        return f"{said} (ratio {units.number(ours)})"
    apart = math.exp(abs(math.log(ours) - size))
    if apart > FAR_OFF:
        return f"also {said}, but {_how_much(ours)}"
    return ""


def explanations(results: dict) -> list[str]:
    """Why a result may differ here: data that stands with the published figures, by kind of machine."""
    published = results.get("published_result") or {}
    if not results["tests"]:
        return []
    text = (published.get("on") or {}).get(results["machine"].get("kind"))
    return [text] if text else []
