"""What a report says, as a list of blocks that Markdown and HTML both render (render.py).

Order: question, answer, how sure, boots, what was thrown away, what to distrust; then tests, the published
figures, plots, counters that changed, locks, memory held, times and CPUs by layer (layers.py), skipped, failed
boots, the machine. Text in blocks
may use `code` and **strong**, nothing else.
"""

from __future__ import annotations

import math

from .. import leftout, units, verdict
from . import axes, beside, layers, words
from .block import Bullets, Figure, Heading, Paragraph, Table

COUNTERS_SHOWN = 40
OWNERS_SHOWN = 8
LEAST_ACQUISITIONS = 100  # locks taken less often in every arm are not in the table


def blocks(results: dict, figures: list[Figure]) -> list:
    out = [Heading(results["title"]), *_opening(results)]
    out += _tests(results)
    out += beside.blocks(results) + axes.blocks(results)
    if figures:
        out += [Heading("Pictures"), *figures]
    out += _expectations(results) + _figures(results) + _counters(results) + _locks(results) + layers.blocks(results)
    out += _skipped(results) + _boots(results) + _machine(results)
    return out


def _opening(results: dict) -> list:
    out = [Paragraph(words.answer(results), lead=True)]
    out.append(Paragraph(words.how_sure(results), "How sure"))
    counted = sum(words.boots_counted(results).values())
    total = len(results["boots"])
    planned = (results.get("pairs") or 0) * len(results["arms"]) * len(results["points"])
    made = f"{counted} of {total} boots made count" + (f"; {planned} were planned." if planned != total else ".")
    out.append(Paragraph(made, "Boots"))
    thrown = words.thrown_away(results)
    out.append(Paragraph("nothing." if not thrown else f"{len(thrown)} boots.", "Thrown away"))
    if thrown:
        out.append(Bullets(thrown[:20] + ([f"and {len(thrown) - 20} more"] if len(thrown) > 20 else [])))
    warnings = results["warnings"]
    out.append(Paragraph("nothing known." if not warnings else "", "What to distrust"))
    if warnings:
        out.append(Bullets([entry["text"] for entry in warnings]))
    return out


# -- tests ----------------------------------------------------------------------------------------


def _tests(results: dict) -> list:
    if not results["tests"]:
        return [Heading("Tests"), Paragraph("No test has a result.")]
    reference = results["reference"]
    out: list = [Heading("Tests")]
    apart = words.arms_apart(results["arms"])
    out.append(Bullets([f"**{arm}** `{apart[arm]}`" + (" (reference)" if arm == reference else "")
                        for arm in results["arms"]]))
    for arm in words.others(results):
        out.append(_test_table(results, reference, arm))
        undecided = [
            f"{words.test_label(test)}: {versus['why']}"
            + (f"; about {versus['pairs_needed']} pairs would decide it" if versus.get("pairs_needed") else "")
            for test in results["tests"]
            for versus in [test["versus"].get(arm)]
            if versus and versus["verdict"] in ("undecided", "refused", "unreliable", "none")
        ]
        if undecided:
            out.append(Paragraph("", f"Not decided ({arm})" if len(results["arms"]) > 2 else "Not decided"))
            out.append(Bullets(undecided))
    out.append(Paragraph(_legend(results)))
    out += _spread(results) + _both(results) + _pace(results) + _distance(results) + _left_out(results)
    return out


def _spread(results: dict) -> list:
    """What ranks do not see: how far boots scatter, the slowest, and what all boots took together."""
    if results["machine"].get("kind") == "icount":
        return []
    arms, others = list(results["arms"]), words.others(results)
    table = Table(["test", *(f"{arm} boots apart" for arm in arms), *(f"{arm} slowest boot" for arm in arms),
                   *(f"{arm} mean" for arm in arms), *(f"{arm}/{results['reference']} of means" for arm in others)], [], left=1)
    for test in results["tests"]:
        about = [test["arms"][arm] for arm in arms]
        means = [(test["versus"].get(arm) or {}).get("means") for arm in others]
        table.rows.append([
            words.test_label(test), *("–" if one["spread"] is None else f"{100 * one['spread']:.1f} %" for one in about),
            *("–" if one["worst"] is None else f"{units.number(one['worst']['value'])} ({one['worst']['boot']})" for one in about),
            *(units.number(one["mean"]) for one in about),
            *("–" if one is None else f"{units.number(one['ratio'])} ({interval(one)})" for one in means)])
    return [Paragraph("The ratio above compares most boots with most boots; a few slow ones do not move it. Here is what they do: "
                      "how far the boots of an arm lie apart, its slowest boot, and the arithmetic mean of all rounds as "
                      "measured, which is the time they took together. No difference is said only if the ratio of these means "
                      "lies within the minimum effect too.", "Boot by boot"), table]


def _both(results: dict) -> list:
    """Two verdicts a test, where times were adjusted."""
    both = [(test, arm, versus) for test in results["tests"] for arm, versus in test["versus"].items() if versus.get("measured")]
    if not both:
        return []
    several = len(words.others(results)) > 1
    table = Table(["test", *(["arm"] if several else []), "as measured", "verdict as measured", "as adjusted", "verdict as adjusted",
                   "verdict"], [], left=1)
    for test, arm, versus in both:
        cells = [cell for name in ("measured", "adjusted") for one in [versus[name]]
                 for cell in (f"{units.number(one['ratio'])} ({interval(one)})", one["verdict"])]
        table.rows.append([words.test_label(test), *([arm] if several else []), *cells, versus["verdict"]])
        table.marks.append(versus["verdict"])
    return [Paragraph("Times were adjusted (below), and both kinds were judged. Faster and slower are said if nothing speaks "
                      "against it in the times as measured; no difference only if both find none.", "As measured and as adjusted"),
            table]


def _left_out(results: dict) -> list:
    """What the kernels had to leave out, by arm: the results above are of what was left."""
    found = results.get("left_out") or []
    if not found:
        return []
    arms = list(results["arms"])
    table = Table(["what", *(column for arm in arms for column in (arm, f"boots of {arm}"))], [], left=1)
    for entry in found:
        where = words.point_text(entry["point"])
        row = [entry["doc"] + (f" ({where})" if where else "")]
        for arm in arms:
            told = entry["arms"].get(arm)
            row += [leftout.amount({**entry, **told}) + (f" ({told['detail']})" if told["detail"] else ""),
                    units.count(told["boots"])] if told else ["–", "0"]
        table.rows.append(row)
        table.marks.append("unreliable" if entry["voids"] or leftout.unlike(entry, arms) else "")
    return [Paragraph("The kernel says what it had no room for; the largest amount of any boot, and how many boots left it out. "
                      "The results above are of what was left.", "Left out"), table]


def _pace(results: dict) -> list:
    """What the yardstick took out of the times, so that a reader can put it back."""
    paced = [test for test in results["tests"] if test.get("pace")]
    if not paced:
        return []
    table = Table(["test", "slope", "boots apart, measured", "boots apart, adjusted",
                   *[f"{arm} as measured" for arm in results["arms"]]], [], left=1)
    for test in paced:
        found = test["pace"]
        table.rows.append([words.test_label(test), f"{found['slope']:.2f}", f"{100 * found['spread_raw']:.1f} %",
                           f"{100 * found['spread']:.1f} %",
                           *[units.number(units.middle(test["arms"][arm]["raw"])) for arm in results["arms"]]])
    return [Paragraph("The machine's pace changes while it runs (somebody else's work on the same core). The kernel times "
                      "a fixed piece of work beside every round, and the times above are those of the run's middle pace: "
                      "each was divided by (yardstick / its middle) to the power of the slope, which is fitted over the "
                      "rounds within boots and knows no arm. Below, how far boots of one arm lie apart, and the medians "
                      "as measured. pace = \"ignore\" in the experiment judges those.", "At one pace"), table]


def _distance(results: dict) -> list:
    """What a changed distance between CPUs took out of the times."""
    moved = [test for test in results["tests"] if test.get("distance")]
    if not moved:
        return []
    table = Table(["test", "slope", "boots apart, before", "boots apart, adjusted", "round trips a ms",
                   *[f"{arm} as measured" for arm in results["arms"]]], [], left=1)
    for test in moved:
        found = test["distance"]
        apart = ", ".join(f"{arm} {one:.2f}" for arm, one in (found.get("slopes") or {}).items() if one is not None)
        rates = [math.exp(-one) for arm in found["roundtrip"].values() for one in arm if one is not None]
        table.rows.append([words.test_label(test), f"{found['slope']:.2f}" if not found.get("differ") else f"none: {apart}",
                           f"{100 * found['spread_before']:.1f} %",
                           f"{100 * found['spread']:.1f} %", f"{min(rates):,.0f} to {max(rates):,.0f}",
                           *[units.number(units.middle(test["arms"][arm].get("raw") or test["arms"][arm]["boots"]))
                             for arm in results["arms"]]])
    return [Paragraph("How long a word takes to another CPU and back changed during the run, as when a host moves virtual "
                      "CPUs about. The kernel probes it after every round, and the times above of tests on several CPUs are those at the "
                      "run's usual distance: each was divided by (round trip / usual one) to the power of the slope, which comes "
                      "from the means of whole pairs and from rounds within boots, where the arms' difference cancels. Where the arms' own slopes differ, nothing was divided, and the verdict must hold near and far. "
                      "pace = \"ignore\" in the experiment judges the times as measured.", "At one distance"), table]


def _test_table(results: dict, reference: str, arm: str) -> Table:
    has_published = any(words.published_for(results, test, arm) for test in results["tests"])
    exact = results["machine"].get("kind") == "icount"
    columns = ["test", "unit", reference, arm, f"{arm}/{reference}", "interval"]
    columns += ["difference" if exact else "p", "verdict"]
    if has_published:
        columns += [f"published {reference} → {arm}", "ratio"]
    table = Table(columns, [], left=2)
    for test in results["tests"]:
        versus = test["versus"].get(arm)
        if versus is None:
            continue
        row = [words.test_label(test), test["unit"]]
        row += [units.number(test["arms"][a]["median"]) for a in (reference, arm)]
        row += [units.number(versus["ratio"]), interval(versus)]
        row += [f"{versus['difference']:+.1f}" if versus.get("difference") is not None else _p(versus)]
        row += [f"**{versus['verdict']}**" if versus["verdict"] in words.CLAIMS else versus["verdict"]]
        if has_published:
            row += _published_cells(results, test, arm)
        table.rows.append(row)
        table.marks.append(versus["verdict"])
    return table


def _published_cells(results: dict, test: dict, arm: str) -> list[str]:
    row = words.published_for(results, test, arm)
    if row is None:
        return ["", ""]
    a, b = row[results["reference"]], row[arm]
    return [f"{units.number(a)} → {units.number(b)}", units.number(b / a)]


def interval(versus: dict) -> str:
    low, high = versus["interval"]
    if low is None or high is None:
        return "–"
    return f"{units.number(low)} … {units.number(high)}"


def _p(versus: dict) -> str:
    if versus.get("p") is None:
        return "–"
    return f"{versus['p']:.4f}" if versus["p"] >= 0.0001 else "<0.0001"


def _legend(results: dict) -> str:
    if results["machine"].get("kind") == "icount":
        return (f"Instructions an operation; the interval holds ± {verdict.ICOUNT_TOLERANCE} instruction. A difference "
                f"counts beyond {100 * results['minimum_effect']:.3g} %.")
    coverages = {round(v["coverage"], 3) for t in results["tests"] for v in t["versus"].values() if v["coverage"]}
    real = " to ".join(f"{100 * c:.1f} %" for c in sorted({min(coverages), max(coverages)})) if coverages else "none"
    return (f"Medians over boots; ratio: Hodges-Lehmann on the log scale, a ratio below 1 is faster; the interval's real "
            f"coverage is {real}. *faster* and *slower* need p ≤ {verdict.ALPHA} over all tests of the run (labels "
            f"exchanged, and Welch's test of unequal spreads), an interval that excludes 1, and an estimated effect over {100 * results['minimum_effect']:.3g} % (or this machine's noise{_calibrated_on(results)} "
            f"where that is larger); the interval itself may begin below. *no difference* means that the interval and that of "
            f"the arithmetic means lie within that.").replace("*", "")


def _calibrated_on(results: dict) -> str:
    dates = sorted({date or "an unknown day" for date in (results.get("calibrated") or {}).values()})
    return f", calibrated on {', '.join(dates)}," if dates else ""


def _expectations(results: dict) -> list:
    if not results["expectations"]:
        return []
    table = Table(["of", "rule", "values", "held"], [], left=4)
    for entry in results["expectations"]:
        where = words.point_text(entry.get("point") or {})
        values = ", ".join(f"{arm} = {units.number(value)}" for arm, value in entry["values"].items())
        held = {True: "yes", None: "cannot tell"}.get(entry["held"], "**no**")
        held += f": {entry['reason']}" if entry.get("reason") else ""
        table.rows.append([entry["test"] + (f" ({where})" if where else ""), entry["rule"], values, held])
        table.marks.append({True: "faster", False: "slower"}.get(entry["held"], ""))
    return [Heading("Expectations"), Paragraph("Asked of the boots, with the certainty of a verdict: a rule holds or does not only if "
                                               "they show it, else they cannot tell. With --strict that fails too."), table]


def _figures(results: dict) -> list:
    if not results["figures"]:
        return []
    arms, others = list(results["arms"]), words.others(results)
    table = Table(["test", "figure", *arms, *(f"change {arm}" for arm in others)], [], left=2)
    for entry in results["figures"]:
        where = words.point_text(entry["point"])
        table.rows.append([entry["test"] + (f" ({where})" if where else ""), f"`{entry['name']}`",
                           *(units.count((entry["arms"].get(arm) or {}).get("median")) for arm in arms),
                           *(units.change((entry["versus"].get(arm) or {}).get("change")) for arm in others)])
    return [Heading("What the workloads tell"),
            Paragraph("Beside its time, of each round; medians over rounds, then over boots."), table]


# -- counters, locks, memory ----------------------------------------------------------------------


def _counters(results: dict) -> list:
    """Sums over all tests, most changed an operation first; those of single tests are in results.json."""
    reference = results["reference"]
    chosen = []
    for entry in results["counters"]:
        if entry["test"] is not None or entry["cache"] is not None or entry["kind"] not in ("sum", "derived"):
            continue
        if any(versus["verdict"] == "changed" for versus in entry["versus"].values()):
            chosen.append(entry)
    if not chosen:
        pairs = min(words.boots_counted(results).values(), default=0)
        if pairs < verdict.FEWEST_PAIRS and results["counters"]:
            return _seen_counters(results, reference)
        return [Heading("Counters that changed"), Paragraph("None that could not be chance.")]
    return _counter_tables(results, reference, chosen, "Counters that changed",
                           "Sums over the timed rounds of all tests. The faster arm does more operations, so the last change "
                           "is of the figure for one: the mean over the tests, each of the same weight. Both must differ by "
                           "more than chance: p is the larger of theirs, adjusted over all counters of the run.")


def _seen_counters(results: dict, reference: str) -> list:
    chosen = [
        entry for entry in results["counters"]
        if entry["test"] is None and entry["cache"] is None and entry["kind"] in ("sum", "derived")
        and any(_differs(entry, arm, reference) for arm in entry["versus"])
    ]
    if not chosen:
        return []
    return _counter_tables(results, reference, chosen, "Counters that look different",
                           "Too few pairs to tell a change from chance; shown are those that moved by more than half "
                           "for one operation.")


def _differs(entry: dict, arm: str, reference: str) -> bool:
    """By more than half; from nothing to something is more than any share."""
    change = entry["versus"][arm]["per_op_change"]
    if change is None:
        return bool(entry["arms"][arm]["per_op"]) and entry["arms"][reference]["per_op"] == 0
    return abs(change) > 0.5


def _counter_tables(results: dict, reference: str, chosen: list, title: str, about: str) -> list:
    out: list = [Heading(title), Paragraph(about)]
    for arm in words.others(results):
        rows = [entry for entry in chosen if arm in entry["versus"]]
        rows.sort(key=lambda entry: -_size(entry["versus"][arm]))
        table = Table(["counter", "unit", f"{reference} (before)", f"{arm} (after)", "change", "for one operation", "p"], [], left=2)
        for entry in rows[:COUNTERS_SHOWN]:
            versus = entry["versus"][arm]
            where = words.point_text(entry["point"])
            table.rows.append([
                f"`{entry['name']}`" + (f" ({where})" if where else ""), entry["unit"],
                units.count(entry["arms"][reference]["median"]), units.count(entry["arms"][arm]["median"]),
                units.change(versus["change"]), units.change(versus["per_op_change"]), _p(versus)])
        out.append(table)
        if len(rows) > COUNTERS_SHOWN:
            out.append(Paragraph(f"{len(rows) - COUNTERS_SHOWN} smaller changes are in results.json."))
    return out


def _size(versus: dict) -> float:
    change = versus["per_op_change"]
    if change is None:
        return 1e9
    return abs(change) if change > 0 else 1 / max(1e-9, 1 + change)


def _locks(results: dict) -> list:
    """Who waited for whom: by class and test, then the owners that were waited for most."""
    arms = list(results["arms"])
    taken = [e for e in results["locks"] if any(_first(e["arms"][a]) >= LEAST_ACQUISITIONS for a in arms if a in e["arms"])]
    if not taken:
        return []
    columns = _lock_columns(taken, arms)
    table = Table(["lock", "test", *(f"{_column_name(c)} {arm}" for c in columns for arm in arms)], [], left=2)
    for entry in taken:
        where = words.point_text(entry["point"])
        test = entry["test"] or "all tests"
        cells = [units.share(entry["arms"][a].get(c)) if c.endswith(words.SHARE_SUFFIX) else
                 units.count(entry["arms"][a].get(c)) for c in columns for a in arms]
        table.rows.append([entry["name"], test + (f" ({where})" if where else ""), *cells])
    out = [Heading("Locks"), Paragraph(f"Sums over the timed rounds, medians over boots. {_share_legend(columns)}"), table]
    owners = _owner_lines(results, arms)
    if owners:
        out += [Paragraph("", "Most waited for"), Bullets(owners)]
    return out


def _first(row: dict) -> float:
    return next((value for value in row.values() if value is not None), 0) or 0


def _lock_columns(entries: list, arms: list[str]) -> list[str]:
    """The first counter (how often it was taken), then every column that is not 0 everywhere, shares first."""
    columns = list(entries[0]["arms"][arms[0]])
    busy = [c for c in columns[1:] if any((e["arms"][a].get(c) or 0) > 0 for e in entries for a in arms)]
    shares = [c for c in columns if c.endswith(words.SHARE_SUFFIX)][:1]
    plain = [c for c in busy if not c.endswith(words.SHARE_SUFFIX) and f"{c}{words.SHARE_SUFFIX}" not in columns]
    return [columns[0], *shares, *plain][:5]


def _column_name(column: str) -> str:
    return column.replace("_", " ")


def _share_legend(columns: list[str]) -> str:
    shares = [c for c in columns if c.endswith(words.SHARE_SUFFIX)]
    return f"{_column_name(shares[0])}: of all {_column_name(columns[0])}." if shares else ""


def _owner_lines(results: dict, arms: list[str]) -> list[str]:
    found = []
    for entry in results["locks"]:
        if entry["test"] is not None:
            continue
        for owner, rows in entry["owners"].items():
            keys = [key for arm in arms for key in words.shares(rows.get(arm) or {})[:1]]
            if not keys:
                continue
            key = keys[0]
            waits = max((rows[a].get(key.removesuffix(words.SHARE_SUFFIX)) or 0) for a in arms if a in rows)
            if waits > 0:
                shares = ", ".join(f"{a} {units.share(rows[a].get(key))}" for a in arms if a in rows)
                where = words.point_text(entry["point"])
                found.append((waits, f"{entry['name']} lock of `{owner}`{f' ({where})' if where else ''}: {shares}"))
    found.sort(key=lambda pair: -pair[0])
    return [text for _, text in found[:OWNERS_SHOWN]]


# -- the rest -------------------------------------------------------------------------------------


def _skipped(results: dict) -> list:
    if not results["skipped"]:
        return []
    return [Heading("Skipped"), Bullets([f"{entry['name']}: {entry['reason']}" for entry in results["skipped"]])]


def _boots(results: dict) -> list:
    table = Table(["boot", "outcome", "counts", "seconds", "host load", "parallel /ms", "lost", "note"], [], left=1)
    for boot in results["boots"]:
        load = ((boot.get("host") or {}).get("load") or [None])[0]
        table.rows.append([
            boot["id"], boot["outcome"] or "unknown", "yes" if boot["used"] else "no", units.number(boot.get("seconds")),
            units.number(load), units.number(boot.get("parallel_rate")), units.count(boot.get("lost")), boot.get("reason") or ""])
        table.marks.append("" if boot["used"] else "slower")
    return [Heading("Boots"), table] if table.rows else []


def _machine(results: dict) -> list:
    machine, host = results["machine"], results.get("host") or {}
    found = machine.get("found") or {}
    rows = [
        ["machine", f"{machine.get('kind')}, {machine.get('cpus')} CPUs, {machine.get('memory')}"],
        ["host", f"{host.get('cpu', 'unknown CPU')}, {host.get('cores', '?')} cores"],
        ["QEMU", str(results.get("qemu") or "–")],
        ["kernel", f"{found.get('kernel', '?')} {str(found.get('git') or '')[:12]}"
                   f"{' (dirty)' if found.get('dirty') else ''}, {found.get('variant', '?')}, {found.get('compiler', '?')}"],
        ["clock", f"{units.number((found.get('tsc_hz') or 0) / 1e6)} MHz TSC, "
                  f"{'invariant' if found.get('tsc_invariant') else 'not declared invariant'}"],
        ["parallel", f"{units.number(machine.get('parallel_rate'))} round trips a ms between two CPUs "
                     f"(void below {units.number(machine.get('parallel_least'))})"],
        ["tree", f"{str((results.get('git') or {}).get('id'))[:12]}{' (dirty)' if (results.get('git') or {}).get('dirty') else ''}"
                 f", tool {results.get('tool')}, run of {results.get('created')}"],
    ]
    return [Heading("The machine"), Table(["what", "value"], rows, left=2)]
