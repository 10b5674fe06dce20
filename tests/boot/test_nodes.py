"""nodes=2 on both machines: CPUs and memory are dealt out, both nodes' counters move, all books balance; and more nodes than
CPUs, or than memory is enough for, are refused by name."""

import pytest

from booting import REFUSED

HOST = {'kind': 'host', 'variant': 'host'}
SCOPE_NODE, SCOPE_LOCK = 3, 2
MIB = 1 << 20


def last_values(done, scope, by_cpu=False):
    """{(counter, instance): sum over CPUs} of the last values told; by_cpu: {(counter, instance, cpu): value}."""
    names = {r.body['id']: r.body['name'] for r in done.all('schema')}
    values = {}
    for record in sorted(done.all('sample'), key=lambda r: r.time):
        for kind, instance, cpu, *pairs in record.body:
            if kind == scope:
                values.update({(names[i], instance, cpu): v for i, v in zip(pairs[::2], pairs[1::2])})
    if by_cpu:
        return values
    sums = {}
    for (name, instance, _), value in values.items():
        sums[name, instance] = sums.get((name, instance), 0) + value
    return sums


@pytest.mark.parametrize('machine', [{'kind': 'tcg'}, HOST], ids=['tcg', 'host'])
def test_both_nodes_are_used_and_balance(boot, machine):
    done = boot('nodes=2 front=sheaf kbench=2 kbench.ms=60 tests=maple,batch/64,malloc/65536,remote/64', cpus=2, memory='256M',
                timeout=120, **machine).sound()
    hello = done.one('hello')
    assert hello['knobs']['nodes'] == '2'
    assert [cpu[2] for cpu in hello['cpus']] == [0, 1]
    assert {r.body['name'] for r in done.all('object') if r.body['kind'] == 'node'} == {'node0', 'node1'}
    locks = {r.body['id']: (r.body['class'], r.body['name']) for r in done.all('object') if r.body['kind'] == 'lock'}
    assert {('page', 'node0'), ('page', 'node1'), ('cache', 'kmalloc-64'), ('barn', 'kmalloc-64')} <= set(locks.values())
    assert len(set(locks.values())) == len(locks), 'two ids of one name'
    checks = [c.body for c in done.all('check') if c.body['name'] != 'parallel']
    assert {'selfcheck', 'balance', 'validate'} <= {c['name'] for c in checks} and all(c['ok'] for c in checks)
    node = last_values(done, SCOPE_NODE)
    for number in (0, 1):
        assert node['page_alloc', number] > 0 and node['page_free', number] > 0
        assert node['pages_total', number] > 100 * MIB // 4096 // 2
        assert node['pages_free', number] <= node['pages_total', number]
    # the nodes' locks of one cache share an id: CPU 0 took node 0's, CPU 1 node 1's
    taken = {(*locks[number], cpu): value for (name, number, cpu), value in last_values(done, SCOPE_LOCK, True).items()
             if name == 'acquisitions' and number in locks}
    for lock in (('cache', 'kmalloc-64'), ('cache', 'kmalloc-256'), ('barn', 'kmalloc-64')):
        assert taken[*lock, 0] > 0 and taken[*lock, 1] > 0


@pytest.mark.parametrize('machine', [{'kind': 'tcg'}, HOST], ids=['tcg', 'host'])
@pytest.mark.parametrize('args, cpus', [('nodes=2', 1), ('nodes=3 maxcpus=2', 4)])
def test_more_nodes_than_cpus_are_refused(boot, machine, args, cpus):
    done = boot(f'kbench=0 {args}', cpus=cpus, timeout=60, **machine).sound('refused', REFUSED)
    refused = done.one('hello')['refused']
    assert [(argument, nearest) for argument, _, nearest in refused] == [('nodes>maxcpus', 'nodes=1')]
    assert 'CPU' in refused[0][1]


def test_the_smallest_memory_grows_with_the_nodes(boot):
    """8 MiB for each node beyond the first, and that is enough."""
    done = boot('kbench=0 nodes=4', cpus=4, memory='24M', timeout=60)
    assert done.exit_status == REFUSED, done.story()
    line, = [text for text in done.console.splitlines() if 'HAYLOFT-REFUSED' in text]
    have, need = (int(line.split(key + '=')[1].split()[0]) for key in ('have', 'need'))
    assert need == (8 + 4 // 2 + 3 * 8) * MIB > have
    memory = -(-(need + 24 * MIB - have) // MIB)  # what the firmware and the kernel take, and what was named
    boot('kbench=1 kbench.ms=20 tests=malloc/64 nodes=4 front=sheaf overcommit=1', cpus=4, memory=f'{memory}M',
         timeout=120).sound()
