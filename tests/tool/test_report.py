"""What a report says and in which order; that it is whole, self-contained and quick."""

import re
import time

import pytest
import synth
from telemetry import analyse, report, units, verdicts
from telemetry.report import content, plots, render, words


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    synth.write_run(folder, pairs=6)
    return analyse.analyse_run(folder)


def test_the_first_sentence_stands_alone(results):
    first = words.answer(results)
    for part in ("front=none", "front=bounded", "malloc/64/all-cpus", "times faster", "ns/op",
                 "share of cache-lock acquisitions that found the lock taken fell from 60 % to 1 %",
                 "2 of 4 tests are faster", "none is slower"):
        assert part in first


def test_opening_comes_in_the_promised_order(results, tmp_path):
    report.write_report(tmp_path, results)
    text = (tmp_path / "report.md").read_text()
    places = [text.index(part) for part in (results["title"], words.answer(results), "**How sure:**", "**Boots:**",
                                            "**Thrown away:**", "**What to distrust:**", "## Tests", "## Counters", "## Locks",
                                            "## The machine")]
    assert places == sorted(places)


def test_html_is_one_file(results, tmp_path):
    report.write_report(tmp_path, results)
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", page)
    assert "<script" not in page and "http" not in page
    assert page.count("data:image/png;base64,") == len(list((tmp_path / "plots").glob("*.png"))) >= 4
    assert not list(tmp_path.rglob(".*"))  # nothing left aside


def test_pictures_are_pictures(results, tmp_path):
    report.write_report(tmp_path, results)
    for picture in (tmp_path / "plots").glob("*.png"):
        pixels = plots.matplotlib.image.imread(picture)
        assert pixels.shape[1] > 800 and pixels[..., :3].std() > 0.02


def test_pictures_of_an_earlier_report_go(results, tmp_path):
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "axes.png").write_bytes(b"old")
    report.write_report(tmp_path, results)
    assert not (tmp_path / "plots" / "axes.png").exists()


def test_text_from_an_archive_is_escaped(results, tmp_path):
    hostile = {**results, "title": "<script>alert(1)</script> | x", "skipped": [{"name": "<b>", "reason": "a|b"}]}
    report.write_report(tmp_path, hostile)
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page and "<b>" not in page


def test_tables_in_markdown_are_tables():
    table = content.Table(["a", "b"], [["x|y", "1"], ["z", "22"]])
    lines = render.markdown([table]).splitlines()
    assert len({len(line) for line in lines[:4]}) == 1
    assert "x\\|y" in lines[2]


def published(results, **rows):
    about = {"machine": "another", "rows": [{"test": t, "unit": "ns/op", "A": a, "B": b} for t, (a, b) in rows.items()],
             "on": {"tcg": "because of translation"}}
    return {**results, "published": "x", "published_result": about}


@pytest.mark.parametrize(
    "test, figures, said",
    [
        ("malloc/64/all-cpus", (1000, 120), ""),
        ("malloc/64/all-cpus", (1000, 1000), "here faster"),
        ("malloc/64/all-cpus", (1000, 3000), "here faster"),
        ("malloc/64/all-cpus", (1000, 10), "also faster, but"),
        ("malloc/64/solo", (100, 98), ""),
        ("malloc/64/solo", (100, 40), "here no difference"),
        ("yield/solo", (92, 92), "not run here"),
    ],
)
def test_what_did_not_come_out_as_published(results, test, figures, said):
    found = words.surprises(published(results, **{test: figures}))
    assert (len(found) == 1 and said in found[0]) if said else found == []


def test_the_explanation_of_this_machine_is_printed(results, tmp_path):
    report.write_report(tmp_path, published(results, **{"malloc/64/solo": (100, 40)}))
    assert "because of translation" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("pairs", [1, 2])
def test_few_pairs_are_said_plainly(tmp_path, pairs):
    synth.write_run(tmp_path / "run", pairs=pairs)
    results = analyse.analyse_run(tmp_path / "run")
    text = words.answer(results)
    assert "Nothing is decided" in text and "points to B being" in text and "times faster on malloc/" in text
    report.write_report(tmp_path / "run", results)


def test_alike_arms_are_said_to_be_alike(tmp_path):
    plan = synth.plan_for("A")
    synth.write_run(tmp_path / "run", {"A": plan, "B": plan}, pairs=6)
    assert "same arguments" in words.answer(analyse.analyse_run(tmp_path / "run"))


def test_figures_beside_a_ratio_are_said_to_be_medians(results, tmp_path, capsys):
    """Their quotient is another number than the ratio, and may even lie on the other side of 1."""
    assert "(medians " in words.answer(results)
    verdicts.show(tmp_path, results)
    assert "A and B: medians over boots; B/A: the median ratio of a boot of B to one of A" in capsys.readouterr().out
    verdicts.show(tmp_path, {**results, "tests": []})
    assert "medians over boots" not in capsys.readouterr().out


def test_a_run_without_boots_has_a_report(tmp_path):
    synth.begin_run(tmp_path / "run", {"A": synth.plan_for("A"), "B": synth.plan_for("B")}, 6)
    results = analyse.analyse_run(tmp_path / "run")
    report.write_report(tmp_path / "run", results)
    text = (tmp_path / "run" / "report.md").read_text()
    assert "no boot was made" in text and "not one pair of boots counts" in text
    assert "one pair of boots shows" not in text


def test_two_hundred_boots_report_in_time(tmp_path):
    synth.write_run(tmp_path / "run", pairs=100)
    begin = time.process_time()
    wall = time.monotonic()
    results = analyse.analyse_run(tmp_path / "run", rebuild=True)
    report.write_report(tmp_path / "run", results)
    assert time.process_time() - begin < 20
    assert time.monotonic() - wall < 60  # 20 s on a machine of one's own; tests share theirs
    assert sum(boot["used"] for boot in results["boots"]) == 200


@pytest.mark.parametrize(
    "value, text",
    [(None, "–"), (float("nan"), "–"), (0, "0"), (2130.3, "2,130"), (115.4, "115.4"), (12.0, "12"), (0.0614, "0.0614"),
     (0.00001, "1.0e-05")],
)
def test_numbers(value, text):
    assert units.number(value) == text


def test_other_units():
    assert units.change(-0.9774) == "-97.7 %" and units.change(99) == "×100" and units.change(None) == "–"
    assert units.share(0) == "0 %" and units.share(0.00001) == "<0.01 %" and units.share(0.7) == "70 %"
    assert units.bytes_(1536) == "1.5 KiB" and units.count(4656725764) == "4.66 G" and units.count(318036) == "318,036"
    assert units.times(8.43) == "8.4 times" and units.times(1.24) == "24 %"


def test_what_was_left_out_stands_beside_the_tests(results, tmp_path):
    """By arm, where an arm left out nothing too; and an older results.json has no such key."""
    told = {"boots": 6, "amount": 123, "of": 5000, "detail": "in <b>boxes</b>"}
    entry = {"name": "attic", "unit": "KiB", "doc": "what lay in the attic", "voids": False, "point": {}, "arms": {"B": told}}
    report.write_report(tmp_path, {**results, "left_out": [entry]})
    text = (tmp_path / "report.md").read_text()
    assert text.index("## Tests") < text.index("**Left out:**") < text.index("## Counters")
    row, = [line for line in text.splitlines() if "what lay in the attic" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "what lay in the attic", "–", "0", "123 of 5,000 KiB (in <b>boxes</b>)", "6"]
    assert "<b>boxes" not in (tmp_path / "report.html").read_text()
    for older in ({**results, "left_out": []}, {key: value for key, value in results.items() if key != "left_out"}):
        report.write_report(tmp_path, older)
        assert "Left out" not in (tmp_path / "report.md").read_text()
