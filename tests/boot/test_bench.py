"""What a boot measures: counts that agree with the allocator's own, on the CPUs that were asked for."""

import pytest

TESTS = 'malloc/64,malloc/4096,malloc/65536,yield/solo'


def results(done):
    names = {o.body['id']: o.body['name'] for o in done.all('object') if o.body['kind'] == 'test'}
    return [(names[r.body['test']], r.body) for r in done.all('bench') if r.body['phase'] == 'result']


@pytest.mark.parametrize('arm', [
    'front=none owner=lock stats.slab=global poison=free stats.large=global',
    'front=bounded owner=tag stats.slab=percpu poison=free stats.large=global',
    'front=bounded objstate=side lockstat=time pcp=off',
    'front=none pcp=on pcp.limits=1/1/1/1/1/1',
    'front=none objstate=off lockstat=off stats.slab=off stats.large=off',
    'front=bounded poison=full badfree=panic',
    'front=magazine mag.interval=5 stats.slab=global poison=free',
    'front=sheaf stats.slab=global poison=free',
    'front=sheaf objstate=side sheaf.cap=3 barn.full=1 barn.empty=0 lockstat=time',
])
def test_counted_is_claimed(boot, arm):
    done = boot(f'kbench=2 kbench.ms=40 tests={TESTS} {arm}', memory='1G', timeout=120).sound()
    found = results(done)
    assert {name for name, _ in found} == {'malloc/64/solo', 'malloc/64/all-cpus', 'malloc/4096/solo',
                                           'malloc/4096/all-cpus', 'malloc/65536/solo',
                                           'malloc/65536/all-cpus', 'yield/solo'}
    for name, body in found:
        assert body['counted'] == body['claimed'], name
        assert body['operations'] > 0 and body['cycles'] > 0, name
        assert body['operations'] == sum(cpu[2] for cpu in body['cpus']), name
        assert [cpu[0] for cpu in body['cpus']] == [cpu[1] for cpu in body['cpus']], 'a pinned thread moved'
        assert len(body['cpus']) == (2 if name.endswith('all-cpus') else 1), name
        if name.startswith('malloc'):
            assert body['claimed'][0] >= body['operations'], name
    assert {body['round'] for _, body in found} == {0, 1}
    # A busy host makes the probe for parallelism fail; that is no fault of the kernel's.
    assert all(check.body['ok'] for check in done.all('check') if check.body['name'] != 'parallel'), done.story()
    assert {check.body['name'] for check in done.all('check')} >= {'selfcheck', 'balance', 'validate', 'parallel'}
    # Nothing that the self-check left may lie in two CPUs' arrays: the first test would meet it in some boots.
    settled, = [check.body['values'] for check in done.all('check') if check.body['when'] == 'settled']
    assert (settled['front'], settled['barn'], settled['prefilled'], settled['rcu']) == (0, 0, 0, 0)
    assert done.lost() == {}, 'no sample may be lost'


@pytest.mark.parametrize('lock', ['tas', 'ticket', 'mcs'])
def test_locks(boot, lock):
    done = boot(f'kbench=1 kbench.ms=40 tests=malloc/64/all-cpus front=none lock={lock}').sound()
    assert done.one('hello')['knobs']['lock'] == lock
    assert results(done)


def test_a_test_that_does_not_exist_is_no_success(boot):
    done = boot('kbench=1 tests=maloc/64')
    assert done.exit_status != 33, done.story()


SHAPES = ('batch/64,batch/131072,remote/64,remote/65536,typed,pages/0,pages/5,larson,xmalloc,threadtest,mstress,'
          'cache-scratch,maple,open,rcu-bloat')
ALONE = {'batch/64/alloc', 'batch/64/free', 'batch/131072/alloc', 'batch/131072/free', 'typed/node', 'typed/dentry',
         'typed/inode', 'pages/0/solo', 'pages/0/all-cpus', 'pages/5/solo', 'pages/5/all-cpus', 'larson', 'threadtest',
         'mstress', 'cache-scratch', 'maple/solo', 'maple/all-cpus', 'maple/scattered/solo',
         'maple/scattered/all-cpus', 'open/solo', 'open/all-cpus'}
TOGETHER = {f'remote/{size}/{shape}' for size in (64, 65536)
            for shape in ('one-to-one', 'many-to-one', 'one-to-many')} | {'xmalloc', 'rcu-bloat/free', 'rcu-bloat/held'}


def sound_shapes(done, cpus):
    """All that hold of every workload: who ran, what was claimed, that nothing was kept."""
    found = dict(results(done))
    assert set(found) == ALONE | (TOGETHER if cpus > 1 else set())
    for name, body in found.items():
        assert body['counted'] == body['claimed'], name
        assert body['claimed'][0] == body['claimed'][1] >= body['operations'] > 0, name
        assert body['operations'] == sum(cpu[2] for cpu in body['cpus']), name
        assert [cpu[0] for cpu in body['cpus']] == [cpu[1] for cpu in body['cpus']], 'a pinned thread moved'
        assert all(0 < cpu[3] <= body['wall'] for cpu in body['cpus']), name
        ran = 1 if name.endswith('/solo') else 2 if name.endswith('/one-to-one') else cpus
        assert len(body['cpus']) == ran, name
    assert all(check.body['ok'] for check in done.all('check') if check.body['name'] != 'parallel'), done.story()
    return found


@pytest.mark.parametrize('kind,cpus,arm', [
    ('tcg', 1, 'front=bounded pcp=on'),
    ('tcg', 2, 'front=bounded pcp=off objstate=side stats.large=global'),
    ('tcg', 3, 'front=none pcp=on overcommit=1'),
    ('host', 1, 'front=none pcp=off objstate=off'),
    ('host', 2, 'front=bounded pcp=on poison=full'),
    ('host', 4, 'front=bounded pcp=on objstate=side overcommit=1'),
    ('tcg', 2, 'front=magazine'),
    ('host', 4, 'front=magazine mag.interval=5 objstate=side poison=full overcommit=1'),
    ('tcg', 2, 'front=sheaf'),
    ('host', 2, 'front=sheaf prefill.from=slab poison=full'),
    ('host', 4, 'front=sheaf barn.refill=swap sheaf.cap=5 barn.full=2 overcommit=1'),
])
def test_shapes(boot, kind, cpus, arm):
    machine = {'kind': 'host', 'variant': 'host'} if kind == 'host' else {}
    done = boot(f'kbench=1 kbench.ms=20 tests={SHAPES} {arm}', cpus=cpus, memory='256M', timeout=120, **machine).sound()
    found = sound_shapes(done, cpus)
    for half in ('alloc', 'free'):
        assert found[f'batch/64/{half}']['n'] == 10000
        n = found[f'batch/131072/{half}']['n']
        quarter = 256 * 1024 * 1024 // 4 // 131072 // cpus
        assert 0.8 * quarter < n <= quarter, 'a quarter of the memory that is there'
    for name in ('remote/64/one-to-many', 'remote/64/many-to-one') if cpus > 1 else ():
        idle = [cpu[2] == 0 for cpu in found[name]['cpus']]
        assert idle.count(False) == (1 if name.endswith('many') else cpus - 1), 'who allocates counts'
    skipped = {o.body['name'] for o in done.all('object') if o.body['kind'] == 'test' and o.body.get('skip')}
    assert skipped == (set() if cpus > 1 else TOGETHER)


def test_shapes_by_operations(boot):
    """Under kbench.ops a round is as long as it was asked to be, whatever size the workload's batches have."""
    done = boot(f'kbench=1 kbench.ops=1500 tests={SHAPES}', cpus=2, kind='host', variant='host').sound()
    for name, body in sound_shapes(done, 2).items():
        givers = 1 if name.endswith(('/solo', '/one-to-one')) or name.startswith(('remote/', 'rcu-bloat/')) else 2
        assert body['operations'] == 1500 * givers, name
