"""Workloads that are about more than a time: what they tell of themselves is what happened to the allocator."""

import pytest

HOST = {'kind': 'host', 'variant': 'host'}


def figures(done):
    """By test, the last round's."""
    return {e.body['text']: e.body['values'] for e in done.all('event') if e.body['kind'] == 'figure'}


@pytest.mark.parametrize('kind', ['tcg', 'host'])
@pytest.mark.parametrize('source', ['slab', 'barn'])
def test_the_published_identities_of_the_barn(boot, kind, source):
    """With pages straight from the buddy every slab is a page: what the page allocator saw is what the slabs did."""
    done = boot(f'kbench=2 kbench.ms=60 tests=maple/solo front=sheaf pcp=off prefill.from={source}', cpus=2, memory='256M',
                timeout=60, **(HOST if kind == 'host' else {})).sound()
    sums = sums_of(done, 'maple/solo')
    assert sums['page_alloc'] + sums['page_free'] == sums['slab_alloc'] + sums['slab_free_empty'] + sums['slab_free_shrink']
    refused = sums['barn_refused_full'] + sums['barn_refused_rcu']
    assert sums['flush_objects'] == 32 * refused, 'each refused sheaf is full'
    # What left the slabs for sheaves and did not come back is in sheaves and on its way through RCU.
    assert abs(sums['refill_objects'] - sums['flush_objects']) <= 32 * 100
    if source == 'slab':
        assert refused > 10 and sums['refill_objects'] > 1000
    else:
        assert sums['prefill_from_barn'] > 1000
    held = figures(done)['maple/solo']
    assert held['slabs_held'] >= held['slabs_held_after_shrink'] >= 256 // 15


def sums_of(done, test):
    """Counters of a test's timed rounds, summed over all there is: end less begin."""
    names = {r.body['id']: r.body['name'] for r in done.all('schema')}
    number = next(o.body['id'] for o in done.all('object') if o.body['kind'] == 'test' and o.body['name'] == test)
    values, begin, sums = {}, {}, dict.fromkeys(names.values(), 0)
    for record in sorted((r for r in done.records if r.type in ('sample', 'bench')), key=lambda r: r.time):
        if record.type == 'sample':
            for scope, instance, cpu, *pairs in record.body:
                values.update({(scope, instance, cpu, i): v for i, v in zip(pairs[::2], pairs[1::2])})
        elif record.body['test'] == number and record.body['phase'] == 'begin':
            begin = dict(values)
        elif record.body['test'] == number and record.body['phase'] == 'end':
            for key, value in values.items():
                sums[names[key[3]]] += value - begin.get(key, 0)
    return sums
