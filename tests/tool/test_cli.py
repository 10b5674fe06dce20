"""The command line: errors are one line with an exit code, lists show everything, nothing unknown is accepted."""

import os
import subprocess
import sys

import pytest

from telemetry import ROOT, cli, defs, doctor, image
from telemetry.errors import HayloftError

import fake_machine


def tool(*words, **options):
    return subprocess.run([sys.executable, "-m", "telemetry", *map(str, words)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
                          timeout=60, check=False, **options)


@pytest.mark.parametrize("words, code, said", [
    (["rnu"], 2, "run"), ([], 2, "VERB"), (["run"], 2, "file"), (["run", "nosuch.toml"], 2, "no such experiment"),
    (["run", "magazine"], 2, "magazines"), (["run", "quick", "--pairs", "x"], 2, "invalid int"),
    (["run", "quick", "--liv", "no"], 2, "--liv"), (["run", "quick", "--set", "pairs"], 2, "key=value"),
    (["run", "quick", "--set", "knch=1"], 2, "kbench"), (["run", "quick", "--machine", "tgc"], 2, "tcg"),
    (["resume", "nosuch"], 2, "no such run"), (["report", "/"], 2, "no run.json"), (["replay", "x/01-A"], 2, "boot"),
    (["compare", "nosuch"], 2, "no such run"), (["compare"], 2, "run"),
    (["export", "nosuch"], 2, "no such run"), (["export", "x", "--to", "xls"], 2, "csv"),
    (["boot", "--args", "frnt=none", "--set", "kbench=1"], 2, "--args"),
    (["boot", "--args", "repeat=1"], 2, "no rounds to repeat"),
    (["boot", "--set", "machine.cpus=0"], 2, "machine.cpus"), (["boot", "--gdb", "--machine", "host"], 2, "gdb"),
    (["knobs", "--image", "/etc/passwd"], 2, "ELF"), (["knobs", "--image", "/nonesuch"], 2, "nonesuch"),
    (["run", "quick", "--port", "99999"], 2, "1..65535"), (["run", "quick", "--port", "0"], 2, "1..65535"),
    (["run", "quick", "--port", "-1"], 2, "1..65535"), (["replay", "x/01-A", "--port", "web"], 2, "1..65535"),
    (["list", "extra"], 2, "extra"),
])
def test_errors_are_one_line(words, code, said):
    done = tool(*words)
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("hayloft: ") and said in done.stderr


def test_help_lists_every_verb_and_every_verb_has_help():
    text = tool("--help").stdout
    _, verbs = cli.parser()
    for verb in verbs.choices:
        assert verb in text
        done = tool(verb, "--help")
        assert done.returncode == 0 and done.stdout.startswith("usage: ./hayloft")


def test_lists_show_every_name():
    knobs = tool("knobs").stdout
    for knob in defs.parse_knobs((ROOT / "base" / "knobs.def").read_text()):
        assert knob.name in knobs
    counters = tool("counters").stdout
    for counter in defs.parse_counters((ROOT / "base" / "counters.def").read_text()):
        assert counter.name in counters
    experiments = tool("experiments").stdout
    for name in ("quick", "magazines", "null"):
        assert name in experiments
    assert "published" not in experiments


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(f"{sys.executable} -m telemetry counters | head -1", shell=True, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, check=False)
    assert done.returncode == 0 and done.stderr == ""


# -- what the verbs read ------------------------------------------------------------------------------------


def test_knobs_of_an_image(tmp_path):
    elf = fake_machine.make_image(tmp_path / "x.elf")
    assert list(image.read_knobs(elf).by_name) == list(
        defs.parse_knobs((ROOT / "base" / "knobs.def").read_text()).by_name)


@pytest.mark.parametrize("cut", [0, 3, 40, 63, 64, 70, 5000, -100, -64, -1])
def test_a_damaged_image_is_one_line(tmp_path, cut):
    elf = fake_machine.make_image(tmp_path / "x.elf")
    elf.write_bytes(elf.read_bytes()[:cut])
    with pytest.raises(HayloftError):
        image.read_knobs(elf)


def test_any_changed_byte_of_the_headers_is_survived(tmp_path):
    elf = fake_machine.make_image(tmp_path / "x.elf", 'KNOB(a, "a", UINT, 0, 9, "0", all, "x")\n')
    good = elf.read_bytes()
    for at in range(len(good)):
        elf.write_bytes(good[:at] + bytes([good[at] ^ 0xff]) + good[at + 1:])
        try:
            image.read_knobs(elf)
        except HayloftError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["KNOB(a)", "KNOB(a, \"a\", UINT, 0, 9, \"0\", all, \"x\"", "NOT(a)", "VALUE(a, b, \"c\")", "",
                                  "KNOB(a, \"a\", UINT, 0, 9, \"0\", all \"x\")"])
def test_a_damaged_list_is_one_line(text):
    with pytest.raises(HayloftError):
        defs.parse_knobs(text)


@pytest.mark.parametrize("text", ["tool command python3", "tol command a b", "tool comand a b"])
def test_a_damaged_package_list_is_one_line(text):
    with pytest.raises(HayloftError):
        doctor.needs(text)


# -- the list of knobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry, word", [
    ('CONFLICT("lock=mcs frce=1", "", "lock=tas", "why")', "frce"),
    ('CONFLICT("lock=msc force=1", "", "lock=tas", "why")', "msc"),
    ('CONFLICT("lock=mcs =1", "", "lock=tas", "why")', "=1"),
    ('CONFLICT("lock=mcs force=", "", "lock=tas", "why")', "force="),
    ('CONFLICT("lock=mcs", "forse=1", "lock=tas", "why")', "forse"),
    ('CONFLICT("lock=mcs", "", "why")', "4 arguments"),
    ('CONFLICT("nodes>front", "", "nodes=1", "why")', "two numbers"),
])
def test_a_conflict_that_means_nothing_is_an_error(entry, word):
    with pytest.raises(HayloftError, match="CONFLICT") as error:
        defs.parse_knobs((ROOT / "base" / "knobs.def").read_text() + entry + "\n")
    assert word in str(error.value)


@pytest.mark.parametrize("line, refused", [
    ("", 0), ("kbench.ms=5", 0), ("kbench.ops=5", 0), ("kbench.ms=5 kbench.ops=0", 0), ("kbench.ms=5 kbench.ops=5", 1),
    ("repeat=1", 1), ("repeat=1 kbench=1", 0), ("lock=mcs overcommit=1", 1), ("lock=mcs overcommit=1 force=1", 0),
    ("repeat=1 lock=ticket overcommit=1", 2), ("kbench.ms=5 kbench.ops=1K", 1),
])
def test_conflicts_are_found_in_whole_lines(line, refused):
    knobs = defs.parse_knobs((ROOT / "base" / "knobs.def").read_text())
    assert not knobs.check_line(line, True)
    assert len(knobs.check_conflicts(line)) == refused


@pytest.mark.parametrize("line, cpus, refused", [
    ("nodes=2", None, 0), ("nodes=2", 2, 0), ("nodes=2", 1, 1), ("nodes=2 maxcpus=1", 8, 1), ("nodes=4 maxcpus=4", 3, 1),
    ("nodes=4 maxcpus=4", 4, 0), ("maxcpus=1", 1, 0),
])
def test_no_more_nodes_than_cpus(line, cpus, refused):
    knobs = defs.parse_knobs((ROOT / "base" / "knobs.def").read_text())
    assert [refusal.argument for refusal in knobs.check_conflicts(line, cpus)] == ["nodes>maxcpus"] * refused
