"""A multiboot2 hand-over as a test wants it: any memory map, any number of modules, without GRUB.

make() writes an image for QEMU's -kernel: loader.S, what it needs to know, the information structure, the kernel's
segments. The map is the test's word alone, so it has to keep to memory that the machine has, or to say of what is not
there that it is reserved, or too far away to be looked at.
"""

import struct
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOADER = 0x1000000  # as loader.S says
KERNEL_BASE = 0xffffffff80000000
USABLE, RESERVED, ACPI, NVS, BAD = 1, 2, 3, 4, 5


def assembled(folder):
    """The loader's bytes, up to where its words begin."""
    out = folder / 'loader.o'
    subprocess.run(['clang', '--target=i386-unknown-none-elf', '-c', HERE / 'loader.S', '-o', out], check=True)
    subprocess.run(['ld.lld', '--oformat=binary', '-Ttext=0', out, '-o', folder / 'loader.bin'], check=True)
    return (folder / 'loader.bin').read_bytes()


def segments(elf):
    """(physical address, bytes, bytes of zeros behind them) of each; and the entry's physical address."""
    entry, at = struct.unpack_from('<QQ', elf, 24)
    size, count = struct.unpack_from('<HH', elf, 54)
    out = []
    for i in range(count):
        kind, _, offset, _, physical, in_file, in_memory = struct.unpack_from('<IIQQQQQ', elf, at + i * size)
        if kind == 1:
            out.append((physical, elf[offset:offset + in_file], in_memory - in_file))
    return out, entry - KERNEL_BASE


def tag(kind, body):
    text = struct.pack('<II', kind, 8 + len(body)) + body
    return text + bytes(-len(text) % 8)


def information(args, memory, modules):
    """The structure, and where in it the ACPI root pointer goes. memory: (start, bytes, type)."""
    tags = tag(14, bytes(20)) + tag(1, args.encode() + b'\0')
    for start, end in modules:
        tags += tag(3, struct.pack('<II', start, end) + b'\0')
    tags += tag(6, struct.pack('<II', 24, 0) + b''.join(struct.pack('<QQII', *entry, 0) for entry in memory))
    tags += tag(0, b'')
    return struct.pack('<II', 8 + len(tags), 0) + tags, 16


def make(out, elf, args, memory, modules=()):
    loader = assembled(out.parent)
    parts, entry = segments(Path(elf).read_bytes())
    info, rsdp = information(args, memory, modules)
    at = LOADER + len(loader) + 4 * (3 + 4 * len(parts) + 1)
    at += -at % 16
    words, blob = [at, at + rsdp, entry], info
    for physical, content, zeros in parts:
        words += [physical, at + len(blob), len(content), zeros]
        blob += content
    head = loader + struct.pack(f'<{len(words) + 1}I', *words, 0)
    out.write_bytes(head + bytes(-len(head) % 16) + blob)
