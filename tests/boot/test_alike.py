"""Every CPU computes under the same conditions: caches on, the same control registers, the same memory types.

A CPU out of INIT has its caches off, and one that keeps them off does the same work many times slower, at figures
that look plausible. QEMU's monitor tells each CPU's control registers. It does not tell PAT and MTRRs, and QEMU's CPUs
all begin with the same ones: so here CPU 0's, as the kernel has noted them down, are changed under its hands, and a
started CPU must follow, since it compares what it reads back.
"""

import contextlib
import re
import struct
import time

import gdbstub
from booting import BUILD, OK, read
from telemetry import outcome
from telemetry.digest import digest_boot
from test_failures import Machine

QUIET = 'kbench=0 selfcheck=0'
NO_CACHES = 0x60000000  # CR0.CD and CR0.NW
OSXMMEXCPT = 0x400

# struct alike (arch/x86_64/alike.h): where its fields are. note_of() looks whether that is still so.
CPUID_1_EDX, CR0, CR4, EFER, PAT, MTRR_CAP, MTRR_TYPE, VARIABLE = 28, 112, 120, 128, 144, 152, 160, 256


def registers(machine):
    """CPU number → {register: value}, by QEMU's monitor."""
    cpus = machine.ask('info registers -a').split('CPU#')[1:]
    return {int(text.split()[0]): {name: int(value, 16)
                                   for name, value in re.findall(r'\b(CR0|CR4|EFER) ?=([0-9a-f]+)', text)}
            for text in cpus}


def test_control_registers_are_the_same_on_all_cpus(tmp_path):
    with Machine(tmp_path, f'{QUIET} deadline=0 provoke=hang', cpus=4) as machine:
        machine.wait_for('Hayloft:')
        time.sleep(1)  # by then all are in their idle loops
        found = registers(machine)
    assert set(found) == set(range(4))
    for cpu, about in found.items():
        assert set(about) == {'CR0', 'CR4', 'EFER'}
        assert about['CR0'] & NO_CACHES == 0, f'CPU {cpu} runs without caches: {about}'
        assert about == found[0], f'CPU {cpu} is not like CPU 0: {found}'


@contextlib.contextmanager
def at_the_first_start(folder, args=QUIET):
    """(machine, gdb, address of what was noted of CPU 0), where CPU 1 is about to be made like it."""
    elf = BUILD / 'release' / 'kernel.elf'
    options = ('-S', '-gdb', 'unix:gdb.sock,server=on,wait=off')
    with Machine(folder, args, extra=options) as machine:
        gdb = gdbstub.Gdb(folder / 'gdb.sock')
        gdb.run_to(gdbstub.symbol(elf, 'machine_start_cpus'))
        gdb.run_to(gdbstub.symbol(elf, 'alike_make'))
        yield machine, gdb, note_of(gdb, gdbstub.symbol(elf, 'alike_model'))
        gdb.close()


def note_of(gdb, address):
    """The address, if what is there looks like the note that the offsets above describe."""
    cr0, cr4, efer, _, pat, cap, kind = struct.unpack('<7Q', gdb.read(address + CR0, 56))
    assert (cr0 & 0x80000001, cr4 & 0x20, efer & 0x500) == (0x80000001, 0x20, 0x500), 'struct alike has changed'
    assert (pat & 0xff, cap & 0xff, kind & ~0xcff) == (6, 8, 0), 'struct alike has changed'
    return address


def value(gdb, address):
    return struct.unpack('<Q', gdb.read(address, 8))[0]


def set_value(gdb, address, number):
    gdb.write(address, struct.pack('<Q', number))


def test_a_started_cpu_takes_over_memory_types(tmp_path):
    """PAT, a pair of variable MTRRs, the default type: with other values than CPU 1 was started with."""
    with at_the_first_start(tmp_path) as (machine, gdb, note):
        assert value(gdb, note + VARIABLE + 7 * 16 + 8) == 0, 'the last pair is in use'
        set_value(gdb, note + PAT, 0x0007010600070106)
        set_value(gdb, note + VARIABLE + 7 * 16, 0xfd000001)
        set_value(gdb, note + VARIABLE + 7 * 16 + 8, 0xff000800)
        set_value(gdb, note + MTRR_TYPE, value(gdb, note + MTRR_TYPE) ^ 6)
        gdb.go()
        assert machine.end(60) == OK, machine.console()
    records, faults, _ = read(tmp_path)
    assert faults == []
    assert [row[0] for row in records[0].body['cpus']] == [0, 1], machine.console()


def test_a_started_cpu_takes_over_control_registers(tmp_path):
    with at_the_first_start(tmp_path, f'{QUIET} deadline=0 provoke=hang') as (machine, gdb, note):
        set_value(gdb, note + CR4, value(gdb, note + CR4) | OSXMMEXCPT)
        gdb.go()
        machine.wait_for('Hayloft:')
        time.sleep(1)
        found = registers(machine)
    assert [found[cpu]['CR4'] & OSXMMEXCPT for cpu in (0, 1)] == [0, OSXMMEXCPT], found


def check_left_out(folder, machine, text):
    """Told on the console and in an event, and the boot is not counted, for that reason."""
    records, faults, _ = read(folder)
    assert faults == []
    assert [row[0] for row in records[0].body['cpus']] == [0]
    warning, = [r.body for r in records if r.type == 'event' and r.body['kind'] == 'warning']
    assert text in warning['text'] and warning['text'] in machine.console()
    verdict, reason = outcome.classify(OK, False, digest_boot(folder))
    assert verdict == outcome.NOT_PARALLEL
    assert '1 of 2 CPUs' in reason and text in reason


def test_a_cpu_with_other_features_is_left_out(tmp_path):
    with at_the_first_start(tmp_path) as (machine, gdb, note):
        edx = struct.unpack('<I', gdb.read(note + CPUID_1_EDX, 4))[0]
        gdb.write(note + CPUID_1_EDX, struct.pack('<I', edx ^ 1 << 4))  # the TSC's bit
        gdb.go()
        assert machine.end(60) == OK, machine.console()
    check_left_out(tmp_path, machine, f'its CPUID 1 is {edx:x}')


def test_a_cpu_that_cannot_be_made_alike_is_left_out(tmp_path):
    """With another number of MTRRs than CPU 0 has."""
    with at_the_first_start(tmp_path) as (machine, gdb, note):
        set_value(gdb, note + MTRR_CAP, value(gdb, note + MTRR_CAP) ^ 1)
        gdb.go()
        assert machine.end(60) == OK, machine.console()
    check_left_out(tmp_path, machine, 'its MTRR capability is 508')
