"""Memory that other CPUs hold, busy ones and halted ones, is had back before a call says that there is none; and a test
for which there is none all the same is skipped with its figures, and the others run."""

import re

import pytest
from telemetry.digest import digest_boot
from test_bench import results
from test_rcu import counter

SAID = re.compile(r'short, others (busy|idle): (\d+) pages taken, (\d+) objects held before, 0 after')


@pytest.mark.parametrize('kind,args', [
    ('tcg', ''), ('tcg', 'front=sheaf pcp=off'), ('tcg', 'front=magazine idle=poll'),
    ('host', ''), ('host', 'front=sheaf'), ('host', 'front=magazine pcp=off')])
def test_shortage_reaches_other_cpus(boot, kind, args):
    machine = {'kind': 'host', 'variant': 'host'} if kind == 'host' else {'memory': '64M'}
    done = boot(f'provoke=short kbench=1 kbench.ms=20 tests=malloc/64 {args}', cpus=3, timeout=120, **machine).sound()
    said = SAID.findall(done.console)
    assert [when for when, _, _ in said] == ['busy', 'idle'], done.story()
    assert all(int(pages) > 1000 and int(held) > 100 for _, pages, held in said), said
    asked, served, late = (counter(done, f'drain_{name}') for name in ('asked', 'served', 'timeout'))
    assert asked[0] >= 2
    assert served[1] >= 2 and served[2] >= 2, served
    assert sum(late.values()) == 0, late


# Each ring may hold 16 MiB. Where seven give and one takes they fill up, on however many cores.
SHORT = 'remote/65536/many-to-one'
MAYBE = {SHORT, 'remote/65536/one-to-many', 'remote/65536/one-to-one'}


@pytest.mark.parametrize('kind, memory, ms', [('tcg', '64M', 100), ('host', '24M', 10)])
def test_a_test_that_is_short_is_skipped_and_the_others_run(boot, kind, memory, ms):
    machine = {'kind': 'host', 'variant': 'host'} if kind == 'host' else {}
    done = boot(f'kbench=2 kbench.ms={ms} tests=remote/*,xmalloc* overcommit=1 deadline=0', cpus=8, memory=memory,
                timeout=400, **machine).sound()
    told = {r.body['name']: r.body for r in done.all('object') if 'shortage' in r.body}
    assert SHORT in told and set(told) <= MAYBE, done.story()
    ran = {name for name, _ in results(done)}
    assert ran >= {'remote/4096/one-to-many', 'xmalloc', 'remote/64/many-to-one'}  # before and after
    kept = digest_boot(done.folder)
    for name, body in told.items():
        figures = body['shortage']
        assert figures['asked'] == 65536 and figures['held'] <= figures['had'] < 64 << 20
        assert figures['held'] > figures['had'] - (4 << 20), 'there was memory left'
        assert f"(wanted 65536 bytes on top of {figures['held'] >> 10} KiB, had {figures['had'] >> 10} KiB)" in body['skip']
        assert f'skipped: {name}: {body["skip"]}' in done.console
    # Two rounds of each of the others; none of these, whichever round they were short in.
    names = {o.body['name'] for o in done.all('object') if o.body['kind'] == 'test'}
    assert {test['name']: len(test['rounds']) for test in kept['tests']} == dict.fromkeys(names - set(told), 2)
    assert {entry['name'] for entry in kept['skipped']} == set(told)
