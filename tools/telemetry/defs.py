"""Parses the text of the project's .def lists: knobs, counters, lock classes.

The lists are the only place where a knob, counter or lock gets its name; this module hard-codes none.
One entry a line, NAME(argument, "text", …), so that the C preprocessor and this parser read the same
file. The parser refuses what it does not understand: a list that is read half would let a typing error
in an arm pass as legal.
"""

import dataclasses
import re

from .errors import HayloftError, nearest

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_ENTRY = re.compile(r"^([A-Z_]+)\((.*)\)$")
_ARGUMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s][^",]*?))\s*(,|$)')
_NUMBER = re.compile(r"^([0-9]+)([KMGs]?)$")
TYPES = ("ENUM", "UINT", "TEXT")
PLACES = ("all", "metal", "host")
CPU_LIMIT = "maxcpus"  # the one knob that a machine may cut: no more CPUs start than it has
_SUFFIX = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "s": 1000}


@dataclasses.dataclass(frozen=True)
class Knob:
    ident: str
    name: str
    type: str  # ENUM, UINT or TEXT
    minimum: int
    maximum: int
    default: str
    where: str  # all, metal or host
    doc: str
    values: tuple = ()  # (value, doc) of an ENUM

    def number(self, text):
        """The stored value of a UINT's text, or None where the text is no number."""
        found = _NUMBER.match(text)
        return int(found[1]) * _SUFFIX[found[2]] if found else None

    def range_text(self):
        if self.type == "ENUM":
            return "|".join(value for value, _ in self.values)
        if self.type == "UINT":
            return f"{self.minimum}..{self.maximum}"
        return f"text, at most {self.maximum} bytes"

    def same(self, left, right):
        """True if two texts mean the same value of this knob."""
        if self.type == "UINT" and self.number(left) is not None:
            return self.number(left) == self.number(right)
        return left == right


@dataclasses.dataclass(frozen=True)
class Condition:
    """NAME=VALUE, NAME!=VALUE, or (value None) NAME: it is named on the line."""

    name: str
    value: str | None = None
    differs: bool = False
    over: str = ""  # the knob whose value this one's must exceed

    def __str__(self):
        if self.over:
            return f"{self.name}>{self.over}"
        return self.name if self.value is None else f"{self.name}{'!=' if self.differs else '='}{self.value}"


@dataclasses.dataclass(frozen=True)
class Conflict:
    """Arguments that contradict each other: all of what holds, and not all of unless."""

    what: tuple
    unless: tuple
    nearest: str
    why: str


@dataclasses.dataclass(frozen=True)
class Refusal:
    """One argument that a kernel would refuse: machine is True if only this machine does."""

    argument: str
    reason: str
    nearest: str = ""
    machine: bool = False

    def __str__(self):
        near = f" (nearest legal name: {self.nearest})" if self.nearest else ""
        return f"{self.argument}: {self.reason}{near}"


@dataclasses.dataclass(frozen=True)
class Counter:
    scope: str
    name: str
    unit: str
    kind: str
    panel: str
    doc: str
    formula: str = ""


class Knobs:
    """The knobs of one image, in the order of its list."""

    def __init__(self, knobs, conflicts=()):
        self.by_name = {knob.name: knob for knob in knobs}
        self.conflicts = tuple(conflicts)

    def __iter__(self):
        return iter(self.by_name.values())

    def __contains__(self, name):
        return name in self.by_name

    def __getitem__(self, name):
        return self.by_name[name]

    def check_value(self, name, value):
        """Why NAME=value is illegal for any machine: a Refusal, or None."""
        argument = f"{name}={value}"
        knob = self.by_name.get(name)
        if knob is None:
            return Refusal(argument, f"unknown knob '{name}'", nearest(name, self.by_name))
        if knob.type == "ENUM":
            legal = [word for word, _ in knob.values]
            if value not in legal:
                near = nearest(value, legal)
                reason = f"{name} has no value '{value}', only {', '.join(legal)}"
                return Refusal(argument, reason, f"{name}={near}" if near else "")
        elif knob.type == "UINT":
            number = knob.number(value)
            if number is None:
                return Refusal(argument, f"{name} wants a number, not '{value}'")
            if not knob.minimum <= number <= knob.maximum:
                return Refusal(argument, f"{name} must be {knob.range_text()}, not {number}")
        elif len(value.encode()) > knob.maximum:
            return Refusal(argument, f"{name} is longer than {knob.maximum} bytes")
        return None

    def check_line(self, line, hosted=False):
        """Everything that is wrong with an argument line: a list of Refusals, empty if legal."""
        wrong, seen = [], set()
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals:
                near = nearest(name, self.by_name)
                wrong.append(Refusal(word, "an argument is NAME=VALUE", f"{near}=…" if near else ""))
                continue
            if name in seen:
                wrong.append(Refusal(word, f"{name} is named twice"))
                continue
            seen.add(name)
            refusal = self.check_value(name, value)
            if refusal is None and name == "tests":
                refusal = check_tests(value)
            if refusal is None:
                where = self.by_name[name].where
                if where != "all" and (where == "metal") == hosted:
                    kind = "the hosted machine" if hosted else "a booted machine"
                    refusal = Refusal(word, f"{name} means nothing on {kind}", machine=True)
            if refusal:
                wrong.append(refusal)
        return wrong


    def check_conflicts(self, line, cpus=None):
        """The contradictions in a whole argument line whose words are legal, on so many CPUs if that is known: a
        list of Refusals."""
        named = dict(word.partition("=")[::2] for word in line.split())

        def number(name):
            knob = self.by_name[name]
            value = knob.number(named.get(name, knob.default))
            return min(value, cpus) if cpus and name == CPU_LIMIT else value

        def holds(condition):
            if condition.over:
                return number(condition.name) > number(condition.over)
            if condition.value is None:
                return condition.name in named
            knob = self.by_name[condition.name]
            return knob.same(named.get(knob.name, knob.default), condition.value) != condition.differs

        return [Refusal(" ".join(map(str, conflict.what)), conflict.why, conflict.nearest)
                for conflict in self.conflicts if all(map(holds, conflict.what))
                and not (conflict.unless and all(map(holds, conflict.unless)))]


def check_tests(patterns):
    """A tests= value: names split by commas, '*' anywhere. Which names exist only the kernel knows."""
    for pattern in patterns.split(","):
        if not pattern:
            return Refusal(f"tests={patterns}", "an empty name between commas matches nothing")
        if not re.fullmatch(r"[A-Za-z0-9_./*-]+", pattern):
            reason = f"'{pattern}' is no test pattern: letters, digits, '/', '-', '.', '_' and '*' only"
            return Refusal(f"tests={patterns}", reason)
    return None


def _entries(text, source, names):
    """Yields (macro, [arguments]) of each entry; HayloftError names the line it cannot read."""
    blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", "", found[0]), text)
    for number, line in enumerate(blank.split("\n"), 1):
        line = line.strip()
        if not line:
            continue
        entry = _ENTRY.match(line)
        if not entry or entry[1] not in names:
            raise HayloftError(f"{source}:{number}: not an entry of this list: '{line[:60]}'")
        rest, arguments = entry[2], []
        while rest:
            found = _ARGUMENT.match(rest)
            if not found:
                raise HayloftError(f"{source}:{number}: cannot read the arguments at '{rest[:40]}'")
            text_argument = found[1] is not None
            arguments.append(found[1].replace('\\"', '"') if text_argument else found[2])
            rest = rest[found.end():]
        if len(arguments) != names[entry[1]]:
            raise HayloftError(
                f"{source}:{number}: {entry[1]} takes {names[entry[1]]} arguments, not {len(arguments)}")
        yield entry[1], arguments


def _conditions(text, source):
    found = []
    for word in text.split():
        name, greater, over = word.partition(">")
        if greater:
            found.append(Condition(name, None, over=over))
            continue
        name, equals, value = word.partition("=")
        found.append(Condition(name.removesuffix("!"), value if equals else None, name.endswith("!")))
    if any(not condition.name or condition.value == "" for condition in found):
        raise HayloftError(f"{source}: CONFLICT: '{text}' is no list of NAME, NAME=VALUE, NAME!=VALUE and NAME>NAME")
    return tuple(found)


def _check_conditions(knobs, conflict, source):
    for condition in (*conflict.what, *conflict.unless):
        if condition.over and any(name not in knobs or knobs[name].type != "UINT"
                                  for name in (condition.name, condition.over)):
            raise HayloftError(f"{source}: CONFLICT: '{condition}': two numbers are to be compared")
        refusal = knobs.check_value(condition.name, condition.value) if condition.value is not None else None
        if condition.name not in knobs or refusal:
            raise HayloftError(f"{source}: CONFLICT: '{condition}': {refusal.reason if refusal else 'no such knob'}")


def parse_knobs(text, source="knobs.def"):
    knobs, conflicts = [], []
    for macro, arguments in _entries(text, source, {"KNOB": 8, "VALUE": 3, "CONFLICT": 4}):
        if macro == "CONFLICT":
            what, unless, near, why = arguments
            conflicts.append(Conflict(_conditions(what, source), _conditions(unless, source), near, why))
        elif macro == "KNOB":
            ident, name, kind, low, high, default, where, doc = arguments
            if not (low + high).isdecimal() or kind not in TYPES or where not in PLACES:
                raise HayloftError(f"{source}: KNOB({ident}): wants a type, two whole numbers and a place")
            knobs.append(Knob(ident, name, kind, int(low), int(high), default, where, doc))
        elif not knobs or knobs[-1].ident != arguments[0]:
            raise HayloftError(f"{source}: VALUE({arguments[0]}, {arguments[1]}) follows no such KNOB")
        else:
            last = knobs[-1]
            knobs[-1] = dataclasses.replace(last, values=last.values + (tuple(arguments[1:]),))
    if not knobs:
        raise HayloftError(f"{source}: no knob in it; is this image a Hayloft kernel?")
    found = Knobs(knobs, conflicts)
    for conflict in conflicts:
        _check_conditions(found, conflict, source)
    return found


def parse_counters(text, source="counters.def"):
    counters = []
    for macro, arguments in _entries(text, source, {"COUNTER": 6, "DERIVED": 6}):
        if macro == "COUNTER":
            counters.append(Counter(*arguments))
        else:
            scope, name, unit, panel, formula, doc = arguments
            counters.append(Counter(scope, name, unit, "derived", panel, doc, formula))
    return counters


def parse_lock_classes(text, source="lockclass.def"):
    return [tuple(arguments) for _, arguments in _entries(text, source, {"LOCKCLASS": 2})]
