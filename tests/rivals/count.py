#!/usr/bin/env python3
"""Instructions an operation of one contender of `./hayloft rivals`, function by function: the bill behind a row.

  tests/rivals/count.py CONTENDER TEST [OPERATIONS]       from the top of a checkout, after `ninja rivals`

CONTENDER: on, off, or a rival of rivals.toml. Counted by valgrind's callgrind inside the workload's loop, so a busy
machine changes nothing but the turns that CPUs wait for each other (bench_meet, and the loops of remote and xmalloc).
A batch is 10,000 objects: an allocation and its free are counted together, by function. Library functions without a
symbol are shown by address. What an instruction costs it does not know: a locked one is one instruction too.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
from telemetry import rivals  # noqa: E402

OPERATIONS = 20000
SHOWN = 0.05  # of an instruction


def costs(text):
    """{(object file, function): instructions of its own} of a callgrind file."""
    found, where, function, called = collections.Counter(), '', '', False
    for line in text.splitlines():
        if line.startswith('ob='):
            where = os.path.basename(line[3:])
        elif line.startswith('fn='):
            function = line[3:]
        elif line.startswith('calls='):
            called = True  # the next line is the callee's cost, which has lines of its own
        elif re.match(r'[\d+*-]', line) and ' ' in line:
            if not called:
                found[where, function] += int(line.split()[1])
            called = False
    return found


def count(contender, test, operations):
    """(operations done, costs) of one round."""
    runner = ROOT / rivals.RUNNERS['malloc' if contender.args is None else 'hayloft']
    with tempfile.TemporaryDirectory() as folder:
        bare, out = pathlib.Path(folder, runner.name), pathlib.Path(folder, 'out')
        # valgrind 3.19 gives up over clang's debug information; names come from the symbol table.
        subprocess.run(['objcopy', '--strip-debug', runner, bare], check=True)
        done = subprocess.run(
            ['valgrind', '--tool=callgrind', f'--callgrind-out-file={out}', '--toggle-collect=*_run',
             '--compress-strings=no', '--compress-pos=no', bare, '2', '512', contender.args or ''],
            input=f'COUNT {test} {operations}\n', capture_output=True, text=True, check=False,
            env={'PATH': os.environ['PATH'], 'LD_PRELOAD': ':'.join(contender.libraries)})
        said = re.search(r'^ok \S+ (\d+)', done.stdout, re.M)
        if not said:
            sys.exit(f'count.py: {contender.name}: {done.stdout.splitlines()[-1:] or done.stderr[-500:]}')
        return int(said[1]), costs(out.read_text())


def main(words):
    if len(words) not in (2, 3):
        sys.exit(__doc__.split('\n\n')[1].strip())
    if not shutil.which('valgrind'):
        print('count.py: valgrind is not installed (Debian: valgrind)', file=sys.stderr)
        return 4
    arms, others, _ = rivals.choose(rivals.load())
    known = {one.name: one for one in (*arms, *others)}
    if words[0] not in known:
        sys.exit(f'count.py: no contender is called {words[0]}; there are {", ".join(known)}')
    done, found = count(known[words[0]], words[1], int(words[2]) if len(words) == 3 else OPERATIONS)
    for (where, function), cost in found.most_common():
        if cost / done >= SHOWN:
            print(f'{cost / done:8.1f}  {function}  ({where})')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
