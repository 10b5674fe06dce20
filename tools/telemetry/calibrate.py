"""This machine's own noise: what two alike arms differ by, test by test.

An A/A run gives the boots of one arm twice. Its boots are pooled for each test and split into two equal
halves again and again; the noise is the 95 % quantile of the absolute Hodges-Lehmann shift between the
halves, on the log scale. Verdicts claim nothing smaller. A run with another number of pairs scales it by
the square root of the pairs, as the error of a shift does.

The file holds one entry a machine (kind, CPUs, host CPU, its cores, emulator version), since noise is a
property of all of them. A run keeps a copy of the entry that was valid when it began in its own folder
(calibration.json), so that a report made later says the same.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np

from . import store
from .errors import HayloftError

SCHEMA = 1
QUANTILE = 0.95
SPLITS = 1000
FEWEST_BOOTS = 8
COPY = "calibration.json"


def default_path() -> Path:
    """Outside any checkout: noise belongs to the machine, not to a source tree."""
    state = os.environ.get("XDG_STATE_HOME")
    if not state:
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError as error:
            raise HayloftError("this user has no home folder; set HOME or XDG_STATE_HOME") from error
    return Path(state) / "hayloft" / "calibration.json"


def machine_key(run: dict) -> str:
    machine, host = run.get("machine") or {}, run.get("host") or {}
    qemu = "" if machine.get("kind") == "host" else run.get("qemu")
    parts = (machine.get("kind"), machine.get("cpus"), host.get("cpu"), host.get("cores"), qemu)
    return " / ".join(str(part) for part in parts)


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
    return {"noise": float(np.quantile(shifts, QUANTILE)), "pairs": half, "boots": len(logs)}


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
            found[test["name"]] = noise
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
        entry = load(path or default_path()).get(machine_key(run))
    except HayloftError:
        if path is not None or os.environ.get("XDG_STATE_HOME") or os.environ.get("HOME"):
            raise
        return  # without a home nothing can have been calibrated
    if entry:
        save(Path(run_dir) / COPY, {machine_key(run): entry})


def of_run(run_dir: Path, run: dict) -> dict[str, dict]:
    return load(Path(run_dir) / COPY).get(machine_key(run), {})


def noise_for(calibration: dict[str, dict], test: str, pairs: int) -> float:
    """|ln ratio| that alike arms stay under in 95 % of runs with so many pairs; NaN if not calibrated."""
    entry = calibration.get(test)
    if not entry or pairs < 1:
        return math.nan
    return entry["noise"] * math.sqrt(max(1.0, entry["pairs"] / pairs))


