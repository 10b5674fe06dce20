"""Workloads that are about more than a time: what they tell of themselves is what happened to the allocator."""

import collections

import pytest
from test_bench import results

SCOPE_CACHE = 1
HOST = {'kind': 'host', 'variant': 'host'}


def figures(done):
    """By test, the last round's."""
    return {e.body['text']: e.body['values'] for e in done.all('event') if e.body['kind'] == 'figure'}


def series(done, name, cache):
    """A gauge of one cache over time, as its samples tell it."""
    number = next(r.body['id'] for r in done.all('schema') if r.body['name'] == name)
    caches = {o.body['id'] for o in done.all('object') if o.body['kind'] == 'cache' and o.body['name'] == cache}
    found = []
    for record in done.all('sample'):
        for scope, instance, _, *pairs in record.body:
            if scope == SCOPE_CACHE and instance in caches:
                found += [value for i, value in zip(pairs[::2], pairs[1::2]) if i == number]
    return found


@pytest.mark.parametrize('kind,arm', [('tcg', 'front=bounded'), ('tcg', 'front=sheaf'), ('host', 'front=bounded'),
                                      ('host', 'front=sheaf'), ('host', 'front=magazine'), ('host', 'front=none')])
def test_a_silent_cpu_bloats_memory_and_it_comes_back(boot, kind, arm):
    done = boot(f'kbench=1 kbench.ms=2200 tests=rcu-bloat {arm}', cpus=2, memory='256M', timeout=120,
                **(HOST if kind == 'host' else {})).sound()
    told = figures(done)
    held, free = told['rcu-bloat/held'], told['rcu-bloat/free']
    assert held['backlog_peak_objects'] > 10000, done.story()
    if kind == 'host':  # a vCPU that the host stops holds up grace periods too, a hosted CPU does not
        assert held['backlog_peak_objects'] > 5 * free['backlog_peak_objects'], done.story()
    assert held['slabs_at_peak'] >= held['backlog_peak_objects'] // 64 > 0
    assert held['fall_us'] > 0, 'the backlog did not fall while the others went on'
    for figure in (held, free):
        assert figure['backlog_left_objects'] == 0
        assert figure['slabs_held_after_shrink'] == 0
    # What came back lies in slabs, which go at once but for a few; a depot keeps it until it is shrunk or reaped.
    assert held['slabs_held'] <= held['slabs_at_peak'] // (1 if 'magazine' in arm else 10)
    # It is told while it lasts: the CPU by name, the backlog in the samples.
    silent = [e.body for e in done.all('event') if e.body['kind'] == 'warning' and 'quiescent' in e.body['text']]
    assert [body['values']['cpu'] for body in silent] == [1] and held['named_silent'] == 1, done.story()
    seen = series(done, 'rcu_objects', 'bench-bloat')
    assert max(seen) > held['backlog_peak_objects'] // 4 and seen[-1] < max(seen) // 10, seen


@pytest.mark.parametrize('ops', [3000, 200000])
def test_the_reader_of_a_counted_round_lets_go(boot, ops):
    """Under kbench.ops it is done when the others have done half, or stand still for want of memory."""
    done = boot(f'kbench=1 kbench.ops={ops} tests=rcu-bloat front=sheaf', cpus=2, memory='16M', timeout=60, **HOST).sound()
    assert {name: body['operations'] for name, body in results(done)} == {'rcu-bloat/free': ops, 'rcu-bloat/held': ops}
    held = figures(done)['rcu-bloat/held']
    assert held['backlog_peak_objects'] > min(ops // 4, 20000)
    assert (held['stood_still_us'] > 0) == (ops == 200000)


@pytest.mark.parametrize('arm', ['front=bounded', 'front=sheaf', 'front=magazine'])
def test_no_sampler_reads_a_cache_that_is_made_again(boot, arm):
    """Rounds make caches under the same names again, while a timer samples all that are there."""
    done = boot(f'kbench=2 kbench.ms=60 tests=rcu-bloat,maple,open,typed telemetry.hz=50 {arm}', kind='host',
                variant='host-tsan', cpus=2, memory='128M', timeout=120).sound()
    assert len(results(done)) == 2 * 11


def test_one_cpu_has_nobody_to_hold_it_up(boot):
    done = boot('kbench=1 kbench.ms=20 tests=rcu-bloat,open', cpus=1, **HOST).sound()
    assert {name for name, _ in results(done)} == {'open/solo', 'open/all-cpus'}


@pytest.mark.parametrize('kind', ['tcg', 'host'])
@pytest.mark.parametrize('source', ['slab', 'barn'])
def test_the_published_identities_of_the_barn(boot, kind, source):
    """With pages straight from the buddy, what the page allocator saw is what the slabs did: those that sheaves lie in too,
    which are two pages each."""
    done = boot(f'kbench=2 kbench.ms=60 tests=maple/solo front=sheaf pcp=off prefill.from={source}', cpus=2, memory='256M',
                timeout=60, **(HOST if kind == 'host' else {})).sound()
    sums = sums_of(done, 'maple/solo')
    assert sums['page_alloc'] + sums['page_free'] == slab_pages(done, 'maple/solo')
    refused = sums['barn_refused_full'] + sums['barn_refused_rcu']
    assert sums['flush_objects'] == 32 * refused, 'each refused sheaf is full'
    # What left the slabs for sheaves and did not come back is in sheaves or on its way through RCU.
    assert sums['refill_objects'] - sums['flush_objects'] == sum(
        sums[f'{where}_objects'] for where in ('front', 'barn', 'prefilled', 'rcu'))
    if source == 'slab':
        assert refused > 10 and sums['refill_objects'] > 1000
    else:
        assert sums['prefill_from_barn'] > 1000
    held = figures(done)['maple/solo']
    assert held['slabs_held'] >= held['slabs_held_after_shrink'] >= 256 // 15


def slab_pages(done, test):
    """Pages of the slabs that were made or given back in a test's timed rounds."""
    pages = {o.body['id']: o.body['slab'] // 4096 for o in done.all('object') if o.body['kind'] == 'cache'}
    return sum(pages[instance] * count for (scope, instance, name), count in instances_of(done, test).items()
               if scope == SCOPE_CACHE and name in ('slab_alloc', 'slab_free_empty', 'slab_free_shrink'))


def sums_of(done, test):
    sums = dict.fromkeys((r.body['name'] for r in done.all('schema')), 0)
    for (_, _, name), count in instances_of(done, test).items():
        sums[name] += count
    return sums


def instances_of(done, test):
    """{(scope, instance, counter): count} of a test's timed rounds: end less begin. Gauges are the boot's own stream's."""
    names = {r.body['id']: r.body['name'] for r in done.all('schema')}
    gauges = {r.body['id'] for r in done.all('schema') if r.body['kind'] == 'gauge'}
    number = next(o.body['id'] for o in done.all('object') if o.body['kind'] == 'test' and o.body['name'] == test)
    values, begin, sums = {}, {}, collections.Counter()
    for record in sorted((r for r in done.records if r.type in ('sample', 'bench')), key=lambda r: r.time):
        if record.type == 'sample':
            for scope, instance, cpu, *pairs in record.body:
                values.update({(scope, instance, cpu, i): v for i, v in zip(pairs[::2], pairs[1::2])
                               if record.stream == 255 or i not in gauges})
        elif record.body['test'] == number and record.body['phase'] == 'begin':
            begin = dict(values)
        elif record.body['test'] == number and record.body['phase'] == 'end':
            for key, value in values.items():
                sums[key[0], key[1], names[key[3]]] += value - begin.get(key, 0)
    return sums
