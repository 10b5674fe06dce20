"""A QEMU's gdb stub, as far as tests need it: stop at an address, then let some CPUs go on and hold the others.

That is how a test stops one CPU in the middle of something for good, from outside and with the image that is measured.
CPUs are gdb's threads, 1 and up. The stub listens on a socket of the boot's own folder.
"""

import socket
import subprocess
import time

import quiet


class Gdb:
    def __init__(self, path, seconds=60):
        self.socket = socket.socket(socket.AF_UNIX)
        seconds = quiet.patient(seconds)
        self.socket.settimeout(seconds)
        until = time.monotonic() + seconds
        while True:
            try:
                self.socket.connect(str(path))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < until, 'no gdb stub'
                time.sleep(0.05)
        self.received = b''
        self.ask('qSupported:multiprocess-;vContSupported+')

    def close(self):
        self.socket.close()

    def send(self, text):
        body = text.encode()
        self.socket.sendall(b'$' + body + b'#%02x' % (sum(body) & 255))

    def answer(self):
        """The next packet: what stands between $ and #, acknowledged."""
        while True:
            begin = self.received.find(b'$')
            end = self.received.find(b'#', begin)
            if 0 <= begin < end and len(self.received) >= end + 3:
                body = self.received[begin + 1:end]
                self.received = self.received[end + 3:]
                self.socket.sendall(b'+')
                return body.decode()
            more = self.socket.recv(4096)
            assert more, 'QEMU has closed its gdb stub'
            self.received += more

    def ask(self, text):
        self.send(text)
        return self.answer()

    def run_to(self, address):
        """Everybody goes on until one CPU is about to execute the instruction there; returns its thread."""
        assert self.ask(f'Z1,{address:x},1') == 'OK'
        stop = self.ask('vCont;c')
        assert self.ask(f'z1,{address:x},1') == 'OK'
        assert stop.startswith('T05'), stop
        return stop.split('thread:')[1].split(';')[0]

    def go(self):
        """Everybody goes on, and nobody is waited for."""
        self.send('vCont;c')

    def read(self, address, size):
        """Memory as the CPU that stopped last sees it."""
        answer = self.ask(f'm{address:x},{size:x}')
        assert len(answer) == 2 * size, answer
        return bytes.fromhex(answer)

    def write(self, address, data):
        assert self.ask(f'M{address:x},{len(data):x}:{data.hex()}') == 'OK'

    def hold(self, held):
        """Everybody but one goes on. All CPUs are stopped when this is called."""
        threads, answer = [], self.ask('qfThreadInfo')
        while answer.startswith('m'):
            threads += answer[1:].split(',')
            answer = self.ask('qsThreadInfo')
        assert held in threads, (held, threads)
        self.send(''.join(['vCont', *(f';c:{thread}' for thread in threads if thread != held)]))


def symbol(elf, name):
    listing = subprocess.run(['nm', str(elf)], check=True, capture_output=True, text=True).stdout
    found = [line.split()[0] for line in listing.splitlines() if line.split()[-1] == name]
    assert len(found) == 1, f'{len(found)} symbols {name}'
    return int(found[0], 16)
