"""Memory that other CPUs hold, busy ones and halted ones, is had back before a call says that there is none."""

import re

import pytest
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
