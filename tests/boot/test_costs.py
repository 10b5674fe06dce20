"""What the fast paths cost, exactly: instructions an operation under icount, compared with the table in costs.toml.

The figures are of one image from one compiler, loop included, on every host the same. A change that moves one shows it
here and says so in its commit; `HAYLOFT_COSTS=write` measures all and rewrites the table.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name('costs.toml')
COSTS = tomllib.loads(TABLE.read_text())
TOLERANCE = 0.1
OPERATIONS = 10000


def compiler():
    return subprocess.run([shutil.which('clang'), '--version'], capture_output=True, text=True,
                          check=True).stdout.split('clang version ')[1].split()[0]


def measure(boot, group, tests):
    """Test name → instructions an operation, the median of three rounds (they are equal)."""
    done = boot(f'kbench=3 kbench.ops={OPERATIONS} tests={",".join(tests)} {group["args"]}', kind='icount',
                timeout=180, cpus=group.get('cpus', 2)).sound()
    names = {r.body['id']: r.body['name'] for r in done.all('object') if r.body['kind'] == 'test'}
    found = {}
    for record in done.all('bench'):
        if record.body['phase'] == 'result':
            found.setdefault(names[record.body['test']], []).append(
                record.body['cycles'] / record.body['operations'])
    for name, rounds in found.items():
        assert max(rounds) - min(rounds) <= group.get('tolerance', TOLERANCE), f'{name} does not repeat: {rounds}'
    return {name: sorted(rounds)[1] for name, rounds in found.items()}


def write(group, found):
    """Puts the measured figures of one group into the table, leaving everything else as it stands."""
    lines, here = [], False
    for line in TABLE.read_text().splitlines():
        if line.startswith('['):
            here = line == f'[{group}.instructions]'
        name = line.split('=')[0].strip().strip('"')
        if here and name in found:
            line = f'"{name}" = {found[name]:.1f}'
        lines.append(line)
    TABLE.write_text('\n'.join(lines) + '\n')


@pytest.mark.parametrize('group', [name for name in COSTS if name != 'compiler'])
def test_costs(boot, group):
    if compiler().split('-')[0] != COSTS['compiler']['version']:
        pytest.fail(f'the table was made with clang {COSTS["compiler"]["version"]}, this is {compiler()}: '
                    'HAYLOFT_COSTS=write makes it anew')
    expected = COSTS[group]['instructions']
    found = measure(boot, COSTS[group], expected)
    if os.environ.get('HAYLOFT_COSTS') == 'write':
        write(group, found)
        return
    moved = {name: (expected[name], round(found[name], 2)) for name in expected
             if abs(found[name] - expected[name]) > COSTS[group].get('tolerance', TOLERANCE)}
    assert not moved, f'instructions an operation (table, measured): {moved}'


@pytest.mark.parametrize('group', [name for name in COSTS if 'at_most' in COSTS[name]])
def test_targets(group):
    """The table itself keeps what was promised of it."""
    for name, limit in COSTS[group]['at_most'].items():
        assert COSTS[group]['instructions'][name] <= limit, name
