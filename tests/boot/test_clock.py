"""The kernel's idea of how fast its clock runs, on a quiet host and on one where every core is fought over.

The whole figure of a run hangs on it: a calibration that loses its time slice must notice, not guess.
"""

import os
import subprocess
import sys

BUSY = 'import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass'


def frequency(boot):
    return boot('kbench=0 selfcheck=0').sound().one('hello')['tsc_hz']


def test_a_busy_host_does_not_bend_the_clock(boot):
    found = [frequency(boot) for _ in range(2)]
    busy = [subprocess.Popen([sys.executable, '-c', BUSY]) for _ in range(6)]
    try:
        found += [frequency(boot) for _ in range(20 if os.environ.get('HAYLOFT_LONG') else 4)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert max(found) < 1.002 * min(found), found
