"""One boot of an image: the processes are the tool's, the judgement is the test's.

boot() returns everything that came out of it: exit status, console text, the decoded records and every fault that
the decoder found. Boot.sound() says what any good boot must satisfy, so that each test asks it and then looks at
what it is about. Limits of time are those of a host at rest; on a busy one they grow (quiet.py), the kernel's own deadline too
where a boot measures something and its arguments name none.
"""

from dataclasses import dataclass, field
from pathlib import Path

import quiet
from telemetry import decode
from telemetry.machine import base, host, qemu

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / 'build'
OK, PANIC, REFUSED, FAILED = 33, 35, 37, 39


@dataclass
class Boot:
    exit_status: int | None
    timed_out: bool
    seconds: float
    console: str
    records: list
    faults: list
    folder: Path
    totals: dict = field(default_factory=dict)

    def all(self, kind):
        return [r for r in self.records if r.type == kind]

    def one(self, kind):
        found = self.all(kind)
        assert len(found) == 1, f'{len(found)} {kind} records\n{self.story()}'
        return found[0].body

    def lost(self):
        """Records offered, less records that came, by stream, as the last record's totals tell it."""
        offered = {stream: (count, lost) for stream, count, lost in self.one('bye')['totals']}
        return {stream: lost for stream, (_, lost) in offered.items() if lost}

    def story(self):
        return (f'exit status {self.exit_status}, timed out: {self.timed_out}, {self.seconds} s, '
                f'faults: {self.faults[:5]}\nconsole:\n{self.console[-3000:]}\n'
                f'its own words:\n{(self.folder / "qemu.log").read_text(errors="replace")[:6000]}')

    def sound(self, outcome='ok', status=OK):
        """Ended as meant, said so itself, and not one byte of the stream was damaged."""
        assert not self.timed_out, self.story()
        assert self.exit_status == status, self.story()
        assert self.faults == [], self.story()
        assert self.one('bye')['outcome'] == outcome, self.story()
        assert self.records[0].type == 'hello', self.story()
        return self


def read(folder, shared_line=False):
    records, faults, text = [], [], b''
    name = 'console.log' if shared_line else 'telemetry.bin'
    for item in decode.decode_file(folder / name, shared_line=shared_line):
        if isinstance(item, decode.Record):
            records.append(item)
        elif isinstance(item, decode.Fault):
            faults.append(item)
        else:
            text += item.data
    return records, faults, text


def boot(folder, args, cpus=2, memory='512M', topology='', chipset='q35', timeout=60.0, variant='release',
         kind='tcg', shared_line=False, extra=(), iso=None):
    """Boots build/<variant>. args None: no argument string is passed at all. extra: options of QEMU's, such as -cpu.
    iso: another image than the build's."""
    limit = quiet.patient(timeout)
    if limit > timeout and args and 'kbench=' in args and 'deadline=' not in args:
        args += f' deadline={round(1000 * limit)}'
    machine = base.Machine(kind=kind, requested=kind, cpus=cpus, memory=memory, timeout=limit,
                           topology=topology)
    if kind == 'host':
        image = base.Image(elf=BUILD / variant / 'hayloft-host', iso=None, checksum='', hosted=True)
        running = host.start(machine, image, args, folder)
    else:
        image = base.Image(elf=BUILD / variant / 'kernel.elf', iso=iso or BUILD / variant / 'hayloft.iso',
                           checksum='', hosted=False)
        running = qemu.start(machine, image, args, folder, chipset=chipset, extra=extra)
    done = running.wait()
    records, faults, text = read(folder, shared_line)
    console = text if shared_line else (folder / 'console.log').read_bytes()
    return Boot(done.exit_status, done.timed_out, done.seconds, console.decode(errors='replace'), records, faults,
                folder)
