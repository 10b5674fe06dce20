"""The same kernel as a process: every arm, under the sanitizers too, with the whole self-check."""

import pytest

ARMS = [
    'front=none owner=lock stats.slab=global stats.large=global',
    'front=bounded owner=tag stats.slab=percpu poison=free',
    'front=bounded objstate=side poison=full lockstat=time',
    'front=none objstate=off',
    'front=bounded badfree=panic lock=mcs',
]


@pytest.mark.parametrize('variant', ['host', 'host-asan', 'host-tsan'])
@pytest.mark.parametrize('arm', ARMS)
def test_arm(boot, variant, arm):
    done = boot(f'kbench=1 kbench.ms=30 tests=malloc/64,malloc/4096,malloc/65536 {arm}', kind='host',
                variant=variant, cpus=2, memory='256M', timeout=120).sound()
    hello = done.one('hello')
    assert hello['platform'] == 'host'
    assert hello['variant'] == variant
    assert all(check.body['ok'] for check in done.all('check') if check.body['name'] != 'parallel'), done.story()
    results = [r.body for r in done.all('bench') if r.body['phase'] == 'result']
    assert len(results) == 6
    assert all(body['counted'] == body['claimed'] for body in results)


def test_what_means_nothing_here_is_refused(boot):
    done = boot('kbench=0 idle=poll', kind='host', variant='host').sound('refused', 37)
    assert 'idle' in done.one('hello')['refused'][0][0]


@pytest.mark.parametrize('typed, nearest', [
    ('maloc/64', 'malloc/64'), ('malloc/64/slo', 'malloc/64/solo'), ('mallo', 'malloc'), ('yeild', 'yield'),
    ('malloc/65', 'malloc/64'),
])
def test_a_test_that_does_not_exist_is_refused_with_the_nearest_pattern(boot, typed, nearest):
    done = boot(f'kbench=1 tests={typed}', kind='host', variant='host').sound('refused', 37)
    assert [entry[0] for entry in done.one('hello')['refused']] == [f'tests={typed}']
    assert done.one('hello')['refused'][0][2] == nearest


def test_maxcpus_leaves_the_rest_alone(boot):
    done = boot('kbench=1 kbench.ms=20 tests=malloc/64 maxcpus=1', kind='host', variant='host', cpus=2).sound()
    assert len(done.one('hello')['cpus']) == 1
    assert all(len(r.body['cpus']) == 1 for r in done.all('bench') if r.body['phase'] == 'result')


def test_the_scheduler_is_skipped_and_says_so(boot):
    done = boot('kbench=1 kbench.ms=20 tests=yield/solo,malloc/64/solo', kind='host', variant='host').sound()
    tests = {o.body['name']: o.body for o in done.all('object') if o.body['kind'] == 'test'}
    assert tests['yield/solo'].get('skip')
    assert not tests['malloc/64/solo'].get('skip')
