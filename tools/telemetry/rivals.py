"""Hayloft's hosted allocator beside the mallocs of the world: the verb `rivals`.

Each contender is a process that stays (tests/rivals/runner.c) and runs one short round of a workload when it is
asked to; the others sleep meanwhile. They take turns within each sweep, in an order drawn anew, because a core's
speed may change by more than any allocator differs (a hyperthread's neighbour, a busy host): contenders are compared
within a sweep only. A round whose CPUs did not have their cores to themselves is run again.

Where a process lies in memory also moves figures, for as long as it lives. So the sampling unit is one *start* of
all contenders: a start's figure is the median over its sweeps, and intervals come from the starts alone.

tests/rivals/rivals.toml says who takes part, in which tests, and what is promised. Deliberately not here: verdicts
between arms of Hayloft, which are an experiment's business.
"""

import contextlib
import datetime
import json
import math
import pathlib
import random
import selectors
import statistics
import subprocess
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from rich.progress import Progress, TextColumn, BarColumn, TimeRemainingColumn
from rich.table import Table

from . import ROOT, build, console as consoles, defs, stats, store
from .errors import EXIT_BOOTS, EXIT_EXPECTATION, EXIT_MACHINE, HayloftError, cannot_write, did_you_mean
from .interrupt import stop_by_signal
from .machine import child, facts

CONFIG = ROOT / "tests" / "rivals" / "rivals.toml"
RUNNERS = {"hayloft": "build/rivals/runner-hayloft", "malloc": "build/rivals/runner-malloc"}
MEMORY_MIB = 1024
WARM_UP_MS = 2
UNDISTURBED = 0.97  # share of its CPUs' time that a round must have had
TRIES = 6  # of a round that somebody disturbs, before it is taken as it is
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Contender:
    name: str
    title: str
    args: str | None = None  # Hayloft's boot arguments; None: a malloc
    limit: float | None = None
    package: str = ""
    libraries: tuple[str, ...] = ()


@dataclass
class Measured:
    """ns of one operation: [start][sweep] for each (test, contender)."""

    rounds: dict = field(default_factory=dict)
    disturbed: int = 0
    total: int = 0
    files: dict = field(default_factory=dict)

    def add(self, test, contender, start, value):
        starts = self.rounds.setdefault((test, contender), [])
        while len(starts) <= start:
            starts.append([])
        starts[start].append(value)


# -- what to compare ----------------------------------------------------------------------------------------------


def load(path=CONFIG):
    try:
        return tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise HayloftError(f"{path}: {error}") from error


def choose(config, tests=None, against=None, args=""):
    """(arms, rivals, tests) asked for. tests, against: comma-separated, or None for all."""
    knobs = defs.parse_knobs((ROOT / "base" / "knobs.def").read_text(encoding="utf-8"))
    arms = []
    for name, entry in config["arms"].items():
        line = f"{args} {entry['args']}".strip()
        refused = knobs.check_line(line, hosted=True) or knobs.check_conflicts(line)
        if refused:
            raise HayloftError(f"--args: {refused[0]}")
        arms.append(Contender(name, entry["title"], line, entry["limit"]))
    names = list(config["rivals"]) if against is None else against.split(",")
    rivals = []
    for name in names:
        if name not in config["rivals"]:
            raise HayloftError(f"--against: no rival is called '{name}'{did_you_mean(name, config['rivals'])}")
        entry = config["rivals"][name]
        rivals.append(Contender(name, name, None, None, entry.get("package", ""), tuple(entry.get("libraries", ()))))
    chosen = config["tests"] if tests is None else []
    for pattern in tests.split(",") if tests is not None else []:
        found = [test for test in config["tests"] if matches(pattern, test)]
        if not found:
            raise HayloftError(f"--tests: '{pattern}' matches none of {CONFIG.name}{did_you_mean(pattern, config['tests'])}")
        chosen += [test for test in found if test not in chosen]
    return arms, rivals, chosen


def matches(pattern, test):
    """As tests= does: '*' is anything, and a plain name also means its children."""
    return fnmatchcase(test, pattern) if "*" in pattern else test == pattern or test.startswith(pattern + "/")


# -- one contender ------------------------------------------------------------------------------------------------


class Runner:
    """A contender's process, ready to run rounds."""

    def __init__(self, contender, cpus, tree=ROOT):
        self.contender = contender
        kind = "malloc" if contender.args is None else "hayloft"
        env = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": ":".join(contender.libraries)}
        self.process = child.start([tree / RUNNERS[kind], cpus, MEMORY_MIB, contender.args or ""], env=env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            word, _, rest = self._line().partition(" ")
            if word != "ready":
                raise HayloftError(f"{contender.title}: cannot be measured: {rest or word}", EXIT_BOOTS)
            self.file = rest.rpartition(" ")[0]
            self._check_file()
        except BaseException:
            self.end()
            raise

    def _check_file(self):
        """LD_PRELOAD says nothing of a library that is not there; the address of malloc does."""
        wanted = self.contender.libraries
        if wanted and not any(pathlib.Path(self.file).name.startswith(name) for name in wanted):
            raise HayloftError(f"{self.contender.name}: {wanted[0]} is not found, so its malloc would be another's; "
                               f"install package {self.contender.package}, or choose rivals with --against",
                               EXIT_MACHINE)

    def _line(self):
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if not waiting.select(ANSWER_SECONDS):
                raise HayloftError(f"{self.contender.title}: no answer within {ANSWER_SECONDS:.0f} s", EXIT_BOOTS)
        return self.process.stdout.readline().strip()

    def round(self, test, ms):
        """(ns an operation, share of its CPUs' time that it had)."""
        try:
            self.process.stdin.write(f"ROUND {test} {ms} {WARM_UP_MS}\n")
            self.process.stdin.flush()
            words = self._line().split()
        except OSError:
            words = []
        if len(words) == 4 and words[0] == "ok":
            return float(words[1]), float(words[3])
        why = " ".join(words[1:]) or f"it ended with status {self.process.wait()}"
        raise HayloftError(f"{self.contender.title}: {test}: {why}", EXIT_BOOTS)

    def end(self):
        child.end(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


# -- measuring ----------------------------------------------------------------------------------------------------


def undisturbed(runner, test, ms, measured):
    """ns of a round that had its cores to itself, or of the least disturbed of several."""
    best = (0.0, -1.0)
    for _ in range(TRIES):
        found = runner.round(test, ms)
        measured.total += 1
        if found[1] > best[1]:
            best = found
        if best[1] >= UNDISTURBED:
            return best[0]
    measured.disturbed += 1
    return best[0]


def measure(contenders, tests, cpus, starts, sweeps, ms, step=lambda: None, runner=Runner, seed=1):
    draw, measured = random.Random(seed), Measured()
    for start in range(starts):
        with contextlib.ExitStack() as running:
            runners = []
            for contender in contenders:
                runners.append(runner(contender, cpus))
                running.callback(runners[-1].end)
                measured.files[contender.name] = runners[-1].file
            for _ in range(sweeps):
                for test in tests:
                    draw.shuffle(runners)
                    for one in runners:
                        measured.add(test, one.contender.name, start, undisturbed(one, test, ms, measured))
                    step()
    return measured


# -- results ------------------------------------------------------------------------------------------------------


def median_ns(measured, test, name):
    return statistics.median(statistics.median(sweeps) for sweeps in measured.rounds[test, name])


def ratio(measured, test, name, rival):
    """{"ratio", "interval", "coverage"} of name's cost in terms of rival's: paired within sweeps, one value a start."""
    pairs = zip(measured.rounds[test, name], measured.rounds[test, rival], strict=True)
    logs = [statistics.median(math.log(a / b) for a, b in zip(mine, theirs, strict=True)) for mine, theirs in pairs]
    found = stats.shift_of_pairs(np.array(logs))
    bounds = None if found.low is None else [math.exp(found.low), math.exp(found.high)]
    return {"ratio": math.exp(found.shift), "interval": bounds, "coverage": found.coverage}


def verdict(found, limit):
    """Whether a promise is kept: the interval decides, and where it holds the limit, nothing does."""
    if found["interval"] is None:
        return "undecided"
    low, high = found["interval"]
    return "kept" if high <= limit else "missed" if low > limit else "undecided"


def analyse(measured, arms, rivals, tests, judged):
    rows = []
    for test in tests:
        ns = {one.name: median_ns(measured, test, one.name) for one in (*arms, *rivals)}
        fastest = min((rival.name for rival in rivals), key=ns.get)
        promised = any(matches(pattern, test) for pattern in judged)
        row = {"test": test, "ns": ns, "fastest": fastest, "versus": {}}
        for arm in arms:
            row["versus"][arm.name] = {rival.name: ratio(measured, test, arm.name, rival.name) for rival in rivals}
            against = row["versus"][arm.name][fastest]
            against["verdict"] = verdict(against, arm.limit) if promised else None
        rows.append(row)
    return rows


def distrust(measured, starts, load_before):
    warnings = []
    cores = len(facts.usable_cpus())
    if load_before and load_before[0] > 0.3 * cores:
        warnings.append(f"the host was busy when this began (load {load_before[0]})")
    if measured.disturbed:
        kept = sum(len(sweeps) for starts_ in measured.rounds.values() for sweeps in starts_)
        warnings.append(f"{measured.disturbed} of {kept} rounds never had their cores to themselves in {TRIES} tries")
    if starts < 6:
        warnings.append(f"{starts} starts: too few for an interval of 95 %, 6 are needed")
    return warnings


# -- showing ------------------------------------------------------------------------------------------------------


def number(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def against(found):
    text = f"{found['ratio']:.2f}"
    if found["interval"]:
        text += f" ({found['interval'][0]:.2f}..{found['interval'][1]:.2f})"
    return text + (f" {found['verdict']}" if found.get("verdict") else "")


def columns(arms, rivals):
    return ["test", *(one.title for one in (*arms, *rivals)), "fastest rival", *(f"{arm.title} / fastest" for arm in arms)]


def cells(row, arms, rivals):
    fastest = row["fastest"]
    return [row["test"], *(number(row["ns"][one.name]) for one in (*arms, *rivals)), fastest,
            *(against(row["versus"][arm.name][fastest]) for arm in arms)]


def markdown(result, arms, rivals):
    head = columns(arms, rivals)
    lines = [f"# {result['title']}", "", f"ns an operation, {result['how']}.", ""]
    lines += ["| " + " | ".join(head) + " |",
              "|" + "|".join("---" if name in ("test", "fastest rival") else "---:" for name in head) + "|"]
    lines += ["| " + " | ".join(cells(row, arms, rivals)) + " |" for row in result["tests"]]
    lines += ["", result["reading"], ""]
    lines += [f"- {arm.title}: `{arm.args or 'defaults'}`; promised: at most {arm.limit} times the fastest" for arm in arms]
    lines += [f"- {name}: {text}" for name, text in result["rivals"].items()]
    lines += [f"- {result['host']}; commit {result['commit']}"]
    lines += [f"- **warning**: {text}" for text in result["warnings"]]
    return "\n".join(lines) + "\n"


def show(result, arms, rivals):
    console = consoles.console(width=220)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns(arms, rivals)):
        table.add_column(name, justify="left" if name in ("test", "fastest rival") else "right", no_wrap=index == 0)
    for row in result["tests"]:
        table.add_row(*cells(row, arms, rivals))
    consoles.show(console, table)
    console.print(result["reading"], markup=False)
    for text in result["warnings"]:
        console.print(f"warning: {text}", markup=False)


def version(rival, file):
    """What is known of a rival: its file, and the package's version where dpkg knows it."""
    package = rival.package or "libc6"
    try:
        done = child.run(["dpkg-query", "-W", "-f", "${Version}", package], timeout=20)
    except OSError:
        return file
    return f"{file} ({package} {done.stdout.strip()})" if done.returncode == 0 else file


# -- the verb -----------------------------------------------------------------------------------------------------


def open_folder(out):
    folder = pathlib.Path(out) if out else store.RUNS / f"{datetime.datetime.now():%Y-%m-%dT%H-%M-%S}-rivals"
    store.check_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def check_counts(cpus, starts, sweeps, ms):
    cores = len(facts.usable_cpus())
    cpus = cores if cpus is None else cpus
    for name, value, low, high in (("--cpus", cpus, 1, cores), ("--starts", starts, 1, 100),
                                   ("--sweeps", sweeps, 1, 1000), ("--ms", ms, 1, 1000)):
        if not low <= value <= high:
            raise HayloftError(f"{name}: must be {low}..{high}, not {value}")
    return min(cpus, 8)


def build_runners(folder):
    build.ninja(list(RUNNERS.values()), folder / "build.log")


def main(tests=None, against=None, args="", cpus=None, starts=6, sweeps=10, ms=10, expect=False, out=None):
    config = load()
    arms, rivals, tests = choose(config, tests, against, args)
    cpus = check_counts(cpus, starts, sweeps, ms)
    with stop_by_signal():
        folder = open_folder(out)
        build_runners(folder)
        load_before = facts.load()
        with Progress(TextColumn("measuring"), BarColumn(), TimeRemainingColumn(),
                      console=consoles.console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=starts * sweeps * len(tests))
            measured = measure((*arms, *rivals), tests, cpus, starts, sweeps, ms, lambda: bar.advance(task))
    rows = analyse(measured, arms, rivals, tests, config["judged"])
    result = {
        "schema": 1, "title": "Hayloft's allocator beside others, natively",
        "how": f"{cpus} pinned threads; median of {starts} starts of {sweeps} rounds of {ms} ms, taken in turns",
        "reading": "ratios compare rounds of one sweep; interval over starts; under 1 Hayloft costs less",
        "host": f"{facts.cpu_model()}, {len(facts.usable_cpus())} cores, load {load_before}",
        "commit": describe_commit(), "cpus": cpus, "starts": starts, "sweeps": sweeps, "ms": ms,
        "arms": {arm.name: {"title": arm.title, "args": arm.args, "limit": arm.limit} for arm in arms},
        "rivals": {rival.name: version(rival, measured.files[rival.name]) for rival in rivals},
        "tests": rows, "warnings": distrust(measured, starts, load_before),
        "rounds": [{"test": test, "contender": name, "ns": values} for (test, name), values in measured.rounds.items()],
    }
    store.write_text(folder / "rivals.json", json.dumps(result, indent=1) + "\n")
    store.write_text(folder / "rivals.md", markdown(result, arms, rivals))
    show(result, arms, rivals)
    print(f"report: {folder / 'rivals.md'} and {folder / 'rivals.json'}")
    missed = [f"{row['test']} {arm.title}" for row in rows for arm in arms
              if row["versus"][arm.name][row["fastest"]].get("verdict") == "missed"]
    if missed and expect:
        print(f"missed: {', '.join(missed)}")
    return EXIT_EXPECTATION if missed and expect else 0


def describe_commit():
    state = build.git_state()
    return f"{(state['id'] or 'unknown')[:12]}{' with changes' if state['dirty'] else ''}"
