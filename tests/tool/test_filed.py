"""Boots in the wrong folder: copies, swaps, halves and changed descriptions of an archive are named, one and all, and left
out; every other boot counts with the figures it had. Of runs with a number for each boot, and of those from before.
"""

import json
import shutil
from dataclasses import replace

import pytest
import synth
from telemetry import analyse, bound, replay

NAMES = [f"{pair:02}-{arm}" for pair in (1, 2, 3) for arm in "AB"]


def write(folder, nonces):
    """A run of three pairs; nonces: with a number for each boot, and check sums of the bytes."""
    plans = {arm: synth.plan_for(arm, rounds=1, round_ms=20) for arm in "AB"}
    description = synth.begin_run(folder, plans, 3)
    for index, entry in enumerate(description["order"]):
        plan = synth.noisy(plans[entry["arm"]], 1, index)
        if nonces:
            nonce = f"{index + 1:016x}"
            description.setdefault("nonces", {})[entry["id"]] = nonce
            plan = replace(plan, args=f"{plan.args} nonce={nonce}")
        synth.run_boot(folder, entry, plan)
        if nonces:
            edit(folder, entry["id"], nonce=nonce,
                 capture=analyse.digest.digest_boot(folder / "boots" / entry["id"])["capture"])
    synth.write_json(folder / "run.json", description | {"state": "done"})


@pytest.fixture(scope="module", params=[True, False], ids=["numbered", "before"])
def archive(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive") / "run"
    write(folder, request.param)
    return folder, request.param, analyse.analyse_run(folder)


def edit(run, name, **changes):
    path = run / "boots" / name / "boot.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def copy(run, source, target, what=""):
    """A whole folder, or one file of it."""
    old, new = run / "boots" / source, run / "boots" / target
    if what:
        shutil.copyfile(old / what, new / what)
        return
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(old, new)


def swap(run, one, other, what=""):
    for source, target in ((one, "aside"), (other, one), ("aside", other)):
        (run / "boots" / "aside").mkdir(exist_ok=True)
        if what:
            (run / "boots" / source / what).rename(run / "boots" / target / what)
        else:
            (run / "boots" / target).exists() and (run / "boots" / target).rmdir()
            (run / "boots" / source).rename(run / "boots" / target)
    if (run / "boots" / "aside").exists():
        (run / "boots" / "aside").rmdir()


def cut(run, name, share, what="telemetry.bin"):
    path = run / "boots" / name / what
    data = path.read_bytes()
    path.write_bytes(data[:int(len(data) * share)])


def without_hello(run, name):
    path = run / "boots" / name / "telemetry.bin"
    path.write_bytes(b"\0" + path.read_bytes().split(b"\0", 2)[2])


def as_its_own(run, source, target):
    """A copy whose boot.json says that it is the other boot: with its id, arm and pair."""
    copy(run, source, target)
    edit(run, target, id=target, arm=target[-1], pair=int(target[:2]))


# what is done; whose boots are then not their own, in an archive with numbers, and in one without
DAMAGES = {
    "a copied folder over one of its arm": (lambda run: copy(run, "01-A", "02-A"), {"02-A"}, {"02-A"}),
    "a copied folder over one of the other arm": (lambda run: copy(run, "01-A", "02-B"), {"02-B"}, {"02-B"}),
    "a copied folder as a boot nobody planned": (lambda run: copy(run, "01-A", "04-A"), {"04-A"}, {"04-A"}),
    "a copied folder as another attempt": (lambda run: copy(run, "01-A", "01-A.2"), {"01-A.2"}, {"01-A.2"}),
    "a copy that says it is another of its arm": (lambda run: as_its_own(run, "01-A", "02-A"), {"02-A"}, {"01-A", "02-A"}),
    "a copy that says it is of the other arm": (lambda run: as_its_own(run, "01-A", "02-B"), {"02-B"}, {"01-A", "02-B"}),
    "another's bytes, of its arm": (lambda run: copy(run, "01-A", "02-A", "telemetry.bin"), {"02-A"}, {"01-A", "02-A"}),
    "another's bytes, of the other arm": (lambda run: copy(run, "01-A", "02-B", "telemetry.bin"), {"02-B"}, {"02-B"}),
    "exchanged bytes of arms": (lambda run: swap(run, "01-A", "01-B", "telemetry.bin"), {"01-A", "01-B"}, {"01-A", "01-B"}),
    "exchanged bytes of an arm": (lambda run: swap(run, "01-A", "02-A", "telemetry.bin"), {"01-A", "02-A"}, None),
    "exchanged descriptions": (lambda run: swap(run, "01-A", "01-B", "boot.json"), {"01-A", "01-B"}, {"01-A", "01-B"}),
    "exchanged folders": (lambda run: swap(run, "01-A", "03-B"), {"01-A", "03-B"}, {"01-A", "03-B"}),
    "another's result": (lambda run: copy(run, "01-A", "02-B", "result.json"), set(), set()),
    "half a boot": (lambda run: cut(run, "02-A", 0.5), {"02-A"}, {"02-A"}),
    "almost a whole boot": (lambda run: cut(run, "02-A", 0.995), {"02-A"}, {"02-A"}),
    "nothing of a boot": (lambda run: cut(run, "02-A", 0), {"02-A"}, {"02-A"}),
    "half a description": (lambda run: cut(run, "02-A", 0.5, "boot.json"), {"02-A"}, {"02-A"}),
    "no hello": (lambda run: without_hello(run, "02-A"), {"02-A"}, {"02-A"}),
    "other arguments": (lambda run: edit(run, "02-A", args="front=magazine"), {"02-A"}, {"02-A"}),
    "another number": (lambda run: edit(run, "02-A", nonce="f" * 16), {"02-A"}, {"02-A"}),
    "no arm": (lambda run: edit(run, "02-A", arm=None), {"02-A"}, {"02-A"}),
}


def figures(results, name):
    """A boot's value in every test, by its place among its arm's boots that count."""
    boots = [boot["id"] for boot in results["boots"] if boot["used"] and boot["arm"] == name[-1]]
    return {test["name"]: test["arms"][name[-1]]["boots"][boots.index(name)] for test in results["tests"]}


@pytest.mark.parametrize("what", DAMAGES)
def test_every_boot_that_is_not_its_own_is_named_and_left_out(archive, tmp_path, what):
    pristine, numbered, whole = archive
    damage, with_number, without = DAMAGES[what]
    wanted = with_number if numbered else without
    if wanted is None:
        assert not numbered
        return  # boots of one arm from before numbers: nothing in the bytes says which is which
    run = tmp_path / "run"
    shutil.copytree(pristine, run)
    analyse.digest.digest_boot(run / "boots" / "01-A")
    for name in NAMES:  # as the tool leaves it: every boot with its result
        result = analyse.digest.digest_boot(run / "boots" / name)
        (run / "boots" / name / "result.json").write_text(json.dumps(result))
    damage(run)
    results = analyse.analyse_run(run)
    boots = {boot["id"]: boot for boot in results["boots"]}
    assert {name for name, boot in boots.items() if not boot["used"]} - set(NAMES) == wanted - set(NAMES)
    left_out = {name for name, boot in boots.items() if boot["outcome"] != "ok"}
    assert left_out == wanted
    for name in wanted:
        assert boots[name]["outcome"] in ("foreign", "incomplete") and boots[name]["reason"]
        if boots[name]["outcome"] == "foreign":
            assert any(name in warning["text"] for warning in results["warnings"] if warning["kind"] == "foreign boot")
    for name in set(NAMES) - wanted:
        if boots[name]["used"]:
            assert figures(results, name) == figures(whole, name)
    assert None not in [value for test in results["tests"] for arm in test["arms"].values() for value in arm["boots"]]


def test_a_replay_says_whose_bytes_it_shows(archive, tmp_path):
    pristine, _, _ = archive
    shutil.copytree(pristine, tmp_path / "run")
    assert replay.told(tmp_path / "run" / "boots" / "01-A") == []
    copy(tmp_path / "run", "01-A", "02-B", "telemetry.bin")
    told, = replay.told(tmp_path / "run" / "boots" / "02-B")
    assert "another boot" in told
    cut(tmp_path / "run", "01-A", 0)
    assert any("no record" in text for text in replay.told(tmp_path / "run" / "boots" / "01-A"))


def test_bytes_that_changed_after_the_boot_are_told(archive, tmp_path):
    pristine, numbered, _ = archive
    if not numbered:
        return  # nobody knows their check sums
    shutil.copytree(pristine, tmp_path / "run")
    path = tmp_path / "run" / "boots" / "01-A" / "telemetry.bin"
    path.write_bytes(path.read_bytes() + b"\0")
    found = [w["text"] for w in analyse.analyse_run(tmp_path / "run")["warnings"] if w["kind"] == "changed bytes"]
    assert len(found) == 1 and "01-A" in found[0]


def test_a_line_that_hello_echoes_cut_short_is_its_own():
    """Kernels that cut what they echo: the beginning is what there is to compare."""
    line = " ".join(f"word{n}=value" for n in range(400))
    assert bound._arguments(line, line[:3000]) == ""
    assert "another boot" in bound._arguments(line, line[:2999] + "x")
    assert bound._arguments(line, line[:40]) != ""
