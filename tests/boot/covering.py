"""A covering array over the knobs of knobs.def: rows in which each pair of legal values of any two knobs occurs.

Faults come from two settings that do not get along far more often than from three, and all pairs of some 25 knobs
fit into some 20 rows. The array derives from the list: a new knob, or a new value of an ENUM, enters by itself.

  levels   an ENUM's values; a number's smallest, default and largest; what this file says of a knob otherwise
  None     the knob is not named on the line: it matters where a CONFLICT asks whether it is
  rows     built greedily: a pair that is still missing is completed, first such that no CONFLICT holds (by
           trying, over the few knobs that conflicts name), then with whatever meets most missing pairs

Deliberately not here: triples, and values between the ends of a range.
"""

import itertools

from telemetry import ROOT, defs

# Knobs that some conflict asks of whether they are named at all: they need a row that leaves them out.
NAMED = {condition.name for conflict in defs.parse_knobs((ROOT / 'base' / 'knobs.def').read_text()).conflicts
         for condition in (*conflict.what, *conflict.unless) if condition.value is None and not condition.over}

# What the array does not take from the list, each with its reason.
LEVELS = {
    'kbench': ('0', '1'),  # more rounds are the same again
    'kbench.ms': (None, '1', '20'),  # a longer round is the same for longer
    'kbench.ops': (None, '0', '500'),
    'repeat': ('0',),  # 1 has no end of its own
    'provoke': ('none',),  # a planted fault is there to fail the boot
    'nonce': ('none', '0123456789abcdef'),  # the tool gives one to each boot that it archives
    'tests': ('malloc/64/solo', 'malloc/65536/all-cpus,batch/1024/free,remote/64/one-to-one,typed/node,larson'),
    'selfcheck': ('1',),  # every pair is to pass it
    'deadline': ('0', '60s', '86400000'),  # 0: never. The smallest other would end the boot
    'telemetry.budget': ('2000', '20000', '10000000'),  # the smallest takes minutes for the schema
    'nodes': ('1', '2'),  # as many as the machines of these tests have CPUs
    'pcp.limits': ('8/8/6/4/3/2', '1/1/1/1/1/1', '32/32/32/32/32/32'),
}


def levels_of(knob):
    found = _levels_named(knob)
    return (None, *found) if knob.name in NAMED and None not in found else found


def _levels_named(knob):
    if knob.name in LEVELS:
        return LEVELS[knob.name]
    if knob.type == 'ENUM':
        return tuple(value for value, _ in knob.values)
    if knob.type == 'TEXT':
        raise AssertionError(f'{knob.name} is free text: say in covering.py which texts stand for it')
    return tuple(dict.fromkeys((str(knob.minimum), knob.default, str(knob.maximum))))


def line(row):
    return ' '.join(f'{name}={value}' for name, value in row.items() if value is not None)


class Covering:
    """rows: of {knob: level}. pairs: ((knob, level), (knob, level)) that can be legal together. illegal: the rest."""

    def __init__(self, knobs, hosted):
        self.knobs = knobs
        self.levels = {knob.name: levels_of(knob) for knob in knobs
                       if knob.where == 'all' or (knob.where == 'host') == hosted}
        in_conflicts = [name for conflict in knobs.conflicts for condition in (*conflict.what, *conflict.unless)
                        for name in (condition.name, condition.over) if name]
        self.order = {name: number for number, name in enumerate(self.levels)}
        self.open = object()
        self.tables = [tuple([self._table(condition) for condition in side] for side in (conflict.what, conflict.unless))
                       for conflict in knobs.conflicts]
        # Who is in most conflicts is settled first, so that a dead end shows early.
        self.bound = sorted((name for name in self.levels if name in in_conflicts), key=in_conflicts.count, reverse=True)
        self.pairs, self.illegal = set(), set()
        for (a, b) in itertools.combinations(self.levels, 2):
            for pair in itertools.product(((a, x) for x in self.levels[a]), ((b, y) for y in self.levels[b])):
                (self.pairs if self.complete(dict(pair), set()) else self.illegal).add(pair)
        self.rows = self.build()

    def complete(self, fixed, missing):
        """fixed, with a level for every knob, such that nothing conflicts; None if that cannot be."""
        row = self._bound(dict(fixed), [name for name in self.bound if name not in fixed], missing)
        if row is not None:
            for name in self.levels:
                if name not in row:
                    row[name] = self._by_gain(row, name, missing)[0]
        return row

    def _bound(self, row, left, missing):
        if self._stuck(row):
            return None
        if not left:
            return row
        for level in self._by_gain(row, left[0], missing):
            found = self._bound({**row, left[0]: level}, left[1:], missing)
            if found is not None:
                return found
        return None

    def _stuck(self, row):
        """Whether a conflict holds all of whose knobs have their levels: nothing that is still open can lift it."""
        for what, unless in self.tables:
            if all(self._met(row, *table) for table in what) and not (unless and not any(
                    self._met(row, *table) is False for table in unless)):
                return True
        return False

    def _met(self, row, name, over, met):
        return met.get((row.get(name, self.open), row.get(over, self.open)) if over else row.get(name, self.open))

    def _table(self, condition):
        """(knob, "", {level: whether the condition holds}), or with the knob that it is compared with and pairs of
        levels; a knob of the other machine only has its default, and an open one nothing: it is neither True nor
        False."""
        knob = self.knobs[condition.name]
        if condition.over:
            other = self.knobs[condition.over]
            return knob.name, other.name, {
                (a, b): knob.number(a or knob.default) > other.number(b or other.default)
                for a in self.levels[knob.name] for b in self.levels[other.name]}

        def holds(level):
            if condition.value is None:
                return level is not None
            return knob.same(knob.default if level is None else level, condition.value) != condition.differs

        if condition.name not in self.levels:
            return condition.name, '', {self.open: holds(None)}
        return condition.name, '', {level: holds(level) for level in self.levels[condition.name]}

    def _by_gain(self, row, name, missing):
        """The levels of name, those first that meet most missing pairs."""
        if not missing:
            return self.levels[name]

        def gain(level):
            return sum(self.pair(name, level, other, value) in missing for other, value in row.items())
        return sorted(self.levels[name], key=gain, reverse=True)

    def pair(self, a, x, b, y):
        return ((a, x), (b, y)) if self.order[a] < self.order[b] else ((b, y), (a, x))

    def in_order(self, row):
        return {name: row[name] for name in self.levels}

    def build(self):
        missing, rows = set(self.pairs), []
        while missing:
            tries = sorted(missing, key=str)[:: max(1, len(missing) // 8)]
            candidates = [self.in_order(self.complete(dict(pair), missing)) for pair in tries]
            rows.append(max(candidates, key=lambda row: len(missing & covered(row))))
            missing -= covered(rows[-1])
        return rows


def covered(row):
    """The pairs that a row, in the order of the list, holds."""
    return set(itertools.combinations(row.items(), 2))
