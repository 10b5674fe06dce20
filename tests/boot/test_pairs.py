"""Every pair of legal knob values boots and passes the self-check; every contradiction that knobs.def declares is
refused by name. Both derive from the list (covering.py), so a new knob, value or conflict is tried by itself.

The hosted machine tries all rows, under tcg the first few do (the greedy construction puts the most pairs there) and
all of them under --long.
"""

import functools
import itertools

import pytest

import covering
from telemetry import ROOT, defs

KNOBS = defs.parse_knobs((ROOT / 'base' / 'knobs.def').read_text())
TCG_SAMPLE = 3


@functools.cache
def array(hosted):
    return covering.Covering(KNOBS, hosted)


def run_rows(boot, rows, **options):
    assert rows
    for row in rows:
        line = covering.line(row)
        done = boot(line, shared_line=row.get('telemetry.port') == 'com1', timeout=150, **options)
        try:
            done.sound()
            assert all(check.body['ok'] for check in done.all('check') if check.body['name'] != 'parallel')
            assert any(check.body['name'] == 'selfcheck' for check in done.all('check'))
            ran = [r for r in done.all('bench') if r.body['phase'] == 'result']
            assert bool(ran) == (row['kbench'] != '0')
        except AssertionError as error:
            raise AssertionError(f'{line}\n{error}') from error


@pytest.mark.parametrize('hosted', [True, False])
def test_the_array_holds_every_pair_and_nothing_contradictory(hosted):
    rows = array(hosted).rows
    met = set().union(*(itertools.combinations(row.items(), 2) for row in rows))
    illegal = set()
    for a, b in itertools.combinations([knob for knob in KNOBS if knob.name in rows[0]], 2):
        for x, y in itertools.product(covering.levels_of(a), covering.levels_of(b)):
            if ((a.name, x), (b.name, y)) not in met:
                illegal.add(((a.name, x), (b.name, y)))
    assert illegal == array(hosted).illegal
    assert not any(KNOBS.check_conflicts(covering.line(row)) for row in rows)
    assert not any(KNOBS.check_line(covering.line(row), hosted) for row in rows)
    assert {knob.name for knob in KNOBS if knob.where in ('all', 'host' if hosted else 'metal')} == set(rows[0])
    assert len(illegal) < len(met) / 10  # an exception: mostly the knobs of one front end with another's


def test_every_value_of_every_enum_is_in_the_array():
    """Nothing hides behind covering.LEVELS: it may thin out numbers and texts only."""
    assert not [knob.name for knob in KNOBS if knob.type == 'ENUM' and knob.name in covering.LEVELS]
    assert not set(covering.LEVELS) - set(KNOBS.by_name)


def test_every_pair_boots_hosted(boot):
    run_rows(boot, array(True).rows, kind='host', variant='host')


def test_the_first_rows_boot(boot):
    run_rows(boot, array(False).rows[:TCG_SAMPLE])


@pytest.mark.long
def test_every_pair_boots(boot):
    run_rows(boot, array(False).rows[TCG_SAMPLE:])


@pytest.mark.long
@pytest.mark.parametrize('variant', ['host-asan', 'host-tsan'])
def test_every_pair_boots_under_a_sanitizer(boot, variant):
    run_rows(boot, array(True).rows, kind='host', variant=variant)


# -- what is refused ------------------------------------------------------------------------------------------------


def arguments(conditions):
    """{knob: value} that make the conditions hold."""
    found = {}
    for condition in conditions:
        knob, values = KNOBS[condition.name], covering.levels_of(KNOBS[condition.name])
        if condition.over:
            found |= {knob.name: values[-1], condition.over: covering.levels_of(KNOBS[condition.over])[0]}
        elif condition.value is None:
            found.setdefault(knob.name, knob.default)
        elif condition.differs:
            found[knob.name] = next(v for v in values if v is not None and not knob.same(v, condition.value))
        else:
            found[knob.name] = condition.value
    return found


def refused_with(done):
    refused = done.sound('refused', 37).one('hello')['refused']
    assert done.all('bench') == []
    return {argument: (reason, nearest) for argument, reason, nearest in refused}


@pytest.mark.parametrize('conflict', KNOBS.conflicts, ids=lambda c: '_'.join(map(str, c.what)))
def test_a_contradiction_is_refused_by_name(boot, conflict):
    """Whatever the other knobs say, by the kernel and by the tool; and not where `unless` lifts it."""
    name, ours = ' '.join(map(str, conflict.what)), arguments(conflict.what)
    tried = 0
    for row in array(True).rows[::6]:
        merged = {**row, **{c.name: KNOBS[c.name].default for c in conflict.unless}, **ours}
        told = refused_with(boot(covering.line(merged), kind='host', variant='host'))
        assert told[name] == (conflict.why, conflict.nearest)
        assert name in [refusal.argument for refusal in KNOBS.check_conflicts(covering.line(merged))]
        tried += 1
    assert tried >= 3
    if conflict.unless:
        lifted = covering.line({**ours, **arguments(conflict.unless), 'kbench': '0'})
        boot(lifted, kind='host', variant='host').sound()
        assert not KNOBS.check_conflicts(lifted)


@pytest.mark.parametrize('conflict', KNOBS.conflicts, ids=lambda c: '_'.join(map(str, c.what)))
def test_following_the_advice_ends_the_contradiction(conflict):
    name = ' '.join(map(str, conflict.what))
    ours = arguments(conflict.what)
    knob, _, value = conflict.nearest.partition('=')
    if value:
        ours[knob] = value
    else:  # keep that one, drop the other
        ours = {knob: ours[knob]}
    assert name not in [refusal.argument for refusal in KNOBS.check_conflicts(covering.line(ours))]


def test_what_only_the_other_machine_has_is_refused_by_name(boot):
    for hosted, kind, variant in ((True, 'host', 'host'), (False, 'tcg', 'release')):
        foreign = [knob for knob in KNOBS if knob.where == ('metal' if hosted else 'host')]
        if not foreign:
            continue
        line = ' '.join(f'{knob.name}={covering.levels_of(knob)[-1]}' for knob in foreign)
        told = refused_with(boot(line, kind=kind, variant=variant))
        assert [argument.partition('=')[0] for argument in told] == [knob.name for knob in foreign]
