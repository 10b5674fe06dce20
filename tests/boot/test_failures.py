"""What the metal kernel does when it cannot go on, in the places that an ordinary boot never comes to: before there is
a CPU table, without memory, under an operator's NMI, and when nobody is left to end a hang."""

import json
import os
import socket
import subprocess
import time

import booting
import pytest
import quiet
from booting import FAILED, PANIC, REFUSED
from telemetry.machine import base, qemu


class Machine:
    """A QEMU whose monitor stays open, for what can only be done to a machine that runs."""

    def __init__(self, folder, args, cpus=2, memory='512M', extra=(), variant='release', ports=(1, 2)):
        self.folder = folder
        machine = base.Machine(kind='tcg', requested='tcg', cpus=cpus, memory=memory, timeout=60.0)
        self.monitor, theirs = socket.socketpair()
        arguments = os.memfd_create('arguments')
        os.write(arguments, (qemu.PREFIX + args).encode())
        argv = qemu.command(machine, booting.BUILD / variant / 'hayloft.iso', arguments, theirs.fileno(),
                            extra=extra)
        for com, name in enumerate(('console', 'telemetry'), 1):  # by number: a first port may be what is missing
            at = argv.index(f'chardev:{name}')
            argv[at - 1:at + 1] = ['-device', f'isa-serial,index={com - 1},chardev={name}'] if com in ports else []
        if '-S' not in extra:  # held until a debugger lets it go
            argv.remove('-S')
        self.process = subprocess.Popen(argv, cwd=folder, pass_fds=(arguments, theirs.fileno()),
                                        stdin=subprocess.DEVNULL)
        theirs.close()
        os.close(arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.monitor.close()

    def command(self, *verbs):
        for verb in verbs:
            self.monitor.sendall(json.dumps({'execute': verb}).encode() + b'\n')

    def ask(self, line):
        """What the monitor for people answers."""
        self.command('qmp_capabilities')
        order = {'execute': 'human-monitor-command', 'arguments': {'command-line': line}, 'id': 'ask'}
        self.monitor.sendall(json.dumps(order).encode() + b'\n')
        self.monitor.settimeout(30)
        with self.monitor.makefile('rb') as answers:
            while (answer := json.loads(answers.readline())).get('id') != 'ask':
                pass
        return answer['return']

    def console(self):
        path = self.folder / 'console.log'
        return path.read_text(errors='replace') if path.exists() else ''

    def wait_for(self, text, seconds=30):
        until = time.monotonic() + quiet.patient(seconds)
        while text not in self.console():
            assert time.monotonic() < until, f'no {text!r} on the console:\n{self.console()}'
            assert self.process.poll() is None, f'ended before {text!r}:\n{self.console()}'
            time.sleep(0.05)

    def end(self, seconds=30):
        return self.process.wait(timeout=quiet.patient(seconds))


def test_panic_before_the_cpu_table_exists(boot):
    done = boot('kbench=0 provoke=early-panic', cpus=3)
    assert done.exit_status == PANIC, done.story()
    panic = done.one('panic')
    assert (panic['name'], panic['cpu'], panic['others']) == ('provoked', 0, [])
    assert 'kernel_entry' in [symbol for _, symbol, _ in panic['backtrace']]
    assert 'HAYLOFT-PANIC kind=' in done.console


@pytest.mark.parametrize('variant', ['release', 'debug'])
@pytest.mark.parametrize('memory', ['4M', '6M'])
def test_too_little_memory_is_refused_with_what_would_do(tmp_path, memory, variant):
    """GRUB has no word for an image that it finds no room for, so it must find room."""
    with Machine(tmp_path, 'kbench=0', memory=memory, variant=variant) as machine:
        assert machine.end() == REFUSED, machine.console()
        line = [text for text in machine.console().splitlines() if 'HAYLOFT-REFUSED' in text]
        assert len(line) == 1, machine.console()
        have, need = (int(line[0].split(key + '=')[1].split()[0]) for key in ('have', 'need'))
        assert have < need < 64 << 20
    records, faults, _ = booting.read(tmp_path)
    assert faults == [] and [record.type for record in records] == ['bye']
    assert records[0].body['reason'] == f'too little memory: {have >> 10} KiB usable, {need >> 10} KiB needed'


def test_an_operators_nmi_tells_where_each_cpu_is_and_the_boot_goes_on(tmp_path):
    with Machine(tmp_path, f'kbench=0 selfcheck=0 deadline={quiet.ms(8)} provoke=hang') as machine:
        machine.wait_for('Hayloft:')
        time.sleep(1)
        machine.command('qmp_capabilities', 'inject-nmi')
        machine.wait_for('NMI on cpu')
        assert machine.end(60) == FAILED, machine.console()
        before, after = machine.console().split('HAYLOFT-DEADLINE', 1)
        assert 'provoke_in_lab' in before, machine.console()
        assert 'HAYLOFT-PANIC' not in machine.console()
        assert 'provoke_in_lab' in after, 'the deadline does not tell where the boot hung'


def test_deadline_is_kept_for_a_cpu_that_cannot_keep_it(boot):
    done = boot(f'kbench=0 selfcheck=0 deadline={quiet.ms(3)} provoke=hang-off', cpus=3, timeout=40)
    assert done.exit_status == FAILED, done.story()
    assert done.one('bye')['outcome'] == 'deadline'
    place = done.console.split('\ncpu0:\n', 1)[1].split('\ncpu', 1)[0]
    assert 'provoke_in_lab' in place, done.story()


def test_a_hang_that_nobody_can_end_is_the_tools_to_end(boot):
    done = boot('kbench=0 selfcheck=0 deadline=1s provoke=hang-off', cpus=1, timeout=8)
    assert done.timed_out, done.story()
    assert done.all('bye') == []
