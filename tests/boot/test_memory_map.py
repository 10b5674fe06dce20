"""Memory maps as firmware makes them: hundreds of ranges, holes of a page, ranges that lie far apart.

Two ways lead to them. handover.py hands over whatever map a test writes down. And GRUB makes some: `cutmem` takes a
stretch out of the map that the kernel gets, `badram` each page whose address agrees with another in the bits of a
mask. Both change only what is said of memory that is all there.

Every boot here checks itself, and at the end of that its heap, frame by frame; and what its nodes have tells that no
memory was forgotten.
"""

import json
import re
import struct
import subprocess
import sys

import gdbstub
import handover
import pytest
from booting import BUILD, OK, REFUSED, ROOT
from handover import ACPI, BAD, NVS, RESERVED, USABLE
from test_failures import Machine
from test_nodes import SCOPE_NODE, last_values

# A round, so that there is a sample with the nodes' gauges.
QUIET = 'kbench=1 kbench.ms=20 tests=malloc/64/solo selfcheck=1'
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
PAGE = 4 * KIB
LOW = (0, 0x9fc00, USABLE)
# Usable and not handed out by design: the low MiB, the kernel, and what the loader left.
KERNEL = 6 * MIB


@pytest.fixture
def hand_over(boot, tmp_path):
    """hand_over(entries, …): a boot that is told of that memory, in entries of (start, bytes, type)."""
    def one(entries, args=QUIET, modules=(), extra=(), variant='release', **options):
        image = tmp_path / 'image'
        handover.make(image, BUILD / variant / 'kernel.elf', args, entries, modules)
        return boot(None, variant=variant, extra=('-kernel', str(image), *extra), timeout=120, **options)
    return one


@pytest.fixture
def grub(boot, tmp_path):
    """grub(commands, …): a boot for whose memory map GRUB has executed those commands."""
    def one(commands, args=QUIET, **options):
        config, iso = tmp_path / 'grub.cfg', tmp_path / 'map.iso'
        menu = (ROOT / 'arch' / 'x86_64' / 'grub.cfg').read_text()
        config.write_text('\n'.join([*commands, menu]))
        subprocess.run([sys.executable, ROOT / 'tools' / 'mkiso.py', '--kernel', BUILD / 'release' / 'kernel.elf',
                        '--config', config, '--output', iso, '--module', 'mmap'], check=True)
        return boot(args, iso=iso, timeout=120, **options)
    return one


def far(size):
    """QEMU options for a machine with so much memory, of which the host gives what is touched."""
    return ('-object', f'memory-backend-ram,id=far,size={size},reserve=off', '-machine', 'memory-backend=far')


def whole(done, usable, taken=KERNEL):
    """A sound boot that has all of the usable bytes, and whose heap hands out all but what it takes itself."""
    checks = {c.body['name']: c.body['ok'] for c in done.sound().all('check')}
    assert checks['validate'] and checks['selfcheck'], done.story()
    memory = done.one('hello')['memory']
    assert usable - taken <= memory <= usable, done.story()
    nodes = last_values(done, SCOPE_NODE)
    pages = sum(value for (name, _), value in nodes.items() if name == 'pages_total')
    own = sum(value for (name, _), value in nodes.items() if name == 'descriptor_bytes')
    assert own <= memory // 32, done.story()
    assert memory - own - MIB <= pages * PAGE <= memory - own, done.story()
    return done


def holed(bytes_, period, hole=PAGE):
    """All of the memory but a hole in the middle of each period, where the kernel and its loader are not."""
    holes = [(at + period // 2, hole, BAD) for at in range(0, bytes_, period)
             if not (at < 8 * MIB or 16 * MIB <= at < 20 * MIB or at > bytes_ - 2 * MIB)]
    return [LOW, (MIB, bytes_ - 2 * MIB, USABLE), *holes], bytes_ - 2 * MIB - sum(size for _, size, _ in holes)


def refused(done):
    """The one sentence: (reason, have, need)."""
    assert done.exit_status == REFUSED, done.story()
    line, = re.findall(r'HAYLOFT-REFUSED reason="([^"]*)" have=(\d+) need=(\d+)', done.console)
    reason, have, need = line[0], int(line[1]), int(line[2])
    assert have < need, line
    assert reason in done.one('bye')['reason'], done.story()
    return reason, have, need


# -- many ranges --

def firmware_map(entries):
    """A map of so many entries of the kind that UEFI makes, in no order: pieces of a page to half a MiB, of all types,
    adjacent, apart, sometimes one over the other; then all the rest in one piece. Returns it and the usable bytes."""
    types = [USABLE, RESERVED, USABLE, ACPI, USABLE, NVS, USABLE, BAD]
    out, usable, at = [LOW, (MIB, 31 * MIB, USABLE)], 31 * MIB, 32 * MIB
    for i in range(entries - 3):
        size, kind = (1 + i * 37 % 128) * PAGE, types[i * 5 % 8]
        out.append((at, size, kind))
        usable += size * (kind == USABLE)
        at += size + (i % 3 == 0) * PAGE
    assert at < 240 * MIB
    out.append((at, 500 * MIB - at, USABLE))
    return out[::2] + out[1::2], usable + 500 * MIB - at


@pytest.mark.parametrize('entries', [300, 500])
def test_a_map_of_hundreds_of_entries(hand_over, entries):
    memory, usable = firmware_map(entries)
    whole(hand_over(memory), usable)


@pytest.mark.parametrize('nodes', [1, 2])
def test_a_hole_of_a_page_in_each_mib(hand_over, nodes):
    memory, usable = holed(256 * MIB, MIB)
    whole(hand_over(memory, QUIET + f' nodes={nodes}', memory='256M'), usable)


def test_a_hole_of_a_page_in_each_mib_checked_by_assertions(hand_over):
    memory, usable = holed(256 * MIB, MIB)
    whole(hand_over(memory, variant='debug', memory='256M'), usable, taken=KERNEL + 2 * MIB)


def test_half_a_mib_in_pieces_of_124_kib(hand_over):
    """As many ranges as there is room for, nearly."""
    memory, usable = holed(250 * MIB, 128 * KIB)
    whole(hand_over(memory, memory='256M'), usable)


def test_grub_calls_a_page_in_four_mib_bad(grub):
    """A descriptor array for all of it has no room in any one piece."""
    # The page at 3 MiB of each four: 64 in all, of which the kernel lies upon one.
    whole(grub(['badram 0x300000,0x3ff000'], memory='256M'), 255 * MIB - 63 * PAGE)


# -- what does not fit --

def account(elf):
    """{kind: (address of its amount, of its whole)} in the kernel's account of what was left out."""
    names = re.findall(r'^LEFT_OUT\((\w+),', (ROOT / 'base' / 'leftout.def').read_text(), re.M)
    at = gdbstub.symbol(elf, 'account')
    return {name: at + 24 * i for i, name in enumerate(names)}


def left_out(tmp_path, memory, size='512M'):
    """{kind: (KiB, of KiB)} when the laboratory begins, of a boot that ends well."""
    elf, image = BUILD / 'release' / 'kernel.elf', tmp_path / 'image'
    handover.make(image, elf, QUIET, memory)
    options = ('-S', '-gdb', 'unix:gdb.sock,server=on,wait=off', '-kernel', str(image))
    with Machine(tmp_path, QUIET, memory=size, extra=options) as machine:
        gdb = gdbstub.Gdb(tmp_path / 'gdb.sock')
        gdb.run_to(gdbstub.symbol(elf, 'lab_run'))
        told = {name: struct.unpack('<QQ', gdb.read(at, 16)) for name, at in account(elf).items()}
        gdb.send('D')
        assert machine.end(60) == OK, machine.console()
        gdb.close()
    return {name: values for name, values in told.items() if values[0]}


def test_nothing_is_left_out_of_a_usual_map(tmp_path):
    assert left_out(tmp_path, holed(512 * MIB, MIB)[0]) == {}


def test_ranges_beyond_the_table_are_told_and_are_the_smallest(tmp_path):
    """3072 pieces of 4 to 60 KiB beside a large one, and 2048 have room."""
    pieces = [(64 * MIB + i * 64 * KIB, (1 + i % 15) * PAGE, USABLE) for i in range(3072)]
    told = left_out(tmp_path, [LOW, (MIB, 62 * MIB, USABLE), *pieces])
    kib, of = told.pop('memory')
    least = sum(sorted(size for _, size, _ in pieces)[:1000]) // KIB
    assert least <= kib <= least * 3 // 2
    assert of == pytest.approx((62 * MIB + sum(size for _, size, _ in pieces)) // KIB, abs=KERNEL // KIB)
    assert told == {}


def test_memory_that_is_not_mapped_is_told(tmp_path):
    told = left_out(tmp_path, [LOW, (MIB, 400 * MIB, USABLE), (410 * MIB, 300 * KIB, ACPI),
                               (64 * TIB - 128 * MIB, 128 * MIB, RESERVED), (64 * TIB, 3 * GIB, USABLE)])
    assert (told['memory_above'][0], told['memory_acpi'][0]) == (3 * MIB, 300)
    assert told.keys() == {'memory_above', 'memory_acpi'}


def test_more_modules_than_anybody_loads(hand_over):
    modules = [(128 * MIB + i * 0x3001, 128 * MIB + i * 0x3001 + 5000) for i in range(500)]
    whole(hand_over([LOW, (MIB, 500 * MIB, USABLE)], modules=modules), 500 * MIB, taken=KERNEL + 500 * 3 * PAGE)


# -- far apart --

@pytest.mark.parametrize('nodes', [1, 2])
def test_two_ranges_16_gib_apart(hand_over, nodes):
    memory = [LOW, (MIB, 127 * MIB, USABLE), (16 * GIB, 128 * MIB, USABLE)]
    done = whole(hand_over(memory, QUIET + f' nodes={nodes}', memory='18G', extra=far('18G')), 255 * MIB)
    if nodes == 2:
        share = {k: v for k, v in last_values(done, SCOPE_NODE).items() if k[0] == 'pages_total'}
        assert max(share.values()) - min(share.values()) <= 8 * MIB // PAGE


def test_descriptors_of_128_mib_are_one_large_page(tmp_path):
    """Both ranges' are, and all others of the window are the one page of the hole, but for the heap itself."""
    elf, image = BUILD / 'release' / 'kernel.elf', tmp_path / 'image'
    handover.make(image, elf, QUIET, [LOW, (MIB, 127 * MIB, USABLE), (16 * GIB, 128 * MIB, USABLE)])
    options = ('-S', '-gdb', 'unix:gdb.sock,server=on,wait=off', '-kernel', str(image), *far('18G'))
    with Machine(tmp_path, QUIET, memory='18G', extra=options) as machine:
        gdb = gdbstub.Gdb(tmp_path / 'gdb.sock')
        gdb.run_to(gdbstub.symbol(elf, 'lab_run'))
        command = {'execute': 'human-monitor-command', 'arguments': {'command-line': 'info tlb'}}
        with machine.monitor.makefile('rb') as answers:
            machine.command('qmp_capabilities')
            machine.monitor.sendall(json.dumps(command).encode() + b'\n')
            text = next(line for line in map(json.loads, answers) if line.get('return'))['return']
        gdb.close()
    pages = [line.split() for line in text.splitlines() if line.startswith('ffffd')]
    assert [at for at, _, flags in pages if 'P' in flags] == ['ffffd00000200000:', 'ffffd00010200000:']
    window = [physical for at, physical, flags in pages if 'P' not in flags and at > 'ffffd00000200000:']
    assert len(window) == 127 * 512 and len(set(window)) == 1


def test_grub_cuts_16_gib_out(grub):
    done = grub(['cutmem 128M 4G', 'cutmem 4G 16G', 'cutmem 16512M 40G'], memory='18G', extra=far('18G'))
    whole(done, 255 * MIB)


# -- refusals --

def test_a_block_that_no_piece_has_room_for(hand_over):
    """So many CPUs need tables in one piece. There is memory enough, and the sentence does not deny it."""
    reason, have, need = refused(hand_over(holed(256 * MIB, MIB)[0], cpus=20, memory='256M'))
    assert reason.startswith('no piece of memory is large enough for ')
    assert have >= 512 * KIB and need >= 2 * have


def test_the_loaders_words_in_memory_that_is_nobodys(hand_over):
    """At 16 MiB and behind it, where the map lists nothing."""
    whole(hand_over([LOW, (MIB, 12 * MIB, USABLE), (64 * MIB, 64 * MIB, USABLE)]), 76 * MIB)


def test_too_little_in_all(hand_over):
    memory = [LOW, (MIB, 7 * MIB, USABLE), (64 * MIB, PAGE, USABLE), (100 * MIB, 2 * MIB, USABLE)]
    reason, have, _ = refused(hand_over(memory))
    assert reason == 'too little memory'
    assert have == pytest.approx(9 * MIB, abs=KERNEL)
