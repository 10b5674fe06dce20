"""RCU on both machines: grace periods end by themselves, and a CPU that holds one up is named."""

import pytest


def counter(done, name):
    """A CPU counter's last known values, by CPU."""
    ids = {r.body['name']: r.body['id'] for r in done.all('schema')}
    found = {}
    for record in done.all('sample'):
        for scope, _, cpu, *pairs in record.body:
            if scope == 0:
                found.update({cpu: value for i, value in zip(pairs[::2], pairs[1::2]) if i == ids[name]})
    return found


@pytest.mark.parametrize('kind,idle', [('tcg', 'hlt'), ('tcg', 'poll'), ('host', None)])
def test_a_silent_cpu_is_named(boot, kind, idle):
    machine = {'kind': 'host', 'variant': 'host'} if kind == 'host' else {}
    done = boot('kbench=1 kbench.ms=20 tests=malloc/64 provoke=silent' + (f' idle={idle}' if idle else ''), cpus=3,
                timeout=60, **machine).sound()
    silent = [e.body for e in done.all('event') if e.body['kind'] == 'warning' and 'quiescent' in e.body['text']]
    assert [body['values']['cpu'] for body in silent] == [0], done.story()
    assert silent[0]['values']['ms'] >= 1000
    assert sum(counter(done, 'rcu_silent').values()) == 1
    assert sum(counter(done, 'rcu_grace_periods').values()) >= 1
    assert sum(counter(done, 'rcu_run').values()) == sum(counter(done, 'rcu_queued').values()) >= 2


def test_nobody_is_silent_otherwise(boot):
    done = boot('kbench=1 kbench.ms=50 tests=malloc/64,remote/64,xmalloc,yield', cpus=3, timeout=60).sound()
    assert not [e for e in done.all('event') if 'quiescent' in e.body['text']], done.story()
