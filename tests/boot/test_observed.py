"""latency=on and matrix=on in a boot: every free has its cell, one call in so many has its bucket, and off is off."""

import pytest

OWN = ('remote/64,remote/65536,malloc/64,xmalloc')


def observed(done):
    names = {o.body['id']: o.body['name'] for o in done.all('object') if o.body['kind'] == 'test'}
    results = {(r.body['test'], r.body['round']): r.body for r in done.all('bench') if r.body['phase'] == 'result'}
    return names, results


@pytest.mark.parametrize('kind,arm', [
    ('host', 'front=bounded'), ('host', 'front=none pcp=off poison=full'), ('host', 'front=magazine mag.interval=20'),
    ('tcg', 'front=bounded stats.slab=global'), ('tcg', 'front=sheaf'),
])
def test_every_free_has_its_cell_and_one_in_so_many_its_bucket(boot, kind, arm):
    machine = {'kind': 'host', 'variant': 'host'} if kind == 'host' else {}
    done = boot(f'kbench=2 kbench.ms=20 tests={OWN} latency=on latency.every=7 matrix=on {arm}', cpus=2,
                memory='256M', timeout=180, **machine).sound()
    names, results = observed(done)
    assert len(results) == 2 * 9
    cells, samples = {}, {}
    for record in done.all('matrix'):
        key = record.body['test'], record.body['round']
        for made, n in record.body['from']:
            cells.setdefault(key, {})[made, record.body['cpu']] = n
    for record in done.all('latency'):
        body = record.body
        assert body['every'] == 7 and body['clock'] > 0 and body['about']
        samples[body['test'], body['round'], body['level'], body['call']] = sum(n for _, n in body['buckets'])
        assert body['max'] > 0
    for key, result in results.items():
        name, frees = names[key[0]], result['claimed'][1]
        assert sum(cells[key].values()) == frees, name
        crossed = sum(n for (made, freed), n in cells[key].items() if made != freed)
        if name.startswith('remote/'):
            assert crossed == frees, name
        elif name.startswith('malloc/'):
            assert crossed == 0, name
        else:
            assert crossed > 0, name
        level = 'front' if '65536' not in name else 'pages' if 'pcp=off' not in arm else 'buddy'
        for number, call in enumerate(('alloc', 'free')):
            expected = result['claimed'][number] / 7
            assert abs(samples[(*key, level, call)] - expected) <= 2 * 2 + 1, (name, level, call)


def test_off_is_off(boot):
    done = boot('kbench=1 kbench.ms=10 tests=malloc/64', kind='host', variant='host').sound()
    assert not done.all('latency') and not done.all('matrix')


@pytest.mark.parametrize('arguments,said', [
    ('matrix=on objstate=side', 'header'), ('latency.every=5', 'latency=on'), ('latency=on latency.every=0', '1'),
])
def test_refused(boot, arguments, said):
    done = boot(arguments, kind='host', variant='host')
    (argument, reason, nearest), = done.one('hello')['refused']
    assert said in reason + nearest
