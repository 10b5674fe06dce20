"""Chipsets, memory sizes, one serial line for both streams."""

import pytest

QUIET = 'kbench=0 selfcheck=1'


@pytest.mark.parametrize('chipset', ['q35', 'pc'])
def test_chipset(boot, chipset):
    boot(QUIET, chipset=chipset).sound()


@pytest.mark.parametrize('memory, at_least', [('64M', 32 << 20), ('5G', 4 << 30)])
def test_memory(boot, memory, at_least):
    """Little of it, and some above the hole below 4 GiB."""
    hello = boot(QUIET, memory=memory).sound().one('hello')
    assert hello['memory'] >= at_least


def test_one_line_for_text_and_telemetry(boot):
    done = boot(QUIET + ' telemetry.port=com1', shared_line=True).sound()
    assert done.one('hello')['knobs']['telemetry.port'] == 'com1'
    assert done.console.strip(), 'no console text between the frames'


def test_clock_is_plausible(boot):
    hello = boot(QUIET).sound().one('hello')
    assert 10**8 < hello['tsc_hz'] < 10**10
    assert hello['platform'] == 'x86_64'
    for row in hello['cpus']:
        assert abs(row[3]) < hello['tsc_hz'] // 1000, 'a skew of a millisecond is no skew but a bug'


def test_debug_kernel(boot):
    hello = boot(QUIET, variant='debug', timeout=120).sound().one('hello')
    assert hello['variant'] == 'debug'
