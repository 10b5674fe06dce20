"""Devices that a machine may lack: each is done without, or the machine is refused in words; nothing is left out in
silence, and nothing is waited for that will never come.

The clock's rate comes from the PIT, and where there is none from the HPET or from ACPI's timer.
"""

import re

import pytest
from booting import OK, PANIC, REFUSED, read
from telemetry import outcome
from telemetry.digest import digest_boot
from test_failures import Machine

QUIET = 'kbench=0 selfcheck=0'
NO_PIT = 'pit=off'
NO_HPET = 'pit=off,hpet=off'


def rate(boot, machine, source):
    """(cycles a second, the error that the kernel tells of) on that machine; the source is the one it has to be."""
    done = boot(QUIET, extra=('-machine', machine)).sound()
    told, = re.findall(r"the TSC's rate is known from (.*), within (\d+) Hz", done.console)
    assert told[0] == source, done.story()
    return done.one('hello')['tsc_hz'], int(told[1])


def test_each_clock_tells_the_same_rate(boot):
    found = [rate(boot, 'q35', 'the PIT'), rate(boot, f'q35,{NO_PIT}', 'the HPET'),
             rate(boot, f'q35,{NO_HPET}', 'the ACPI timer'), rate(boot, f'pc,{NO_HPET}', 'the ACPI timer')]
    hz = [rate for rate, _ in found]
    assert max(hz) < 1.002 * min(hz), found
    assert all(0 < error < rate / 1000 for rate, error in found), found


def test_a_machine_without_a_clock_is_refused_at_once(boot):
    done = boot(QUIET, extra=('-machine', f'pc,{NO_HPET},acpi=off'))
    assert done.exit_status == REFUSED, done.story()
    assert 'HAYLOFT-REFUSED reason="no clock of a known rate' in done.console
    assert 'PANIC' not in done.console
    verdict, reason = outcome.classify(done.exit_status, done.timed_out, digest_boot(done.folder), done.console)
    assert verdict == outcome.REFUSED and reason.startswith('no clock of a known rate'), reason
    # By the kernel's own clock it took no time; what remains is the machine's start.
    usual = boot(QUIET, extra=('-machine', 'pc')).sound()
    assert done.seconds < usual.seconds + 5, (done.seconds, usual.seconds)


# -- serial ports --

def end_without(folder, port, args=''):
    """(exit status, console, records, the tool's verdict) of a boot on a machine that lacks a port."""
    with Machine(folder, f'{QUIET} {args}', ports={1, 2} - {port}) as machine:
        status = machine.end(60)
        console = machine.console()
    (folder / 'telemetry.bin').touch()
    records, faults, _ = read(folder)
    assert faults == []
    return status, console, records, outcome.classify(status, False, digest_boot(folder), console)


def test_without_the_port_for_telemetry_a_boot_is_refused(tmp_path):
    """The port is all that telemetry could tell it by: so the tool has it from the console."""
    status, console, records, verdict = end_without(tmp_path, 2)
    assert (status, records) == (REFUSED, []), console
    line, = [text for text in console.splitlines() if 'HAYLOFT-REFUSED' in text]
    assert 'there is no serial port COM2' in line and 'telemetry.port=com1' in line
    assert verdict[0] == outcome.REFUSED and verdict[1] in line, verdict


def test_with_one_port_telemetry_goes_by_the_consoles(tmp_path):
    with Machine(tmp_path, f'{QUIET} telemetry.port=com1', ports=[1]) as machine:
        assert machine.end(60) == OK, machine.console()
    records, faults, text = read(tmp_path, shared_line=True)
    assert faults == [] and records[0].type == 'hello' and records[-1].body['outcome'] == 'ok'
    assert b'there is no serial port' not in text


def test_without_the_shared_port_a_boot_is_refused(tmp_path):
    status, _, records, verdict = end_without(tmp_path, 1, 'telemetry.port=com1')
    assert status == REFUSED
    assert [record.type for record in records] == ['bye']
    assert verdict == (outcome.REFUSED, 'telemetry.port=com1: there is no serial port COM1')


def test_without_a_port_at_all_a_boot_ends(tmp_path):
    with Machine(tmp_path, QUIET, ports=[]) as machine:
        assert machine.end(60) == REFUSED


def test_a_console_that_is_missing_is_told(tmp_path):
    status, console, records, _ = end_without(tmp_path, 1)
    assert (status, console) == (OK, '')
    told, = [entry for entry in records[0].body['left_out'] if entry['name'] == 'console']
    assert told['detail'] == 'there is no serial port COM1'


# -- a panic before anything is known --

def test_a_panic_before_there_are_symbols_tells_addresses(boot):
    done = boot(QUIET, cpus=1, extra=('-cpu', 'max,-apic'))
    assert done.exit_status == PANIC, done.story()
    places = [line for line in done.console.splitlines() if line.startswith('  0x')]
    assert len(places) >= 2 and all(re.fullmatch('  0x[0-9a-f]{16}', line) for line in places), done.story()
    assert done.one('panic')['text'] == 'the CPU has no local APIC'
