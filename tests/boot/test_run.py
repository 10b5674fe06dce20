"""The path from end to end, as a user walks it: ./hayloft, an experiment file, an archive, a verdict."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

import quiet
from booting import ROOT

HAYLOFT = ROOT / 'hayloft'
BOOT_SECONDS = 40  # that quick.toml gives a boot


def hayloft(*arguments, timeout=600, cwd=None):
    return subprocess.run([HAYLOFT, '--yes', *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=quiet.patient(timeout), cwd=cwd, stdin=subprocess.DEVNULL, check=False)


def machines_running(folder):
    """Command lines of machines whose boot folder is below this one."""
    found = []
    for pid in os.listdir('/proc'):
        if pid.isdigit():
            try:
                where = os.readlink(f'/proc/{pid}/cwd')
            except OSError:
                continue
            if where.startswith(str(folder)):
                found.append((pid, where))
    return found


def too_busy(found):
    """Why a run is no good that the host had no parallel CPUs for; '' for any other, good or bad."""
    out, _, done = found
    spoiled = done.returncode == 3 and outcomes_of(out) <= {'ok', 'not parallel'}
    return 'boots were not parallel' if spoiled else ''


@pytest.fixture(scope='module')
def quick(tmp_path_factory):
    """One run of quick.toml, for the tests that look at what it left. A run that found the host too busy for
    parallel CPUs (and only such a run) is made again, in the end on one CPU, which is always parallel."""
    def run(*words):
        out = tmp_path_factory.mktemp('quick') / 'run'
        if quiet.patient(BOOT_SECONDS) > BOOT_SECONDS:  # a slow boot is not to be a void one
            words += '--set', f'machine.timeout={quiet.ms(BOOT_SECONDS)}ms'
        begin = time.monotonic()
        done = hayloft('run', 'experiments/quick.toml', '--live', 'off', '--out', out, *words, cwd=ROOT)
        return out, (time.monotonic() - begin) / quiet.stretch(), done

    found = quiet.again(run, too_busy, tries=2)
    if too_busy(found):
        quiet.say('once more, on one CPU')
        found = run('--set', 'machine.cpus=1')
    out, seconds, done = found
    assert done.returncode == 0, done.stdout
    return out, seconds, done.stdout


def outcomes_of(out):
    return {boot['outcome'] for boot in json.loads((out / 'results.json').read_text())['boots']}


def test_quick_is_quick(quick):
    """On a host at rest; on another, less what that took."""
    _, seconds, _ = quick
    assert seconds < 60


def test_archive_is_complete(quick):
    out, _, text = quick
    for name in ('experiment.toml', 'run.json', 'results.json', 'report.md', 'report.html', 'image/kernel.elf'):
        assert (out / name).is_file(), name
    boots = sorted(p.name for p in (out / 'boots').iterdir())
    assert [name[:4] for name in boots if len(name) == 4] == ['01-A', '01-B', '02-A', '02-B'], boots
    for boot in boots:
        for name in ('boot.json', 'console.log', 'telemetry.bin', 'qemu.log', 'result.json'):
            assert (out / 'boots' / boot / name).is_file(), f'{boot}/{name}'
    assert str(out) in text, 'the report path is not printed'


def test_results_have_the_documented_shape(quick):
    out, _, _ = quick
    results = json.loads((out / 'results.json').read_text(),
                         parse_constant=lambda c: pytest.fail(f'{c} in results.json'))
    assert results['schema'] == 1 and results['reference'] == 'A'
    names = [test['name'] for test in results['tests']]
    assert 'malloc/64/all-cpus' in names and 'malloc/4096/solo' in names
    for test in results['tests']:
        assert test['unit'] == 'ns/op'
        for arm in ('A', 'B'):
            assert test['arms'][arm]['median'] > 0
            assert len(test['arms'][arm]['boots']) == 2
        assert test['versus']['B']['verdict'] == 'undecided', 'two pairs can decide nothing'
    last = {c['name']: c for c in results['counters']}
    assert all(c['test'] is None and c['cache'] is None for c in last.values())
    assert any(lock['arms']['A']['acquisitions'] for lock in results['locks'])


def test_report_rebuilds_from_raw_bytes(quick):
    out, _, _ = quick
    before = json.loads((out / 'results.json').read_text())
    (out / 'results.json').unlink()
    for result in (out / 'boots').glob('*/result.json'):
        result.unlink()
    done = hayloft('report', out)
    assert done.returncode == 0, done.stdout
    assert json.loads((out / 'results.json').read_text()) == before


def test_typing_error_in_an_arm_boots_nothing(tmp_path):
    text = (ROOT / 'experiments' / 'quick.toml').read_text()
    wrong = tmp_path / 'wrong.toml'
    wrong.write_text(text.replace('front=bounded', 'frnt=bounded', 1))
    assert 'frnt=bounded' in wrong.read_text()
    out = tmp_path / 'run'
    done = hayloft('run', wrong, '--out', out)
    assert done.returncode == 2, done.stdout
    assert len(done.stdout.strip().splitlines()) == 1
    assert 'frnt' in done.stdout and re.search(r'\bfront\b', done.stdout)
    assert not out.exists()


def test_the_kernel_refuses_what_was_not_checked():
    done = hayloft('boot', '--no-check', '--args', 'frnt=bounded')
    assert done.returncode == 2, done.stdout
    assert 'refused' in done.stdout and 'front' in done.stdout


@pytest.mark.parametrize('how, status', [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_stopped_in_the_middle(tmp_path, how, status):
    """Whatever ends the tool, no machine outlives it and what is archived stays readable."""
    out = tmp_path / 'run'
    tool = subprocess.Popen([HAYLOFT, '--yes', 'run', 'experiments/quick.toml', '--live', 'off', '--out', out],
                            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + quiet.patient(60)
        while not machines_running(out) and time.monotonic() < deadline:
            assert tool.poll() is None, tool.stdout.read().decode()
            time.sleep(0.1)
        assert machines_running(out), 'no machine was started'
        time.sleep(1.5)
        tool.send_signal(how)
        tool.communicate(timeout=quiet.patient(20))
    finally:
        tool.kill()
    assert tool.returncode == status
    deadline = time.monotonic() + quiet.patient(3)
    while machines_running(out) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert machines_running(out) == []
    run = json.loads((out / 'run.json').read_text())
    assert run['experiment'] == 'quick'
    assert (out / 'experiment.toml').read_bytes() == (ROOT / 'experiments' / 'quick.toml').read_bytes()
    done = hayloft('resume', out, '--live', 'off')
    outcomes = outcomes_of(out)
    # Boots of a busy host are void, which is right, and may leave a pair incomplete: status 3.
    assert done.returncode == (3 if 'not parallel' in outcomes and done.returncode else 0), done.stdout
    assert outcomes <= {'ok', 'incomplete', 'not parallel'}, done.stdout
    assert json.loads((out / 'run.json').read_text())['state'] == 'done'


@pytest.mark.long
def test_null_gives_no_verdict(tmp_path):
    out = tmp_path / 'run'
    done = hayloft('run', 'experiments/null.toml', '--live', 'off', '--out', out, cwd=ROOT, timeout=1800)
    assert done.returncode == 0, done.stdout
    tests = json.loads((out / 'results.json').read_text())['tests']
    assert tests and all(t['versus']['B']['verdict'] in ('no difference', 'undecided') for t in tests)


@pytest.mark.long
@pytest.mark.parametrize('machine', ['tcg', 'host'])
def test_magazines(tmp_path, machine):
    """The question that the project started from."""
    out = tmp_path / 'run'
    done = hayloft('run', 'experiments/magazines.toml', '--machine', machine, '--live', 'off', '--out', out, cwd=ROOT,
                   timeout=1800)
    assert done.returncode == 0, done.stdout
    results = json.loads((out / 'results.json').read_text())
    verdicts = {t['name']: t['versus']['B']['verdict'] for t in results['tests']}
    assert verdicts['malloc/64/all-cpus'] == 'faster'
    if machine == 'tcg':
        assert verdicts['yield/solo'] == 'no difference'
        good = [b for b in results['boots'] if b['outcome'] == 'ok']
        assert len(good) == 12 and all(b['lost'] == 0 for b in good)
    else:
        assert 'yield/solo' in [s['name'] for s in results['skipped']]
