"""A kernel that goes wrong says so, from any CPU, with its own exit status; silence is told apart from success."""

import pytest

import quiet
from booting import FAILED, PANIC


@pytest.mark.parametrize('where, cpu', [('0', 0), ('last', 2)])
def test_panic(boot, where, cpu):
    done = boot(f'kbench=0 selfcheck=0 provoke=panic@{where}', cpus=3)
    assert done.exit_status == PANIC, done.story()
    assert done.all('bye') == []
    panic = done.one('panic')
    assert panic['name'] == 'provoked'
    assert panic['cpu'] == cpu
    assert panic['file'] and panic['line'] > 0
    symbols = [symbol for _, symbol, _ in panic['backtrace']]
    assert len(symbols) >= 2 and all(symbols[:2]), f'no symbols: {panic["backtrace"]}'
    assert {other for other, _ in panic['others']} == {0, 1, 2} - {cpu}, 'the others were not stopped'
    line = [text for text in done.console.splitlines() if 'HAYLOFT-PANIC' in text]
    assert len(line) == 1 and 'provoked' in line[0]
    # A panic may cut the frame that was on its way; nothing more than that one may be damaged.
    assert len([f for f in done.faults if f.kind == 'damage']) <= 1, done.story()


def test_reset_is_not_success(boot):
    """A triple fault ends QEMU with status 0: only a bye says that a boot went well."""
    done = boot('kbench=0 selfcheck=0 provoke=reset')
    assert done.exit_status == 0, done.story()
    assert done.all('bye') == []


def test_trap_carries_registers(boot):
    done = boot('kbench=0 selfcheck=0 provoke=trap')
    assert done.exit_status == PANIC, done.story()
    panic = done.one('panic')
    assert panic['name'] == 'trap'
    assert {'rip', 'rsp', 'rax'} <= {name.lower() for name in panic['registers']}


def test_stack_overflow_has_a_name(boot):
    done = boot('kbench=0 selfcheck=0 provoke=overflow')
    assert done.exit_status == PANIC, done.story()
    panic = done.one('panic')
    assert panic['name'] in ('stack_overflow', 'double_fault')
    assert len(panic['backtrace']) + panic['left_out']['frames'] >= 24, 'what its record has no room for is counted'
    assert 'callers beyond these 24 are not told' in done.console


def test_panic_inside_a_panic_ends_the_machine(boot):
    done = boot('kbench=0 selfcheck=0 provoke=nested', timeout=30)
    assert done.exit_status == PANIC, done.story()


@pytest.mark.parametrize('how', ['hang', 'hang-off'])
def test_hang_meets_the_kernels_own_deadline(boot, how):
    done = boot(f'kbench=0 selfcheck=0 deadline={quiet.ms(4)} provoke={how}', timeout=40)
    assert not done.timed_out, done.story()
    assert done.exit_status in (PANIC, FAILED), done.story()
    outcomes = [bye.body['outcome'] for bye in done.all('bye')]
    assert outcomes == ['deadline'] or done.one('panic')['name'] == 'deadline', done.story()


def test_one_bad_free_too_many_fails_the_boot(boot):
    done = boot('kbench=0 selfcheck=1 provoke=badfree').sound('self-check', FAILED)
    assert any(event.body['kind'] == 'badfree' for event in done.all('event')), done.story()


def test_bad_free_can_be_fatal(boot):
    done = boot('kbench=0 selfcheck=1 badfree=panic provoke=badfree')
    assert done.exit_status == PANIC, done.story()
    assert done.one('panic')['name'] == 'bad_free'


def test_failed_selfcheck_fails_the_boot(boot):
    done = boot('kbench=0 selfcheck=1 provoke=selfcheck').sound('self-check', FAILED)
    assert any(not check.body['ok'] for check in done.all('check')), done.story()
