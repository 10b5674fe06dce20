"""This machine's own noise: what two alike arms differ by, test by test.

An A/A run gives the boots of one arm twice. Its boots are pooled for each test and split into two equal
halves again and again; the noise is the 95 % quantile of the absolute Hodges-Lehmann shift between the
halves, on the log scale, made larger by as much as so few boots can underrate their own spread (Student's quantile
over the normal one). Verdicts claim nothing smaller. A run with another number of pairs scales it by
the square root of the pairs, as the error of a shift does.

The file holds one entry a machine and way of measuring, since noise is a property of all of these: kind, CPUs, host CPU,
its cores, emulator version, memory, topology, how many rounds of what length, what is done with the pace, and the kernel
image, whose layout is a part of it. Each test's noise has the date of its A/A run. A run keeps a copy of what was valid
when it began in its own folder (calibration.json), so that a report made later says the same, and of what was known of
the same machine otherwise, so that it can say what differs.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from statistics import NormalDist

import numpy as np

from . import stats, store
from .errors import HayloftError

SCHEMA = 1
QUANTILE = 0.95
SPLITS = 1000
FEWEST_BOOTS = 8
COPY = "calibration.json"
ROUND_KNOBS = ("kbench", "kbench.ms", "kbench.ops")


def default_path() -> Path:
    """Outside any checkout: noise belongs to the machine, not to a source tree."""
    state = os.environ.get("XDG_STATE_HOME")
    if not state:
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError as error:
            raise HayloftError("this user has no home folder; set HOME or XDG_STATE_HOME") from error
    return Path(state) / "hayloft" / "calibration.json"


def hardware(run: dict) -> str:
    """The machine alone: times of one are set beside those of another only if this is the same."""
    machine, host = run.get("machine") or {}, run.get("host") or {}
    qemu = "" if machine.get("kind") == "host" else run.get("qemu")
    parts = (machine.get("kind"), machine.get("cpus"), host.get("cpu"), host.get("cores"), qemu)
    return " / ".join(str(part) for part in parts)


def machine_key(run: dict) -> str:
    """Everything that noise is a property of, each part with its name."""
    return " / ".join([hardware(run), *(f"{name} {value}" for name, value in _measuring(run).items())])


def _measuring(run: dict) -> dict[str, str]:
    machine = run.get("machine") or {}
    words = [word for entry in (run.get("order") or [])[:1] for word in str(entry.get("args") or "").split()]
    rounds = [word for word in words if word.partition("=")[0] in ROUND_KNOBS]
    images = sorted(set((run.get("arm_images") or {}).values()))
    return {"memory": str(machine.get("memory")), "topology": str(machine.get("topology") or "none"),
            "rounds": " ".join(rounds) or "default", "pace": str(run.get("pace", "adjust")),
            "kernel": "+".join(image[:12] for image in images) or "unknown"}


def unlike(known: dict, run: dict) -> str:
    """What the calibration nearest to this run was made with instead; "" if none of this machine is known."""
    here = hardware(run)
    wanted = [f"{name} {value}" for name, value in _measuring(run).items()]
    found = [key.removeprefix(here).strip(" /").split(" / ") for key in known if key.startswith(here + " / ")]
    if not found:
        return ""
    nearest = min(found, key=lambda parts: len(set(parts) ^ set(wanted)))
    return ", ".join(part for part in nearest if part not in wanted)


def noise_of(values: list[float], seed: int = 1) -> dict | None:
    """Noise of one test from one value a boot, all booted alike; None with too few boots."""
    logs = np.log([value for value in values if value and value > 0])
    half = len(logs) // 2
    if len(logs) < FEWEST_BOOTS:
        return None
    rng = np.random.default_rng(seed)
    shifts = []
    for _ in range(SPLITS):
        picked = rng.permutation(len(logs))
        a, b = logs[picked[:half]], logs[picked[half : 2 * half]]
        shifts.append(abs(np.median(b[:, None] - a[None, :])))
    few = stats.t_quantile((1 + QUANTILE) / 2, len(logs) - 2) / NormalDist().inv_cdf((1 + QUANTILE) / 2)
    return {"noise": float(np.quantile(shifts, QUANTILE)) * few, "pairs": half, "boots": len(logs)}


def from_results(results: dict) -> dict[str, dict]:
    """{test: noise} of an A/A run; all arms must have the same arguments."""
    if len(set((results.get("arms") or {}).values())) > 1:
        raise HayloftError("calibrate wants arms with the same arguments: noise is what alike boots differ by")
    found = {}
    for test in results["tests"]:
        if test["point"]:
            continue
        values = [value for arm in test["arms"].values() for value in arm["boots"] if value is not None]
        noise = noise_of(values)
        if noise:
            found[test["name"]] = noise | {"date": str(results.get("created") or "")[:10] or None}
    return found


def load(path: Path) -> dict:
    """{machine key: {test: noise}}; an absent file is an empty one."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise HayloftError(f"{path}: cannot be read ({error}); remove it and calibrate again") from error
    machines = data.get("machines") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    if not isinstance(machines, dict):
        raise HayloftError(f"{path}: is no calibration of schema {SCHEMA}; remove it and calibrate again")
    return machines


def save(path: Path, machines: dict) -> None:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(path, json.dumps({"schema": SCHEMA, "machines": machines}, indent=1) + "\n")


def learn(run: dict, results: dict, path: Path | None = None) -> dict[str, dict]:
    """Adds an A/A run to the calibration file; returns what was learnt, test by test."""
    path = path or default_path()
    found = from_results(results)
    if not found:
        raise HayloftError(f"too few boots to calibrate: at least {FEWEST_BOOTS} good ones a test are needed")
    machines = load(path)
    machines.setdefault(machine_key(run), {}).update(found)
    save(path, machines)
    return found


def keep_copy(run_dir: Path, run: dict, path: Path | None = None) -> None:
    """Gives a run that begins the entry that is valid now; no file if there is none."""
    try:
        every = load(path or default_path())
    except HayloftError:
        if path is not None or os.environ.get("XDG_STATE_HOME") or os.environ.get("HOME"):
            raise
        return  # without a home nothing can have been calibrated
    known = {key: entry for key, entry in every.items() if key.startswith(hardware(run) + " / ")}
    if known:
        save(Path(run_dir) / COPY, known)


def of_run(run_dir: Path, run: dict) -> dict[str, dict]:
    """Runs of older tools have a copy under the machine's key alone; it was what they judged by."""
    known = load(Path(run_dir) / COPY)
    return known.get(machine_key(run)) or known.get(hardware(run)) or {}


def told(run_dir: Path, run: dict, tests: list[str]) -> str:
    """What a report must say of it, or "" where every test was calibrated."""
    known = of_run(run_dir, run)
    missing = [test for test in dict.fromkeys(tests) if test not in known]
    if not missing:
        return ""
    guards = "so only the minimum effect guards against it"
    if not known:
        other = unlike(load(Path(run_dir) / COPY), run)
        return (f"this machine's own noise is not calibrated (./hayloft calibrate), {guards}"
                + (f"; it was with {other}" if other else ""))
    dates = sorted({entry.get("date") or "unknown" for entry in known.values()})
    shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    return f"noise was calibrated (on {', '.join(dates)}) for other tests, not for {shown}, {guards} there"


def noise_for(calibration: dict[str, dict], test: str, pairs: int) -> float:
    """|ln ratio| that alike arms stay under in 95 % of runs with so many pairs; NaN if not calibrated."""
    entry = calibration.get(test)
    if not entry or pairs < 1:
        return math.nan
    return entry["noise"] * math.sqrt(max(1.0, entry["pairs"] / pairs))


