"""A planted fault either happens or is refused in words, on every machine: one that is ignored makes a test of it pass."""

import pytest
from booting import FAILED, OK, PANIC, REFUSED

ARGS = 'kbench=0 selfcheck=1 deadline=4s'
TWO = 'it needs a second CPU'
MACHINE = 'it needs a machine; this is a process'


def check_refused(done, fault, why):
    done.sound('refused', REFUSED)
    refused, = done.one('hello')['refused']
    assert refused[:2] == [f'provoke={fault}', why]
    assert f'provoke={fault}: {why}' in done.console
    assert done.one('hello')['knobs']['provoke'] == 'none'


def hosted(boot, fault, cpus):
    return boot(f'{ARGS} provoke={fault}', cpus=cpus, memory='32M', kind='host', variant='host', timeout=60)


@pytest.mark.parametrize('cpus', [1, 2])
@pytest.mark.parametrize('fault, status, says', [
    ('none', OK, ''),
    ('panic@0', PANIC, 'provoke=panic'),
    ('panic@last', PANIC, 'provoke=panic'),
    ('full@0', PANIC, 'provoke=full'),
    ('full@last', PANIC, 'provoke=full'),
    ('nested', PANIC, 'HAYLOFT-PANIC-IN-PANIC'),
    ('trap', PANIC, 'name=trap'),
    ('overflow', PANIC, 'name=stack_overflow'),
    ('early-panic', PANIC, 'provoke=early-panic'),
    ('early-alloc', OK, 'early-alloc: cpu0 allocated'),
    ('flood', OK, ''),
    ('hang', FAILED, 'HAYLOFT-DEADLINE'),
    ('hang-off', FAILED, 'HAYLOFT-DEADLINE'),
    ('badfree', FAILED, 'bad frees, where'),
    ('selfcheck', FAILED, 'does not hold what was written'),
    ('silent', OK, 'CPU 0 has passed no quiescent state'),
    ('short', OK, 'short, others busy'),
])
def test_hosted_it_happens(boot, fault, cpus, status, says):
    done = hosted(boot, fault, cpus)
    if cpus == 1 and fault in ('silent', 'short'):
        check_refused(done, fault, TWO)
        return
    assert done.exit_status == status, done.story()
    assert says in done.console, done.story()
    if fault == 'flood':
        assert done.lost()


@pytest.mark.parametrize('fault, why', [
    ('reset', MACHINE),
    ('absent-cpu', MACHINE),
    ('log-held', 'a process has no lock around its console'),
    ('panic@2', 'it names a CPU that does not run'),
    ('full@99999999999', 'it names a CPU that does not run'),
    ('panic@', 'there is no such fault'),
    ('panic', 'there is no such fault'),
    ('panic@1x', 'there is no such fault'),
    ('flod', 'there is no such fault'),
])
def test_hosted_it_is_refused(boot, fault, why):
    check_refused(hosted(boot, fault, 2), fault, why)


@pytest.mark.parametrize('fault, args, why', [
    ('log-held', 'maxcpus=1', TWO),
    ('silent', 'maxcpus=1', TWO),
    ('short', 'maxcpus=1', TWO),
    ('panic@1', 'maxcpus=1', 'it names a CPU that does not run'),
    ('absent-cpu', 'maxcpus=1', 'maxcpus=1 starts no other CPU, and so none that does not exist'),
])
def test_booted_it_is_refused(boot, fault, args, why):
    check_refused(boot(f'kbench=0 selfcheck=0 provoke={fault} {args}'), fault, why)


def test_no_cpu_can_be_absent_where_every_number_is_taken(boot):
    done = boot('kbench=0 selfcheck=0 deadline=0 provoke=absent-cpu maxcpus=2', cpus=64, timeout=120)
    check_refused(done, 'absent-cpu', 'all CPU numbers are taken, so there is none for a CPU that does not exist')
