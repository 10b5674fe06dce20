"""A real A/A campaign: runs of null.toml, whose arms are the same, and how many of them gave a verdict all the same.

The method promises that at most one such run in twenty says anything (EXPERIMENTS, Statistics). A test of that on a
real machine can only be statistical: it fails if so many false verdicts would come from a true rate of 5 % less than
once in a thousand campaigns. The figures themselves are the result, so they are printed and kept, run by run, in
build/check/campaign-MACHINE.json: which tests were claimed, at which ratio, with which p.

Twenty runs on tcg take over an hour, sixty on host as long, so --long only. HAYLOFT_CAMPAIGN=3 makes each 3 runs.
"""

import json
import math
import os
import subprocess

import pytest

from booting import BUILD, ROOT

CLAIMS = ('faster', 'slower')
RATE = 0.05
RESUMES = 5  # of a run whose boots a busy host made void


def most_expected(runs, rate=RATE, chance=0.001):
    """The largest number of claims that is not yet rarer than `chance` (in it, or above it)."""
    def at_least(k):
        return sum(math.comb(runs, n) * rate ** n * (1 - rate) ** (runs - n) for n in range(k, runs + 1))
    return max(k for k in range(runs + 1) if at_least(k) > chance)


def test_the_limit():
    assert [most_expected(runs) for runs in (20, 60)] == [5, 9]
    assert most_expected(1) == 1, 'one run can prove nothing'


def hayloft(*words):
    return subprocess.run([ROOT / 'hayloft', '--yes', *words, '--live', 'off'], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600, check=False)


def one_run(out, kind):
    """What one run claimed. complete: False where a busy host left it without enough boots, resumed or not."""
    done = hayloft('run', 'experiments/null.toml', '--machine', kind, '--out', out)
    for _ in range(RESUMES):
        if done.returncode == 3:
            done = hayloft('resume', out)
    assert done.returncode in (0, 3), done.stdout
    results = json.loads((out / 'results.json').read_text())
    outcomes = [boot['outcome'] for boot in results['boots']]
    if done.returncode == 3:
        assert 'not parallel' in outcomes, done.stdout
        return {'complete': False, 'outcomes': outcomes, 'claims': []}
    tests = [(test, test['versus']['B']) for test in results['tests']]
    assert tests, done.stdout
    return {'complete': True, 'outcomes': outcomes, 'verdicts': {test['name']: found['verdict'] for test, found in tests},
            'claims': [{'test': test['name'], 'ratio': found['ratio'], 'p': found['p'], 'verdict': found['verdict']}
                       for test, found in tests if found['verdict'] in CLAIMS]}


@pytest.mark.long
@pytest.mark.parametrize('kind, runs', [('tcg', 20), ('host', 60)])
def test_alike_arms_on_a_real_machine(tmp_path, kind, runs):
    runs = int(os.environ.get('HAYLOFT_CAMPAIGN', runs))
    report = BUILD / 'check' / f'campaign-{kind}.json'
    report.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for number in range(runs):
        found.append(one_run(tmp_path / f'run{number}', kind))
        report.write_text(json.dumps({'machine': kind, 'planned': runs, 'runs': found}, indent=1) + '\n')
    whole = [run for run in found if run['complete']]
    false = [run for run in whole if run['claims']]
    print(f'{kind}: {len(false)} of {len(whole)} A/A runs gave a verdict ({runs - len(whole)} incomplete): '
          f'{[claim for run in false for claim in run["claims"]]}')
    assert len(whole) >= max(1, runs // 2), 'the host is too busy for a campaign'
    assert len(false) <= most_expected(len(whole)), false
