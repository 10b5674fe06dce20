"""The experiment file: what is legal in it, and what it asks for.

load() reads a file, checks everything that can be checked without an image, and returns an Experiment;
check_arms() checks the arguments of every arm at every axis point against the knobs of the image that
will run it. Each error is one line with the file, the line, the key and the nearest legal name; nothing
has been created or booted by then.

The archived copy of a file is the file itself, byte for byte; what the command line changed (--set,
--pairs, --machine) is in run.json.
"""

import dataclasses
import itertools
import pathlib
import re
import string
import tomllib

from . import ROOT, defs, machine
from .errors import HayloftError, did_you_mean
from .toml_lines import Lines

ORDERS = ("random-blocks", "abba", "pairs", "alternate", "random")  # plan.py; the first is what is done unasked
EXCHANGES = ("boots", "pairs")  # verdict.py: labels are exchanged between all boots of a run, or within pairs only
DEFAULT_PAIRS = 6
DEFAULT_RETRIES = 2
DEFAULT_EFFECT = 0.20
LIVE = ("off", "web")  # of an arm: no live view while it boots, or a page with somebody who looks
PACES = ("adjust", "ignore")  # times at one pace of the machine (pace.py), or as they were measured
MOST_PAIRS = 10000
MOST_POINTS = 64

# key → legal types; machine, arms, axes and expect are tables
_TOP = {"title": str, "published": str, "machine": dict, "boot": str, "pairs": (int, dict), "order": str,
        "scheme": str,        "minimum_effect": (int, float), "pace": str, "retries": int, "arms": dict, "axes": dict, "expect": dict}
_MACHINE = {"kind": str, "cpus": (int, str), "memory": str, "timeout": str, "topology": str}
_TYPE_NAMES = {str: "a text", dict: "a table", int: "a whole number", float: "a number", bool: "true or false",
               list: "a list"}
_EXPECT_KINDS = ("test", "counter", "lock", "figure")


@dataclasses.dataclass(frozen=True)
class Arm:
    name: str
    args: str
    rev: str | None = None
    image: str | None = None
    live: str | None = None  # one of LIVE, in all arms of a file or in none

    @property
    def other_build(self):
        return self.rev is not None or self.image is not None

    @property
    def told(self):
        """What sets the arm apart, as run.json and results.json tell it."""
        return " ".join([*self.args.split(), *([f"live={self.live}"] if self.live else [])])


@dataclasses.dataclass
class Experiment:
    path: pathlib.Path
    source: str  # the text, as archived
    title: str
    published: str | None
    machine: dict  # kind, cpus, memory, timeout, topology as asked for
    boot: str
    pairs: int  # the most that will be booted
    looks: list | None  # planned looks, or None
    order: str
    exchange: str  # one of EXCHANGES
    minimum_effect: float
    pace: str  # one of PACES
    retries: int
    arms: list
    axes: dict  # key → list of values
    expect: dict
    lines: Lines

    @property
    def name(self):
        return self.path.stem

    @property
    def points(self):
        """Every combination of the axes' values: a list of {key: value}, [{}] without axes."""
        keys = list(self.axes)
        return [dict(zip(keys, values)) for values in itertools.product(*self.axes.values())]

    def fail(self, key, message):
        """Raises with file, line and key; key is a path as tuple."""
        line = self.lines.line(*key)
        where = f"{self.path}:{line}" if line else f"{self.path}"
        raise HayloftError(": ".join(filter(None, (where, dotted(key), message))))

    def machine_at(self, point):
        """The machine settings of one axis point."""
        settings = dict(self.machine)
        for key, value in point.items():
            if key.startswith("machine."):
                settings[key.removeprefix("machine.")] = value
        return settings

    def line_at(self, arm, point, extra=()):
        """The argument line of one arm at one point: boot, axes, the arm's own, then what the tool adds."""
        axes = [f"{key}={value}" for key, value in point.items() if not key.startswith("machine.")]
        return " ".join([*self.boot.split(), *axes, *arm.args.split(), *extra])


def dotted(path):
    return ".".join(f'"{part}"' if "." in part or ":" in part else part for part in path)


def _type_name(kinds):
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return " or ".join(_TYPE_NAMES[kind] for kind in kinds if not (kind is int and float in kinds))


def _is(value, kinds):
    return isinstance(value, kinds) and not isinstance(value, bool)


class _Reader:
    """Turns parsed TOML into an Experiment, or fails at the first thing that is wrong."""

    def __init__(self, path, text):
        self.path, self.lines = path, Lines(text)
        if self.lines.twice:
            key, first, second = self.lines.twice[0]
            raise HayloftError(f"{path}:{second}: {dotted(key)}: named twice, first on line {first}")
        try:
            self.data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            at = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
            what = str(error).split(" (at ")[0]
            where = f"{path}:{at[1]}:{at[2]}" if at else f"{path}"
            raise HayloftError(f"{where}: not TOML: {what}") from error

    def fail(self, key, message):
        Experiment.fail(self, key, message)

    def table(self, value, legal, prefix=()):
        """Checks the names and types of one table."""
        for key, item in value.items():
            if key not in legal:
                self.fail((*prefix, key), f"unknown key '{key}'{did_you_mean(key, legal)}")
            if not _is(item, legal[key]):
                self.fail((*prefix, key), f"wants {_type_name(legal[key])}, not {item!r}")
        return value

    def read(self, text):
        data = self.table(self.data, _TOP)
        title = data.get("title", self.path.stem)
        if not title.strip():
            self.fail(("title",), "is empty; say what the experiment asks")
        pairs, looks = self.read_pairs(data.get("pairs", DEFAULT_PAIRS))
        order, exchange = self.read_scheme(data)
        effect = data.get("minimum_effect", DEFAULT_EFFECT)
        if not 0 <= effect <= 1:  # more would be meant as per cent
            self.fail(("minimum_effect",), f"a share from 0 to 1, such as 0.20 for 20 %, not {effect}")
        pace = data.get("pace", PACES[0])
        if pace not in PACES:
            self.fail(("pace",), f"no way with the machine's pace is called '{pace}'{did_you_mean(pace, PACES)}")
        retries = data.get("retries", DEFAULT_RETRIES)
        if not 0 <= retries <= 20:
            self.fail(("retries",), f"0..20, not {retries}")
        arms = self.read_arms(data.get("arms"))
        return Experiment(
            path=self.path, source=text, title=title, published=self.read_published(data.get("published")),
            machine=self.read_machine(data.get("machine", {})), boot=data.get("boot", ""), pairs=pairs,
            looks=looks, order=order, exchange=exchange, minimum_effect=float(effect), pace=pace, retries=retries, arms=arms,
            axes=self.read_axes(data.get("axes", {})),
            expect=self.read_expect(data.get("expect", {}), [arm.name for arm in arms]), lines=self.lines)

    def read_scheme(self, data):
        """(order of the boots, what is exchanged). scheme names one or both: an order, or "pairs", which is the order that
        comparing within pairs assumes, and that comparison. `order` by itself is an order."""
        if "scheme" in data and "order" in data:
            self.fail(("order",), "scheme says the order too; name one of them")
        key = "scheme" if "scheme" in data else "order"
        order = data.get(key, ORDERS[0])
        if order not in ORDERS:
            self.fail((key,), f"no {key} is called '{order}'{did_you_mean(order, ORDERS)}")
        return order, EXCHANGES[key == "scheme" and order == "pairs"]

    def read_pairs(self, value):
        if isinstance(value, int):
            if not 1 <= value <= MOST_PAIRS:
                self.fail(("pairs",), f"1..{MOST_PAIRS}, not {value}")
            return value, None
        self.table(value, {"looks": list}, ("pairs",))
        looks = value.get("looks", [])
        if not looks or not all(_is(look, int) and 1 <= look <= MOST_PAIRS for look in looks):
            self.fail(("pairs", "looks"), f"whole numbers of pairs such as [6, 12, 30], not {looks!r}")
        if sorted(set(looks)) != looks:
            self.fail(("pairs", "looks"), f"must grow from look to look, not {looks!r}")
        return looks[-1], looks

    def read_machine(self, value):
        self.table(value, _MACHINE, ("machine",))
        settings = {**machine.DEFAULTS, **value}
        try:
            machine.check(settings)
        except HayloftError as error:
            key, _, what = str(error).partition(": ")
            self.fail(tuple(key.split(".")), what)
        return settings

    def read_arms(self, value):
        if value is None:
            self.fail((), "there is no [arms] table; name at least A and B")
        names = list(string.ascii_uppercase[:len(value)])
        if len(value) < 2:
            self.fail(("arms",), f"{len(value)} arm is nothing to compare; name at least A and B")
        arms = []
        for name in value:
            if name not in names:
                self.fail(("arms", name), f"arms are called {', '.join(names)} in turn, not '{name}'")
        for name in names:
            item = value[name]
            if isinstance(item, str):
                arms.append(Arm(name, item))
                continue
            if not isinstance(item, dict):
                self.fail(("arms", name), f"wants a text of arguments or a table, not {item!r}")
            self.table(item, {"rev": str, "image": str, "args": str, "live": str}, ("arms", name))
            if "rev" in item and "image" in item:
                self.fail(("arms", name), "names both a rev and an image; one build an arm")
            if item.get("live", "off") not in LIVE:
                near = did_you_mean(item["live"], LIVE)
                self.fail(("arms", name, "live"), f"no view is called '{item['live']}'{near}")
            arms.append(Arm(name, item.get("args", ""), item.get("rev"), item.get("image"), item.get("live")))
        if any(arm.live for arm in arms):  # who does not say has none
            arms = [dataclasses.replace(arm, live=arm.live or "off") for arm in arms]
        return arms

    def read_axes(self, value):
        points = 1
        for key, values in value.items():
            if not isinstance(values, list) or not values:
                self.fail(("axes", key), f"wants a list of values, not {values!r}")
            if key.startswith("machine."):
                name = key.removeprefix("machine.")
                if name not in _MACHINE or name == "kind":
                    legal = [f"machine.{known}" for known in _MACHINE if known != "kind"]
                    self.fail(("axes", key), f"no axis is called '{key}'{did_you_mean(key, legal)}")
                for item in values:
                    self.axis_value(key, name, item)
            elif not all(_is(item, (str, int)) for item in values):
                self.fail(("axes", key), f"values are texts or whole numbers, not {values!r}")
            if len({str(item) for item in values}) != len(values):
                self.fail(("axes", key), f"names a value twice: {values!r}")
            points *= len(values)
        if points > MOST_POINTS:
            self.fail(("axes",), f"{points} combinations; at most {MOST_POINTS}")
        return value

    def axis_value(self, key, name, item):
        if not _is(item, _MACHINE[name]):
            self.fail(("axes", key), f"wants {_type_name(_MACHINE[name])}, not {item!r}")
        try:
            machine.check({**machine.DEFAULTS, name: item})
        except HayloftError as error:
            self.fail(("axes", key), str(error).partition(": ")[2])

    def read_published(self, name):
        if name is not None:
            rows = published_rows()
            if name not in rows:
                self.fail(("published",), f"no published row is called '{name}'{did_you_mean(name, rows)}")
        return name

    def read_expect(self, value, arms):
        from . import expect
        for key, rule in value.items():
            kind, colon, name = key.partition(":")
            if not colon or kind not in _EXPECT_KINDS or not name:
                near = did_you_mean(kind, _EXPECT_KINDS)
                self.fail(("expect", key), f"a key is test:NAME, counter:NAME, lock:CLASS.FIELD or figure:NAME@TEST{near}")
            self.expect_name(key, kind, name)
            if not isinstance(rule, str):
                self.fail(("expect", key), f'wants a rule such as "B < 0.5 * A", not {rule!r}')
            try:
                expect.parse_rule(rule, arms)
            except (HayloftError, ValueError) as error:
                self.fail(("expect", key), str(error))
        return value

    def expect_name(self, key, kind, name):
        base = ROOT / "base"
        if kind == "counter":
            names = {c.name for c in defs.parse_counters((base / "counters.def").read_text())}
            name = name.partition("@")[0]  # of one test
            if name not in names:
                self.fail(("expect", key), f"no counter is called '{name}'{did_you_mean(name, names)}")
        elif kind == "figure":
            if not all(name.partition("@")):
                self.fail(("expect", key), "a figure is one test's: figure:NAME@TEST")
        elif kind == "lock":
            names = [n for n, _ in defs.parse_lock_classes((base / "lockclass.def").read_text())]
            lock_class = name.partition(".")[0]
            if lock_class not in names:
                self.fail(("expect", key), f"no lock class is called '{lock_class}'{did_you_mean(lock_class, names)}")


def published_rows():
    path = ROOT / "experiments" / "published.toml"
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise HayloftError(f"{path}: cannot be read: {error}") from error


def find(name):
    """The path of an experiment file: as given, else the shipped one of that name."""
    path = pathlib.Path(name)
    if path.is_file():
        return path
    shipped = {file.stem: file for file in shipped_files()}
    if name in shipped:
        return shipped[name]
    if path.is_dir():
        raise HayloftError(f"{name}: is a folder; give an experiment file")
    near = did_you_mean(path.stem, shipped)
    raise HayloftError(f"{name}: no such experiment file{near}; ./hayloft experiments lists those shipped")


def shipped_files():
    folder = ROOT / "experiments"
    return sorted(path for path in folder.glob("*.toml") if path.stem != "published")


def load(path, settings=()):
    """An Experiment from a file; settings: (key, value) texts of --set, applied over it."""
    path = pathlib.Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HayloftError(f"{path}: cannot be read: {error}") from error
    return parse(text, path, settings)


def parse(text, path, settings=()):
    reader = _Reader(path, text)
    for key, value in settings:
        _apply_setting(reader, key, value)
    return reader.read(text)


def parse_setting(text):
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise HayloftError(f"--set {text}: wants key=value, such as machine.cpus=4 or kbench=1")
    return key, value


def _apply_setting(reader, key, value):
    """Changes reader.data as --set key=value asks: machine.KEY, a plain top-level key, or a knob."""
    number = int(value) if re.fullmatch(r"-?[0-9]+", value) else None
    if key.startswith("machine."):
        name = key.removeprefix("machine.")
        if name not in _MACHINE:
            legal = [f"machine.{known}" for known in _MACHINE]
            raise HayloftError(f"--set {key}: unknown key{did_you_mean(key, legal)}")
        table = reader.data.setdefault("machine", {})
        if isinstance(table, dict):
            table[name] = number if number is not None and name == "cpus" else value
    elif key in ("pairs", "retries", "minimum_effect"):
        try:
            reader.data[key] = float(value) if key == "minimum_effect" else int(value)
        except ValueError as error:
            raise HayloftError(f"--set {key}={value}: wants a number") from error
    elif key in ("title", "order", "scheme", "pace", "published", "boot"):
        reader.data[key] = value
        if key in ("order", "scheme"):  # whichever the file has
            reader.data.pop({"order": "scheme", "scheme": "order"}[key], None)
    else:
        knobs = defs.parse_knobs((ROOT / "base" / "knobs.def").read_text())
        if key not in knobs:
            legal = [*knobs.by_name, "pairs", "scheme", "order", "minimum_effect", "pace", "retries", "title", "boot",
                     *(f"machine.{known}" for known in _MACHINE)]
            raise HayloftError(f"--set {key}={value}: unknown key{did_you_mean(key, legal)}")
        words = [word for word in str(reader.data.get("boot", "")).split() if word.partition("=")[0] != key]
        reader.data["boot"] = " ".join([*words, f"{key}={value}"])


def check_arms(experiment, arm_knobs, hosted, cpus=None):
    """Checks every arm at every point against its image's knobs ({arm name: Knobs}). Fails on what no machine
    takes; returns {arm name: [Refusal]} of the arms that only this machine refuses."""
    left_out = {}
    for arm in experiment.arms:
        knobs = arm_knobs[arm.name]
        for words, key in ((experiment.boot, ("boot",)), (arm.args, ("arms", arm.name))):
            for refusal in knobs.check_line(words, hosted):
                if not refusal.machine:
                    experiment.fail(key, str(refusal))
                if key == ("boot",):
                    experiment.fail(key, f"{refusal}; leave it out or run on another machine")
                left_out.setdefault(arm.name, []).append(refusal)
        for key, values in experiment.axes.items():
            if key.startswith("machine."):
                continue
            for value in values:
                for refusal in knobs.check_line(f"{key}={value}", hosted):
                    experiment.fail(("axes", key), str(refusal))
        _check_twice(experiment, arm)
        if arm.name not in left_out:
            _check_conflicts(experiment, arm, knobs, cpus)
    return left_out


def _check_conflicts(experiment, arm, knobs, cpus):
    """What an arm's arguments say together, at each point; cpus: of the smallest machine among them, if known."""
    names = [key for key in experiment.axes if not key.startswith("machine.")]
    for values in itertools.product(*(experiment.axes[name] for name in names)):
        point = " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        for refusal in knobs.check_conflicts(f"{experiment.boot} {arm.args} {point}", cpus):
            experiment.fail(("arms", arm.name), str(refusal))


def _check_twice(experiment, arm):
    """A knob has one place: boot, an axis, or the arm."""
    places = {}
    for place, words in (("boot", experiment.boot.split()), (f"arms.{arm.name}", arm.args.split()),
                         ("axes", [key for key in experiment.axes if not key.startswith("machine.")])):
        for word in words:
            name = word.partition("=")[0]
            if places.setdefault(name, place) != place:
                key = ("axes", name) if place == "axes" else tuple(place.split("."))
                experiment.fail(key, f"{name} is already set by {places[name]}; set it in one place")
