"""Every way a boot can end, as a user meets it: the outcome and its reason, the exit code, and what the archive holds.

The boots go through `./hayloft boot`, so what is tested is the whole path: kernel, machine, decoder, classification.
What the records of a fault look like is for test_faults and test_failures.
"""

import json
import os
import signal
import subprocess
import time

import pytest

import quiet
from booting import FAILED, OK, PANIC, ROOT, read

OK_EXIT, REFUSED_EXIT, BOOTS_EXIT = 0, 2, 3
QUIET = 'kbench=0 selfcheck=0'


class Ended:
    """One boot by the tool, and what it left in its folder."""

    def __init__(self, folder, args, cpus=2, timeout=60, **settings):
        self.folder = folder
        self.shared = 'telemetry.port=com1' in args
        self.timeout = quiet.patient(timeout)
        words = ['--set', f'machine.cpus={cpus}', '--set', f'machine.timeout={round(1000 * self.timeout)}ms']
        for key, value in {'memory': '512M', **settings}.items():
            words += ['--set', f'machine.{key}={value}']
        self.process = subprocess.Popen(
            [ROOT / 'hayloft', '--yes', 'boot', '--machine', 'tcg', '--args', args, '--out', folder, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self):
        try:
            self.out, self.err = self.process.communicate(timeout=self.timeout + quiet.patient(90))
        finally:
            self.process.kill()
        self.code = self.process.returncode
        return self

    def json(self, name):
        return json.loads((self.folder / name).read_text())

    def console(self):
        return (self.folder / 'console.log').read_bytes().decode(errors='replace')

    def story(self):
        return f'exit {self.code}\n{self.out[-4000:]}\n{self.err}'

    def check(self, outcome, reason, code, status):
        """The verdict, in boot.json and in the last line alike; and a whole archive."""
        boot = self.json('boot.json')
        assert self.code == code, self.story()
        assert boot['outcome'] == outcome and reason in boot['reason'], (boot['outcome'], boot['reason'], self.story())
        assert boot['exit_status'] == status, self.story()
        line = [text for text in self.out.splitlines() if text.startswith('outcome: ')]
        assert len(line) == 1 and line[0].startswith(f'outcome: {outcome}'), self.story()
        assert boot['reason'] in line[0] and self.err == '', self.story()
        names = sorted(path.name for path in self.folder.iterdir())
        assert names == ['boot.json', 'console.log', 'qemu.log', 'result.json', 'telemetry.bin'], names
        return boot

    def places(self, head):
        """CPU number → the lines of its place on the console, under `head` and its number."""
        found, place = {}, None
        for line in self.console().splitlines():
            if line.startswith(head) and line.endswith(':') and line[len(head):-1].isdigit():
                place = found.setdefault(int(line[len(head):-1]), [])
            elif line.startswith('  0x') and place is not None:
                place.append(line)
            else:
                place = None
        return found


@pytest.fixture
def end(tmp_path):
    def one(args, **settings):
        return Ended(tmp_path / 'boot', args, **settings).finish()
    return one


LONG = pytest.mark.long


@pytest.mark.parametrize('fault, cpu, place, port', [
    ('full@0', 0, 'panic_full', 'com2'),
    ('full@last', 2, 'panic_full', 'com1'),
    ('log-held', 0, 'panic_while_log_is_held', 'com2'),
    pytest.param('full@0', 0, 'panic_full', 'com1', marks=LONG),
    pytest.param('full@last', 2, 'panic_full', 'com2', marks=LONG),
    pytest.param('log-held', 0, 'panic_while_log_is_held', 'com1', marks=LONG)])
def test_panic(end, fault, cpu, place, port):
    """With its transmit ring full, on the first CPU and the last; with another holding the console's lock for good."""
    done = end(f'{QUIET} provoke={fault} telemetry.port={port}', cpus=3)
    done.check('panic', f'on CPU {cpu}', BOOTS_EXIT, PANIC)
    records, faults, _ = read(done.folder, done.shared)
    panics = [record.body for record in records if record.type == 'panic']
    assert len(panics) == 1 and panics[0]['cpu'] == cpu, done.story()
    assert {other for other, _ in panics[0]['others']} == {0, 1, 2} - {cpu}
    # The frame that was on its way may be cut; nothing else may be damaged.
    assert len([found for found in faults if found.kind == 'damage']) <= 1, faults
    places = done.places('cpu')
    assert set(places) == {0, 1, 2} and all(places.values()), done.console()
    assert place in ''.join(places[cpu]), done.console()
    if fault == 'log-held':
        assert place in ''.join(places[2]), 'the holder of the lock is not shown'
        return
    # What was in the ring follows the panic's record, whole and in order, up to where it was full.
    flood = [record.body['values']['n'] for record in records
             if record.type == 'event' and record.body['text'] == 'flood']
    assert flood == list(range(len(flood))) and 200 < len(flood) < 999, flood[-3:]


def test_a_full_ring_is_owned_up_to(end):
    """Not every record fits: the boot goes on, and the loss is told by the kernel and counted by the host alike."""
    done = end(f'{QUIET} provoke=flood', cpus=1)
    done.check('ok', '', OK_EXIT, OK)
    records, faults, _ = read(done.folder)
    lost = [record.body for record in records if record.type == 'lost']
    assert len(lost) == 1 and lost[0]['stream'] == 0 and lost[0]['from'] < lost[0]['to']
    assert [(found.kind, found.stream, found.count) for found in faults] == [('gap', 0, lost[0]['count'])]
    assert done.json('result.json')['lost'] == lost[0]['count'] > 500


def test_reset(end):
    done = end(f'{QUIET} provoke=reset')
    done.check('reset', 'triple fault', BOOTS_EXIT, 0)
    assert done.json('result.json')['hello']['args'].startswith(QUIET)


@pytest.mark.parametrize('cpus', [1, 3])
def test_hang(end, cpus):
    """Interrupts off, no deadline of the kernel's: the tool ends it, but first has each CPU say where it is."""
    done = end(f'{QUIET} deadline=0 provoke=hang-off', cpus=cpus, timeout=5)
    boot = done.check('hang', 'silent', BOOTS_EXIT, None)
    places = done.places('NMI on cpu')
    assert set(places) == set(range(cpus)) and all(places.values()), done.console()
    assert 'provoke_in_lab' in ''.join(places[0])
    assert boot['seconds'] < done.timeout + quiet.patient(7)


def test_deadline(end):
    done = end(f'{QUIET} deadline={quiet.ms(3)} provoke=hang-off', cpus=3)
    done.check('timeout', 'outlived deadline=', BOOTS_EXIT, FAILED)
    places = done.places('cpu')
    assert set(places) == {0, 1, 2} and 'provoke_in_lab' in ''.join(places[0]), done.console()


@pytest.mark.parametrize('fault, reason', [('selfcheck', 'self-check before'), ('badfree', 'bad frees, where')])
def test_selfcheck(end, fault, reason):
    done = end(f'kbench=0 provoke={fault}')
    done.check('self-check', reason, BOOTS_EXIT, FAILED)


def test_qemu_that_is_killed(tmp_path):
    done = Ended(tmp_path / 'boot', f'{QUIET} deadline=0 provoke=hang')
    until = time.monotonic() + quiet.patient(60)
    while not (done.folder / 'telemetry.bin').exists() or (done.folder / 'telemetry.bin').stat().st_size < 1000:
        assert time.monotonic() < until and done.process.poll() is None
        time.sleep(0.05)
    [pid] = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and works_in(pid, done.folder)]
    os.kill(pid, signal.SIGKILL)
    done.finish()
    done.check('incomplete', 'killed from outside (SIGKILL)', BOOTS_EXIT, -signal.SIGKILL)


def works_in(pid, folder):
    try:
        return os.readlink(f'/proc/{pid}/cwd') == str(folder)
    except OSError:
        return False


def test_qemu_that_cannot_start(end):
    """More memory than any host has: the reason is QEMU's own last line, and its log keeps it."""
    done = end(QUIET, memory='8000G')
    boot = done.check('failed-start', 'memory', BOOTS_EXIT, 1)
    said = (done.folder / 'qemu.log').read_text().splitlines()[-1].strip()
    assert said and boot['reason'].endswith(said)
    assert (done.folder / 'telemetry.bin').stat().st_size == 0
