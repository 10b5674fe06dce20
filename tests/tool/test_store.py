"""The archive: whole files or none, one writer, recognisable leftovers."""

import json
import os
import subprocess
import sys

import pytest

from telemetry import ROOT, store
from telemetry.errors import HayloftError

INFO = {"schema": 1, "experiment": "x", "arms": {"A": "", "B": ""}, "order": [], "machine": {}, "state": "running"}


def create(folder):
    return store.create(folder, "x", "title = 'x'\n", dict(INFO))


def test_a_new_run_is_there_whole(tmp_path):
    with create(tmp_path / "run") as run:
        assert json.loads((run.dir / "run.json").read_text())["state"] == "running"
        assert (run.dir / "experiment.toml").read_text() == "title = 'x'\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    (tmp_path / "empty").mkdir()
    with create(tmp_path / "empty") as run:
        assert (run.dir / "run.json").exists()


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(HayloftError, match="not empty"):
        create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(HayloftError, match="is a file"):
        create(tmp_path / "mine")
    with pytest.raises(HayloftError, match="cannot be made"):
        create(tmp_path / "mine" / "below")


def test_a_second_writer_is_refused_also_from_another_process(tmp_path):
    with create(tmp_path / "run") as run:
        with pytest.raises(HayloftError, match="another hayloft"):
            store.open_run(run.dir, locked=True)
        code = ("import sys; from telemetry import store\n"
                "try: store.open_run(sys.argv[1], locked=True)\n"
                "except Exception as e: print(e); sys.exit(9)")
        done = subprocess.run([sys.executable, "-c", code, run.dir], env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
                              capture_output=True, text=True, check=False)
        assert done.returncode == 9 and "another hayloft" in done.stdout
        assert store.open_run(run.dir).info["experiment"] == "x", "reading needs no lock"
        assert store.is_busy(run.dir)
    assert not store.is_busy(tmp_path / "run")
    store.open_run(tmp_path / "run", locked=True).close()


def test_writing_leaves_nothing_half_done(tmp_path):
    path = tmp_path / "a.json"
    store.write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        store.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_boot_without_boot_json_is_unfinished(tmp_path):
    with create(tmp_path / "run") as run:
        run.start_boot("01-A")
        run.start_boot("01-B")
        run.end_boot("01-B", {"id": "01-B", "outcome": "ok"}, {"tests": []})
        assert run.unfinished() == ["01-A"]
        assert list(run.boots()) == ["01-B"]
        with pytest.raises(FileExistsError):
            run.start_boot("01-B")


def test_an_image_is_stored_once_and_checked(tmp_path):
    from telemetry import image
    elf = tmp_path / "kernel.elf"
    elf.write_bytes(b"bytes")
    with create(tmp_path / "run") as run:
        checksum = image.sha256(elf)
        assert run.add_image(elf, checksum) == run.add_image(elf, checksum) == "image/kernel.elf"
        assert [path.name for path in (run.dir / "image").iterdir()] == ["kernel.elf"]
        elf.write_bytes(b"other")
        with pytest.raises(HayloftError, match="changed"):
            run.add_image(elf, "0" * 64)
        assert [path.name for path in (run.dir / "image").iterdir()] == ["kernel.elf"]


@pytest.mark.parametrize("text, word", [("", "cannot be read"), ("{", "cannot be read"), ("[]", "no JSON object"),
                                        ('{"schema": 7}', "schema 7"), ('{"schema": 1}', "experiment"),
                                        (json.dumps({**INFO, "order": 3}), "order"), ("\0\xff", "cannot be read")])
def test_bad_archives_are_one_line(tmp_path, text, word):
    (tmp_path / "run.json").write_text(text)
    for locked in (False, True):
        with pytest.raises(HayloftError, match=word) as caught:
            store.open_run(tmp_path, locked=locked)
        assert "\n" not in str(caught.value)
    assert not store.is_busy(tmp_path), "a refused archive stays unlocked"


def test_what_is_no_run_says_so(tmp_path):
    with pytest.raises(HayloftError, match="no run.json"):
        store.open_run(tmp_path)
    with pytest.raises(HayloftError, match="no such run"):
        store.open_run("certainly-not-a-run")
    with pytest.raises(HayloftError, match="no archived boot"):
        store.locate_boot(tmp_path / "01-A")
