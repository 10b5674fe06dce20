"""Figures that workloads tell besides their time, and published counters beside ours: digested, judged, reported."""

from dataclasses import replace

import pytest
import synth
from telemetry import analyse, report
from telemetry.report import axes, beside, words
from telemetry.report.block import Table

HELD = {"A": 1604, "B": 2336}


def plan(arm):
    tests = tuple(replace(test, figures=(("slabs_held", HELD[arm]), ("nothing", 0))) if test.name == "malloc/64/all-cpus" else
                  test for test in synth.plan_for(arm).tests)
    return replace(synth.plan_for(arm), tests=tests)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    synth.write_run(folder, {"A": plan("A"), "B": plan("B")}, pairs=6)
    return analyse.analyse_run(folder)


def beside_published(results, rows, **more):
    return {**results, "published": "x", "published_result": {"machine": "another", "rows": rows, **more}}


def tables(results):
    return [block for block in beside.blocks(results) if isinstance(block, Table)]


def test_a_figure_is_the_middle_of_its_rounds(results):
    found = {entry["name"]: entry for entry in results["figures"]}
    assert set(found) == {"slabs_held", "nothing"}
    held = found["slabs_held"]
    assert held["test"] == "malloc/64/all-cpus"
    assert {arm: about["median"] for arm, about in held["arms"].items()} == {"A": 1605, "B": 2337}
    assert held["arms"]["A"]["boots"] == [1605] * 6
    assert held["versus"]["B"]["change"] == pytest.approx(2337 / 1605 - 1)
    assert found["nothing"]["arms"]["B"]["median"] == 1


def test_the_report_has_them(results, tmp_path):
    report.write_report(tmp_path, results)
    text = (tmp_path / "report.md").read_text()
    assert "`slabs_held`" in text and "1,605" in text and "+45.6 %" in text


def of_cache(name, **values):
    return {"counter": name, "cache": "kmalloc-64", **values}


ROWS = [
    {"throughput": True, "unit": "ops/s", "A": 100, "B": 800},
    {"counter": "slab_alloc", "unit": "slabs", "A": 1000, "B": 100},
    {"counter": "never_sent", "unit": "ops", "A": 1000, "B": 100},
    {"figure": "slabs_held", "unit": "slabs", "A": 1604, "B": 2336},
]


def test_published_counts_stand_beside_ours(results):
    shown = beside_published(results, ROWS, beside=["malloc/64/all-cpus"])
    (table,) = tables(shown)
    rows = {row[0]: row for row in table.rows}
    test = next(test for test in results["tests"] if test["name"] == "malloc/64/all-cpus")
    rate = words.ours(shown, test, ROWS[0])
    assert rate["A"] == pytest.approx(2e9 / test["arms"]["A"]["median"])  # two CPUs
    assert rows["throughput"][4].startswith("+7") and rows["throughput"][-1] == "+700.0 %"
    assert rows["`slabs_held`"][2:5] == ["1,605", "2,337", "+45.6 %"]
    assert rows["`slabs_held`"][5:] == ["1,604", "2,336", "+45.6 %"]
    of_test = next(entry for entry in results["counters"]
                   if (entry["name"], entry["test"], entry["cache"]) == ("slab_alloc", "malloc/64/all-cpus", None))
    assert words.ours(shown, test, ROWS[1]) == {arm: about["median"] for arm, about in of_test["arms"].items()}


def test_without_a_choice_every_test_has_its_table(results):
    assert len(tables(beside_published(results, ROWS))) == len(results["tests"])


def test_a_counter_that_was_never_sent_is_nothing_and_one_that_is_unknown_is_unknown(results):
    test = results["tests"][0]
    assert words.ours(results, test, {"counter": "slab_free_shrink"}) == {"A": 0, "B": 0}
    assert words.ours(results, test, {"counter": "never_sent"}) == {"A": None, "B": None}


def test_a_row_may_be_of_one_cache(results):
    test = next(test for test in results["tests"] if test["name"] == "malloc/4096/solo")
    everybody = words.ours(results, test, {"counter": "allocs"})
    assert words.ours(results, test, of_cache("allocs")) == {"A": 0, "B": 0} != everybody
    test = next(test for test in results["tests"] if test["name"] == "malloc/64/solo")
    assert words.ours(results, test, of_cache("allocs"))["A"] > 1000
    assert words.published_name(of_cache("allocs")) == "`allocs` of `kmalloc-64`"


@pytest.mark.parametrize("row, said", [
    ({"throughput": True, "A": 100, "B": 124}, ""),
    ({"throughput": True, "A": 124, "B": 100}, "here +7"),  # the other way
    ({"figure": "slabs_held", "A": 100, "B": 140}, ""),
    ({"figure": "slabs_held", "A": 1, "B": 1000}, "here +45.6 %"),  # hardly
    ({"figure": "slabs_held", "A": 100, "B": 103}, ""),  # too small a change to be about anything
    ({"figure": "absent", "A": 100, "B": 200}, "nothing to change"),
])
def test_what_did_not_come_out_as_published(results, row, said):
    found = words.surprises(beside_published(results, [row], beside=["malloc/64/all-cpus"]))
    assert (len(found) == 1 and said in found[0]) if said else found == []


def test_along_the_axes_a_row_is_a_point(results):
    assert axes.blocks(results) == []
    both = {**results, "points": [{"n": 1}, {"n": 2}]}
    both["tests"] = [{**test, "point": {"n": 1}} for test in results["tests"]]
    both["figures"] = [{**entry, "point": {"n": 1}} for entry in results["figures"]]
    (table,) = [block for block in axes.blocks(both) if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == ["n=1", "n=2"]
    first, second = (dict(zip(table.columns, row)) for row in table.rows)
    assert "faster" in first["verdict B"] and first["`slabs_held` A"] == "1,605"
    assert second["ns/op A"] == second["`slabs_held` A"] == "–"
