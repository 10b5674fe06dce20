"""What people get to see where the surroundings are odd: titles with brackets, narrow terminals, pipes that end, closed
streams, no home, letters that the encoding lacks. And tables that say what the report says."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import fake_machine
import pytest
import synth
from rich.console import Console
from telemetry import analyse, calibrate, console as consoles, export, listing, progress, store, verdicts
from telemetry.errors import HayloftError
from telemetry.report import content

ROOT = Path(__file__).resolve().parents[2]
TITLE = "Does [/red] [b]owner=tag[/b] help? :warning: [nosuch"


def tool(words, **more):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), **more.pop("env", {})}
    return subprocess.run([sys.executable, "-m", "telemetry", *map(str, words)], capture_output=True, text=True, env=env,
                          timeout=300, check=False, **more)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    plans = {arm: synth.plan_for(arm, rounds=2, round_ms=20) for arm in "AB"}
    synth.write_run(folder, plans, 4)
    about = json.loads((folder / "run.json").read_text()) | {"title": TITLE}
    (folder / "run.json").write_text(json.dumps(about))
    return folder


def test_a_title_means_itself(run, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(store, "RUNS", run.parent)
    assert listing.runs() == 0
    assert TITLE in capsys.readouterr().out.replace("\n", " ")
    monkeypatch.setattr(listing.experiment, "shipped_files", lambda: [tmp_path / "x.toml"])
    (tmp_path / "x.toml").write_text(f'title = "{TITLE}"\n[arms]\nA = ""\nB = ""\n')
    assert listing.experiments() == 0
    assert TITLE in capsys.readouterr().out.replace("\n", " ")


WIDE = {"malloc/131072/all-cpus": (123456.7, 98765.4), "malloc/16/solo": (12.34, 11.11)}


def wide_results():
    versus = {"ratio": 0.8123, "interval": [0.7811, 0.8312], "verdict": "no difference", "why": ""}
    tests = [{"name": name, "point": {}, "unit": "instructions/op", "versus": {"B": versus, "C": versus},
              "arms": {"A": {"median": a}, "B": {"median": b}, "C": {"median": a}}} for name, (a, b) in WIDE.items()]
    return {"tests": tests, "reference": "A", "arms": {"A": "", "B": "", "C": ""}, "expectations": [], "warnings": []}


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_digit_is_cut_on_a_narrow_terminal(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    consoles.show(console, verdicts.table(wide_results()))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    found = re.findall(r"\d+\.\d+", text)
    for wanted, times in (("123456.7", 2), ("98765.4", 1), ("12.3", 2), ("11.1", 1), ("0.81", 4), ("0.78", 4), ("0.83", 4)):
        assert found.count(wanted) == times, f"{wanted} at {width}: {found}"
    assert text.count("no difference") == 4


def test_no_digit_is_cut_while_a_run_goes_on():
    out = io.StringIO()
    show = progress.Rich(Console(file=out, width=60, force_terminal=True, color_system=None))
    show.arms, show.task = ["A", "B", "C"], show.bar.add_task("boots", total=9, completed=1, left="")
    show.tally = progress.Tally(9, 1)
    show.medians = {(name, "instructions/op"): {"A": {1: a}, "B": {1: b}, "C": {1: a}} for name, (a, b) in WIDE.items()}
    show.console.print(show.draw())
    found = re.findall(r"\d+\.\d+", out.getvalue())
    assert found.count("123456.7") == 2 and found.count("98765.4") == 1 and "…" not in out.getvalue()


def test_hours():
    assert progress.duration(59) == "0:59" and progress.duration(156 * 60 + 49) == "2 h 36 min"


def test_a_reader_that_leaves_does_not_end_a_run(tmp_path):
    bin_, out = tmp_path / "bin", tmp_path / "out"
    fake_machine.install(bin_)
    path = fake_machine.experiment(tmp_path / "lab", pairs=2)
    env = fake_machine.environment(bin_)
    with subprocess.Popen([sys.executable, "-m", "telemetry", "run", path, "--out", out], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdout.readline()
        child.stdout.close()  # head -1
        said = child.stderr.read().decode()
        assert child.wait(300) == 0, said
    assert "Traceback" not in said and "BrokenPipe" not in said
    assert json.loads((out / "run.json").read_text())["state"] == "done"
    assert len(list(out.glob("boots/*/boot.json"))) == 4 and (out / "report.html").exists()


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams(closing):
    words = f'exec "{sys.executable}" -m telemetry experiments {closing}'
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_letters_that_the_encoding_lacks(run):
    done = tool(["compare", run, run], env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert "malloc/64/solo" in done.stdout


def test_a_user_without_a_home(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: (_ for _ in ()).throw(RuntimeError("no home"))))
    with pytest.raises(HayloftError, match="set HOME or XDG_STATE_HOME"):
        calibrate.default_path()
    calibrate.keep_copy(tmp_path, {"machine": {}, "host": {}})  # a run needs none
    assert not (tmp_path / calibrate.COPY).exists()


# -- export ------------------------------------------------------------------------------------------------


def table_of(folder, name):
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_export_is_what_the_report_judges(run, tmp_path, capsys):
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", run, copy], check=True)
    path = copy / "boots" / "02-A" / "boot.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"outcome": "hang"}))  # so its pair does not count
    again = copy / "run.json"
    again.write_text(json.dumps(json.loads(again.read_text()) | {"machine": {"kind": "icount", "cpus": 1}}))
    results = analyse.analyse_run(copy)
    export.to_csv(copy, tmp_path / "csv")
    rows = table_of(tmp_path / "csv", "tests")
    assert {row["unit"] for row in rows} == {"instructions/op"}
    for test in results["tests"]:
        for arm, about in test["arms"].items():
            own = [row for row in rows if row["test"] == test["name"] and row["arm"] == arm]
            assert [float(row["value"]) for row in own] == about["boots"]
            assert [float(row["raw"]) for row in own] == (about.get("raw") or about["boots"])
    boots = {row["boot"]: row for row in table_of(tmp_path / "csv", "boots")}
    assert len(boots) == 8 and boots["02-A"]["used"] == "False" and boots["02-A"]["outcome"] == "hang"
    assert {row["boot"] for row in rows} == {name for name, row in boots.items() if row["used"] == "True"}
    assert all(row["cycles_per_op"] for row in table_of(tmp_path / "csv", "rounds"))


def test_export_has_adjusted_and_raw_figures(run, tmp_path, monkeypatch):
    results = analyse.analyse_run(run)
    for test in results["tests"]:
        for about in test["arms"].values():
            about["raw"], about["boots"] = about["boots"], [value * 2 for value in about["boots"]]
    monkeypatch.setattr(export.analyse, "analyse_run", lambda folder: results)
    export.to_csv(run, tmp_path / "csv")
    rows = table_of(tmp_path / "csv", "tests")
    assert rows and all(float(row["value"]) == pytest.approx(2 * float(row["raw"])) for row in rows)


# -- the report ---------------------------------------------------------------------------------------------


def test_a_counter_that_begins_at_nothing_looks_different():
    def counter(name, before, after):
        change = after / before - 1 if before else None
        return {"name": name, "test": None, "cache": None, "kind": "sum", "unit": "events", "point": {},
                "arms": {"A": {"median": before, "per_op": before}, "B": {"median": after, "per_op": after}},
                "versus": {"B": {"change": change, "per_op_change": change, "p": None, "verdict": "undecided"}}}
    results = {"counters": [counter("grown", 0, 700), counter("still", 0, 0), counter("same", 5, 5)],
               "arms": {"A": "", "B": ""}, "reference": "A"}
    tables = [block for block in content._seen_counters(results, "A") if hasattr(block, "rows")]
    assert [row[0] for table in tables for row in table.rows] == ["`grown`"]
