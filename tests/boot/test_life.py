"""Caches are destroyed and made again, of another shape, while the other CPUs are short of memory and so visit them:
none is said to be busy, no object changes, no page is lost (kernel/remake.c, docs/RACES.md 2.5)."""

import os
import re

import pytest

SAID = re.compile(r'remake: (\d+) rounds, (\d+) objects, (\d+) shortages elsewhere')
ROUNDS = 30000 if os.environ.get('HAYLOFT_LONG') else 3000


@pytest.mark.parametrize('front', ['none', 'bounded', 'magazine', 'sheaf'])
def test_caches_come_and_go_while_memory_is_short(boot, front):
    done = boot(f'kbench=0 front={front} provoke=remake@{ROUNDS}', cpus=3, memory='24M',
                timeout=900 if ROUNDS > 1000 else 120).sound()
    said = SAID.findall(done.console)
    assert len(said) == 1, done.story()
    rounds, objects, shortages = map(int, said[0])
    assert rounds == ROUNDS
    assert objects > rounds and shortages > 10, said
