"""Machines as they come: old and new CPUs, little and much memory, CPUs that are listed and never start.

A short list here; the long one (HAYLOFT_LONG=1) has the large machines and 50 boots of each number of CPUs.
"""

import gdbstub
import pytest
from booting import BUILD, OK, REFUSED, read
from telemetry import outcome
from telemetry.digest import digest_boot
from test_failures import Machine

QUIET = 'kbench=0 selfcheck=1'
PATIENT = QUIET + ' deadline=0'  # the host's patience ends the boot, not the kernel's
MIB = 1 << 20


def numbers(hello):
    return [row[0] for row in hello['cpus']]


def warnings(done):
    return [r.body for r in done.all('event') if r.body['kind'] == 'warning']


def sound_but_for_losses(done):
    """So many CPUs on so few outrun the telemetry's rings: records may be lost, if each is counted, and none damaged."""
    assert not done.timed_out and done.exit_status == OK, done.story()
    assert done.one('bye')['outcome'] == 'ok', done.story()
    assert {fault.kind for fault in done.faults} <= {'gap'}, done.story()
    # What was lost behind the last record of a stream leaves no gap: the digest compares with the bye's totals.
    digest, lost = digest_boot(done.folder), sum(done.lost().values())
    assert (digest['lost'], digest['damaged']) == (lost, 0), done.story()
    assert sum(fault.count for fault in done.faults) <= lost, done.story()
    return done


# -- CPU models --

OLD = ['core2duo', 'max,-rdtscp']
ALL = ['qemu64', 'kvm64', 'Nehalem', 'max,-invtsc', 'max,-smap,-smep', 'max,-nx', 'max,la57=on']


def check_cpu(boot, cpu):
    done = boot(QUIET, extra=('-cpu', cpu), timeout=120).sound()
    hello = done.one('hello')
    assert numbers(hello) == [0, 1]
    return hello


@pytest.mark.parametrize('cpu', OLD)
def test_cpu_model(boot, cpu):
    check_cpu(boot, cpu)


@pytest.mark.long
@pytest.mark.parametrize('cpu', ALL)
def test_every_cpu_model(boot, cpu):
    check_cpu(boot, cpu)


def test_a_clock_that_is_not_invariant_is_told(boot):
    assert check_cpu(boot, 'core2duo')['tsc_invariant'] is False


# -- chipsets, memory --

@pytest.mark.parametrize('chipset', ['q35', 'pc'])
def test_48_mib(boot, chipset):
    hello = boot(QUIET, memory='48M', chipset=chipset).sound().one('hello')
    assert 32 * MIB < hello['memory'] < 48 * MIB


@pytest.mark.long
@pytest.mark.parametrize('chipset', ['q35', 'pc'])
@pytest.mark.parametrize('memory, at_least', [('64M', 48), ('2G', 2000), ('5G', 5000)])
def test_memory(boot, chipset, memory, at_least):
    """2 GiB ends below the hole for devices on both chipsets, 5 GiB has a part above 4 GiB."""
    hello = boot(QUIET, memory=memory, chipset=chipset, timeout=120).sound().one('hello')
    assert hello['memory'] >= at_least * MIB


def refusal(done):
    assert done.exit_status == REFUSED, done.story()
    line, = [text for text in done.console.splitlines() if 'HAYLOFT-REFUSED' in text]
    have, need = (int(line.split(key + '=')[1].split()[0]) for key in ('have', 'need'))
    assert have < need, line
    return have, need


def check_that_the_named_minimum_will_do(boot, cpus, too_little):
    """What the firmware keeps is told by `have`; so much on top of what was named must boot, self-check included."""
    have, need = refusal(boot(PATIENT, cpus=cpus, memory=f'{too_little}M', timeout=120))
    firmware = too_little * MIB - have
    memory = -(-(need + firmware) // MIB)
    assert memory < 48
    sound_but_for_losses(boot(PATIENT, cpus=cpus, memory=f'{memory}M', timeout=300))


def test_the_named_minimum_of_memory_will_do(boot):
    check_that_the_named_minimum_will_do(boot, cpus=40, too_little=16)


@pytest.mark.long
def test_the_named_minimum_of_memory_will_do_for_64_cpus(boot):
    check_that_the_named_minimum_will_do(boot, cpus=64, too_little=20)


# -- CPUs --

@pytest.mark.parametrize('chipset', ['q35', 'pc'])
def test_room_for_more_cpus_than_there_are(boot, chipset):
    """The firmware lists the empty places as disabled; nobody waits for them."""
    done = boot(QUIET, cpus=2, topology='maxcpus=6', chipset=chipset).sound()
    hello = done.one('hello')
    assert (numbers(hello), hello['cpus_found']) == ([0, 1], 2)
    assert warnings(done) == []


@pytest.mark.long
@pytest.mark.parametrize('memory', ['48M', '2G'])
def test_64_cpus(boot, memory):
    done = sound_but_for_losses(boot(PATIENT, cpus=64, memory=memory, timeout=600))
    assert numbers(done.one('hello')) == list(range(64))
    assert warnings(done) == []


@pytest.mark.long
@pytest.mark.parametrize('cpus', [1, 2, 3, 8])
def test_50_boots_with(boot, cpus):
    for _ in range(50):
        done = boot(PATIENT, cpus=cpus, timeout=300).sound()
        assert numbers(done.one('hello')) == list(range(cpus)), done.story()
        assert warnings(done) == []


def left_out_of(done, name):
    return [entry for entry in done.one('hello')['left_out'] if entry['name'] == name]


def test_65_cpus(boot):
    """One kernel runs 64; the firmware's number is told all the same, and that one was left out."""
    done = sound_but_for_losses(boot('kbench=0 selfcheck=0 deadline=0 overcommit=1', cpus=65, timeout=300))
    hello = done.one('hello')
    assert (numbers(hello), hello['cpus_found']) == (list(range(64)), 65)
    entry, = left_out_of(done, 'cpus')
    assert (entry['amount'], entry['of']) == (1, 65)
    assert '1 of 65 CPUs' in done.console
    assert outcome.classify(done.exit_status, done.timed_out, digest_boot(done.folder))[0] == outcome.OK


@pytest.mark.parametrize('cpus', [100, pytest.param(255, marks=pytest.mark.long)])
def test_cpus_that_nobody_asked_for_are_not_left_out(boot, cpus):
    done = boot('kbench=0 selfcheck=0 deadline=0 maxcpus=3', cpus=cpus, timeout=300).sound()
    hello = done.one('hello')
    assert (numbers(hello), hello['cpus_found']) == ([0, 1, 2], cpus)
    assert left_out_of(done, 'cpus') == []


def test_a_list_of_cpus_that_cannot_be_read_is_told(boot):
    without = ('-machine', 'pc,acpi=off')
    done = boot('kbench=0 selfcheck=0', extra=without).sound()
    hello = done.one('hello')
    assert (numbers(hello), hello['cpus_found']) == ([0], 1)
    entry, = left_out_of(done, 'cpu_list')
    assert entry['detail'] == 'there is no RSDP' and entry['detail'] in done.console
    assert left_out_of(boot('kbench=0 selfcheck=0 maxcpus=1', extra=without).sound(), 'cpu_list') == []


def test_a_cpu_that_does_not_exist_is_named_and_left_out(boot):
    done = boot(QUIET + ' provoke=absent-cpu', cpus=3).sound()
    hello = done.one('hello')
    assert (numbers(hello), hello['cpus_found']) == ([0, 1, 2], 4)
    assert [row[1] for row in hello['cpus']] == [0, 1, 2]
    warning, = warnings(done)
    assert warning['values'] == {'apic_id': 254}
    assert 'did not answer' in warning['text']
    assert warning['text'] in done.console


def test_a_list_of_cpus_that_is_full_takes_none_that_does_not_exist(boot):
    """64 is as many as there is room for: the fault is refused, not ignored."""
    done = boot(QUIET + ' provoke=absent-cpu', cpus=64, timeout=200).sound('refused', REFUSED)
    (argument, _, nearest), = done.one('hello')['refused']
    assert (argument, nearest) == ('provoke=absent-cpu', 'provoke=none')


def test_a_boot_without_one_of_its_cpus_does_not_count(boot):
    done = boot(QUIET + ' provoke=absent-cpu', cpus=2).sound()
    verdict, reason = outcome.classify(done.exit_status, done.timed_out, digest_boot(done.folder))
    assert verdict == outcome.NOT_PARALLEL
    assert '2 of 3 CPUs' in reason


def held_at(folder, find, cpus):
    """A boot of which one CPU, the first to come to an address, is held there for good: (thread, records)."""
    options = ('-S', '-gdb', 'unix:gdb.sock,server=on,wait=off')
    with Machine(folder, PATIENT, cpus=cpus, extra=options) as machine:
        gdb = gdbstub.Gdb(folder / 'gdb.sock')
        elf = BUILD / 'release' / 'kernel.elf'
        gdb.run_to(gdbstub.symbol(elf, 'machine_start_cpus'))
        thread = gdb.run_to(find(elf))
        gdb.hold(thread)
        status = machine.end(120)
        gdb.close()
        assert status == OK, machine.console()
    records, faults, _ = read(folder)
    assert faults == []
    assert records[-1].type == 'bye' and records[-1].body['outcome'] == 'ok'
    return thread, records


def left_out(records):
    return {r.body['values']['apic_id']: r.body['text'] for r in records
            if r.type == 'event' and r.body['kind'] == 'warning'}


def test_a_cpu_that_stops_in_the_middle_of_its_start_is_left_out(tmp_path):
    """Held on its own stack, in its first C function: the others are started all the same, numbered without a gap."""
    _, records = held_at(tmp_path, lambda elf: gdbstub.symbol(elf, 'smp_entry'), cpus=4)
    hello = records[0].body
    assert (numbers(hello), hello['cpus_found']) == ([0, 1, 2], 4)
    assert [row[1] for row in hello['cpus']] == [0, 2, 3]
    assert left_out(records).keys() == {1}
    assert 'in the middle of its start' in left_out(records)[1]


def test_nobody_starts_in_a_page_that_another_cpu_holds(tmp_path):
    """Held in the trampoline, after it took the mailbox and before it read it: it might still read another's."""
    def trampoline(elf):
        return 0x1000 + gdbstub.symbol(elf, 'trampoline_long') - gdbstub.symbol(elf, 'trampoline_start')

    _, records = held_at(tmp_path, trampoline, cpus=3)
    assert numbers(records[0].body) == [0]
    told = left_out(records)
    assert told.keys() == {1, 2}
    assert 'in the middle of its start' in told[1]
    assert 'another CPU holds the page' in told[2]
