"""Runs side by side: what agrees, what does not, what else differs, and what cannot be compared."""

import pytest
import synth
from telemetry import compare
from telemetry.errors import HayloftError


def versus(verdict, low, high):
    return {"ratio": (low * high) ** 0.5, "interval": [low, high], "coverage": 0.96, "verdict": verdict}


def results(*tests, points=({},), **changes):
    """tests: (name, point, {arm: versus})."""
    return {
        "title": "T", "points": list(points), "reference": "A", "arms": {"A": "front=none", "B": "front=bounded"},
        "machine": {"kind": "tcg", "cpus": 2, "memory": "1G"}, "host": {"cpu": "c", "cores": 2}, "qemu": "7", "pairs": 6,
        "git": {"id": "abcdef0123456789", "dirty": False}, "boot": "kbench=2", "settings": {},
        "tests": [{"name": name, "point": point, "versus": arms,
                   "arms": {"A": {"median": 10.0}, **{arm: {"median": 10.0 * v["ratio"]} for arm, v in arms.items()}}}
                  for name, point, arms in tests], **changes}


def one(verdict, low, high, name="malloc/64/solo"):
    return results((name, {}, {"B": versus(verdict, low, high)}))


def rows(*all_results):
    return compare.rows_of(compare.columns_of([(f"r{n}", r) for n, r in enumerate(all_results)]))


@pytest.mark.parametrize("a, b, says", [
    (("faster", 0.4, 0.6), ("faster", 0.5, 0.7), "overlap"),
    (("faster", 0.4, 0.6), ("undecided", 0.45, 1.2), "overlap"),
    (("faster", 0.4, 0.5), ("faster", 0.6, 0.7), "apart"),
    (("faster", 0.4, 0.6), ("slower", 1.5, 2.0), "contradict"),
])
def test_what_two_columns_say(a, b, says):
    (row,) = rows(one(*a), one(*b))
    assert row.says == says
    assert [entry["verdict"] for entry in row.versus] == [a[0], b[0]]
    assert row.times[0] == (10.0, pytest.approx(10.0 * (a[1] * a[2]) ** 0.5))


def test_without_an_interval_nothing_is_said_of_agreement():
    first = one("none", 0.5, 0.6)
    first["tests"][0]["versus"]["B"]["interval"] = [None, None]
    assert rows(first, one("faster", 0.7, 0.8))[0].says == "too few pairs"


def test_an_interval_that_holds_the_truth_too_seldom_is_not_compared():
    first = one("undecided", 0.5, 0.6)
    first["tests"][0]["versus"]["B"]["coverage"] = 0.67
    (row,) = rows(first, one("faster", 0.7, 0.8))
    assert row.says == "too few pairs" and row.ratio is None


def test_the_ratio_of_ratios_has_an_interval():
    (row,) = rows(one("faster", 0.4, 0.5), one("faster", 0.6, 0.7))
    ratio, low, high = row.ratio
    assert ratio == pytest.approx((0.42 / 0.2) ** 0.5) and 1 < low < ratio < high
    assert 0.6 / 0.5 < low and high < 0.7 / 0.4  # narrower than both ends at once


def test_the_points_of_an_axis_are_columns():
    points = [{"machine.cpus": 1}, {"machine.cpus": 2}]
    run = results(*[("malloc/64/solo", point, {"B": versus("faster", 0.4, 0.5)}) for point in points], points=points)
    columns = compare.columns_of([("r", run)])
    assert [column.label for column in columns] == ["cpus=1", "cpus=2"]
    assert len(compare.rows_of(columns)) == 1
    assert [c.label for c in compare.columns_of([("r", run), ("s", run)])] == [
        "run 1 cpus=1", "run 1 cpus=2", "run 2 cpus=1", "run 2 cpus=2"]


def test_tests_of_one_column_only_are_left_out():
    both = results(("malloc/64/solo", {}, {"B": versus("faster", 0.4, 0.5)}),
                   ("yield/solo", {}, {"B": versus("no difference", 0.9, 1.1)}))
    assert [row.test for row in rows(both, one("faster", 0.4, 0.5))] == ["malloc/64/solo"]


def test_what_else_differs_is_told():
    a, b = one("faster", 0.4, 0.5), one("faster", 0.4, 0.5)
    assert compare.differences([("a", a), ("b", b)]) == []
    b |= {"arms": {"A": "front=none", "B": "front=sheaf", "C": "x"}, "boot": "kbench=9", "pairs": 8,
          "machine": {"kind": "host", "cpus": 2, "memory": "2G"}, "git": {"id": "1", "dirty": True},
          "settings": {"kbench": "1"}}
    told = compare.differences([("a", a), ("b", b)])
    assert [line.split(":")[0] for line in told] == [
        "machine", "kernel and tool", "arm B", "arm C", "boot", "settings", "memory", "pairs"]
    assert "run 1 `front=bounded`; run 2 `front=sheaf`" in told[2]
    assert "run 1 has none" in told[3]


def test_what_cannot_be_compared():
    with pytest.raises(HayloftError, match="nothing to set beside"):
        compare.columns_of([("r", one("faster", 0.4, 0.5))])
    with pytest.raises(HayloftError, match="no test and arm in common"):
        rows(one("faster", 0.4, 0.5), one("faster", 0.4, 0.5, name="yield/solo"))


def test_the_verb_on_archived_runs(tmp_path, capsys):
    for name in ("one", "two"):
        synth.write_run(tmp_path / name, pairs=4)
    assert compare.main([str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    said = capsys.readouterr().out
    assert "run 1: one" in said and "malloc/64" in said and "overlap" in said and "ratio of ratios" in said and " → " in said
    assert "not the same" not in said
