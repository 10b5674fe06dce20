"""What a boot leaves out is told where somebody looks: on the console, in hello and bye, and by what becomes of the boot."""

import pytest
from telemetry import outcome
from telemetry.digest import digest_boot

from booting import REFUSED

HOST = {'kind': 'host', 'variant': 'host'}
both = pytest.mark.parametrize('machine', [{'kind': 'tcg'}, HOST], ids=['tcg', 'host'])


def told(body):
    return {entry['name']: entry for entry in body['left_out']}


def lines(done):
    return [line for line in done.console.splitlines() if '] left out: ' in line]


@both
def test_nothing_left_out_is_told_as_that(boot, machine):
    done = boot('kbench=1 kbench.ms=20 tests=malloc/64/solo', **machine).sound()
    assert done.one('hello')['left_out'] == [] == done.one('bye')['left_out']
    assert lines(done) == []


@both
def test_refusals_beyond_those_that_are_named_are_counted(boot, machine):
    words = [f'nosuch{number}=1' for number in range(11)]
    done = boot(' '.join(words), **machine).sound('refused', REFUSED)
    hello = done.one('hello')
    assert [entry[0] for entry in hello['refused']] == words[:8]
    for body in (hello, done.one('bye')):
        assert (told(body)['refusals']['amount'], told(body)['refusals']['of']) == (3, 11)
    line, = lines(done)
    assert '3 of 11 refusals' in line and told(hello)['refusals']['doc'] in line
    for word in words[:8]:
        assert f'refused: {word}: ' in done.console


@both
def test_locks_without_statistics_void_a_boot(boot, machine):
    """They come after hello, so the console tells them at the end, and bye does."""
    done = boot('kbench=1 kbench.ms=20 tests=typed,malloc/64/solo provoke=locks', **machine).sound()
    assert done.one('hello')['left_out'] == []
    locks = told(done.one('bye'))['locks']
    assert locks['amount'] > 0 and locks['voids'] is True
    line, = lines(done)
    assert f'{locks["amount"]} locks: ' in line and 'does not count' in line
    assert done.console.index('round 0') < done.console.index(line) < done.console.index('lab: ok')
    facts = digest_boot(done.folder)
    found, reason = outcome.classify(done.exit_status, done.timed_out, facts)
    assert found == outcome.LEFT_OUT and found in outcome.VOID
    assert reason == f'{locks["amount"]} locks: {locks["doc"]}'


@both
def test_a_long_argument_line_arrives_whole(boot, machine):
    """The console's line of it is cut, and says so."""
    args = ' '.join(f'nosuch{number}={"x" * (number % 50)}ü' for number in range(200))
    assert len(args.encode()) > 6000
    done = boot(args, **machine).sound('refused', REFUSED)
    hello = done.one('hello')
    assert hello['args'].strip() == args
    assert hello['args_bytes'] == len(hello['args'].encode())
    line, = [line for line in done.console.splitlines() if 'args: ' in line]
    cut = int(line.rpartition(' (')[2].removesuffix(' bytes cut)'))
    assert cut + len(line.partition('args: ')[2].rpartition(' (')[0].encode()) == hello['args_bytes']
