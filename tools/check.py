#!/usr/bin/env python3
"""check.py: the one gate. What `./hayloft test` and CI run, from formatting to booted kernels.

  tools/check.py [--long] [NAME…]      NAME: steps whose name contains it, else tests whose name contains it

Steps run in phases. Cheap static ones first, then the build, then the hosted tests beside the Python ones (two
lanes, two cores), and last the boots, alone, because a busy neighbour changes what a boot measures. Every step
is timed; its whole output is kept in build/check/. A tool that is missing fails its step where CI=true and is
skipped elsewhere, loudly, with its name in the last lines. So is a test that skips itself.

The last line is `N passed, N failed`: tests, summed over all steps; a static step counts as one.
"""

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests' / 'boot')]
import configure  # noqa: E402  (the lists of tests live there)
import quiet  # noqa: E402  (how much longer things take beside this host's other work)

LOGS = ROOT / 'build' / 'check'
IN_CI = os.environ.get('CI', '').lower() in ('1', 'true', 'yes')
# From util-linux, which every Debian has: the child is killed when the thread that started it is gone.
DIES_WITH_US = ['setpriv', '--pdeathsig', 'KILL', '--'] if shutil.which('setpriv') else []


@dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: list = field(default_factory=list)  # what did not run, and why
    output: str = ''

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.output += other.output


@dataclass(frozen=True)
class Step:
    name: str
    run: object  # (Options) -> Result
    phase: int
    lane: int = 0


@dataclass(frozen=True)
class Options:
    long: bool
    only: str  # a test's name or part of it, or ''


# -- running things ---------------------------------------------------------------------------------------

def spawn(command, env=None, timeout=600):
    """(status, output). The child has a process group of its own and dies with us; status None: timed out. timeout: on a
    host at rest."""
    timeout = quiet.patient(timeout)
    with subprocess.Popen(DIES_WITH_US + list(command), cwd=ROOT, env={**os.environ, **(env or {})},
                          start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as child:
        RUNNING.add(child.pid)
        try:
            out, _ = child.communicate(timeout=timeout)
            status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
            status = None
        finally:
            RUNNING.discard(child.pid)
    shown = shlex.join(map(str, command))
    text = f'$ {shown if len(shown) < 200 else shown[:200] + " …"}\n' + out.decode(errors='replace')
    if status is None:
        text += f'\ntimed out after {timeout} s\n'
    return status, text


RUNNING = set()


def end_children():
    for pid in list(RUNNING):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def missing(what, package):
    text = f'{what} is not installed (Debian: {package})'
    if IN_CI:
        return Result(failed=1, output=f'{text}; in CI that is a failure\n')
    return Result(skipped=[text])


def single(command, **options):
    """One command, one test."""
    status, text = spawn(command, **options)
    return Result(passed=int(status == 0), failed=int(status != 0), output=text)


# -- static steps -------------------------------------------------------------------------------------------

def step_fresh(_):
    status, text = spawn([sys.executable, 'configure.py', '--output', '-'])
    wanted = text.split('\n', 1)[1]
    if status == 0 and (ROOT / 'build.ninja').read_text(encoding='utf-8') == wanted:
        return Result(passed=1)
    return Result(failed=1, output='build.ninja is not what configure.py writes; run ./configure.py and commit'
                                   f' both\n{text if status else ""}')


def step_layers(_):
    return single([sys.executable, 'tools/check_layers.py'])


def c_files():
    return sorted(str(p.relative_to(ROOT)) for folder in ('base', 'sync', 'mm', 'kernel', 'drivers', 'arch',
                                                          'tests/host', 'tests/rivals')
                  for p in (ROOT / folder).rglob('*.[ch]'))


def step_format(_):
    if not shutil.which('clang-format'):
        return missing('clang-format', 'clang-format')
    return single(['clang-format', '--dry-run', '-Werror', *c_files()])


def step_shell(_):
    if not shutil.which('shellcheck'):
        return missing('shellcheck', 'shellcheck')
    return single(['shellcheck', 'hayloft', '.ci/run'])


def step_python(_):
    """Every Python file compiles."""
    result = Result()
    for path in sorted([ROOT / 'configure.py', *(ROOT / 'tools').rglob('*.py'),
                        *(ROOT / 'tests').rglob('*.py')]):
        try:
            compile(path.read_text(encoding='utf-8'), str(path), 'exec')
        except SyntaxError as error:
            result.output += f'{path.relative_to(ROOT)}:{error.lineno}: {error.msg}\n'
    result.failed, result.passed = int(bool(result.output)), int(not result.output)
    return result


# -- build, hosted tests ------------------------------------------------------------------------------------

def step_build(_):
    for tool, package in (('ninja', 'ninja-build'), ('clang', 'clang'), ('ld.lld', 'lld'),
                          ('xorriso', 'xorriso'), ('grub-mkimage', 'grub-common')):
        if not shutil.which(tool):
            return Result(failed=1, output=f'{tool} is not installed (Debian: {package})\n')
    return single(['ninja', 'all'])


def counted(status, text):
    """The counts of a test program's last line `N passed, N failed`; a program that says none has failed."""
    found = re.findall(r'^(\d+) passed, (\d+) failed$', text, re.M)
    if not found:
        return Result(failed=1, output=text)
    passed, failed = map(int, found[-1])
    if status != 0 and failed == 0:
        failed = 1
    return Result(passed, failed, output=text)


TEST_ENV = {'ASAN_OPTIONS': 'detect_leaks=0', 'UBSAN_OPTIONS': 'print_stacktrace=1'}


def hosted_tests(variant, options):
    result = Result()
    for name in sorted(configure.TESTS):
        if options.only and options.only not in name:
            continue
        env = {**TEST_ENV, 'HAYLOFT_LONG': '1' if options.long else ''}
        status, text = spawn([f'build/{variant}/tests/test_{name}'], env=env,
                             timeout=3600 if options.long else 180)
        result.add(counted(status, text))
    return result


def step_asan(options):
    return hosted_tests('host-asan', options)


def step_tsan(options):
    return hosted_tests('host-tsan', options)


def step_model(options):
    """Short programs of the allocator in every order of their atomic steps."""
    if options.only and options.only not in 'test_model':
        return Result()
    return counted(*spawn(['build/model/tests/test_model'], timeout=1200))


def mutant_survives(program, test):
    """'' if the test fails in that program, by whatever end; else what is wrong."""
    status, text = spawn([program, test], env=TEST_ENV, timeout=60)
    if status is None:
        return ''  # it waits for ever: that is noticed
    found = re.findall(r'^(\d+) passed, (\d+) failed$', text, re.M)
    if found and int(found[-1][0]) + int(found[-1][1]) != 1:
        return f'{program} {test}: not one test of that name'
    return '' if status else f'{program} {test}: passes all the same'


def mutants_in_sources():
    """Number → file, of every GUARD and GUARD_STEP; '' and what is wrong if one stands in two files."""
    found = {}
    for folder in ('base', 'sync', 'mm', 'kernel', 'arch'):
        for path in sorted((ROOT / folder).rglob('*.[ch]')):
            for number in re.findall(r'\bGUARD(?:_STEP)?\((\d+)', path.read_text(encoding='utf-8')):
                found.setdefault(int(number), set()).add(str(path.relative_to(ROOT)))
    return found


def step_mutants(options):
    """Each guard of tests/host/mutants.toml taken out: its test passes with it and fails without."""
    listed = configure.mutants()
    places = mutants_in_sources()
    wrong = [f'guard {n} stands in {sorted(places.get(n, ()))}, and is listed for {path}' for n, path, *_ in listed
             if places.get(n) != {path}]
    wrong += [f'guard {n} is listed {count} times' for n in places
              if (count := [line[0] for line in listed].count(n)) != 1]
    if wrong:
        return Result(failed=len(wrong), output='\n'.join(wrong) + '\n')
    listed = [line for line in listed if any(options.only in name for name in line[3:])]
    if not listed:
        return Result()
    status, text = spawn(['ninja', *(f'build/mutants/{n}/test' for n, *_ in listed)])
    if status != 0:
        return Result(failed=1, output=text)
    result = Result()
    for test, name in sorted({line[3:] for line in listed}):
        variant = 'model' if test == 'model' else 'host-asan'
        one = counted(*spawn([f'build/{variant}/tests/test_{test}', name], env=TEST_ENV, timeout=60))
        if (one.passed, one.failed) != (1, 0):
            result.add(Result(failed=1, output=f'{one.output}without a mutant, {name} of test_{test} has to pass\n'))
    for number, path, what, _, name in listed:
        survives = mutant_survives(f'build/mutants/{number}/test', name)
        result.add(Result(int(not survives), int(bool(survives)),
                          output=f'mutant {number} ({path}: {what}): {survives or "noticed"}\n'))
    return result


def fuzz_shortfall(text, floor):
    """What a target's own words say is missing to its floor; '' if nothing is."""
    executions = re.findall(r'^stat::number_of_executed_units:\s*(\d+)$', text, re.M)
    edges = re.findall(r'^#\d+\s+DONE\s+cov: (\d+) ', text, re.M)
    if not executions or not edges:
        return 'it did not say what it executed and covered'
    short = [f'{got} {what}, and {floor[what]} are asked for'
             for what, got in (('executions', int(executions[-1])), ('edges', int(edges[-1])))
             if got < floor[what]]
    return '; '.join(short)


def fuzz_floor(name, floor, scratch):
    """A fixed amount of work from the committed seeds alone: what it must reach is in tests/host/fuzz.toml."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    status, text = spawn([f'build/fuzz/fuzz_{name}', '-seed=1', f'-runs={floor["executions"]}',
                          '-print_final_stats=1', f'-artifact_prefix={scratch}-', str(scratch), *fuzz_seeds(name)],
                         timeout=300)
    short = fuzz_shortfall(text, floor) if status == 0 else f'exit status {status}'
    if short:
        text += f'fuzz_{name}: {short} (tests/host/fuzz.toml)\n'
    return Result(passed=int(not short), failed=int(bool(short)), output=text)


def fuzz_seeds(name):
    seeds = ROOT / 'tests' / 'host' / 'testdata' / name
    return [str(seeds)] if seeds.is_dir() else []


def fuzz_explore(name, seconds, corpus):
    """Anything it can think of in a while, on top of what earlier runs found."""
    corpus.mkdir(parents=True, exist_ok=True)
    return single([f'build/fuzz/fuzz_{name}', f'-max_total_time={seconds}', '-print_final_stats=1',
                   f'-artifact_prefix={corpus}-', str(corpus), *fuzz_seeds(name)], timeout=seconds + 120)


def step_fuzz(options):
    """Each target twice, first to its floor, then on; what it finds stays in build/."""
    floors = tomllib.loads((ROOT / 'tests' / 'host' / 'fuzz.toml').read_text(encoding='utf-8'))
    if set(floors) != set(configure.FUZZ):
        return Result(failed=1, output='tests/host/fuzz.toml and configure.py list different fuzz targets: '
                                       f'{sorted(set(floors) ^ set(configure.FUZZ))}\n')
    result = Result()
    for name in sorted(configure.FUZZ):
        if options.only and options.only not in name:
            continue
        result.add(fuzz_floor(name, floors[name], LOGS / f'floor_{name}'))
        result.add(fuzz_explore(name, 600 if options.long else floors[name].get('explore', 2), LOGS / f'corpus_{name}'))
    return result


# -- Python tests and boots ---------------------------------------------------------------------------------

def pytest_step(folder, options, timeout):
    for module in ('pytest', 'hypothesis', 'cbor2'):
        if importlib.util.find_spec(module) is None:
            return missing(f'Python module {module}', f'python3-{module}')
    report = LOGS / f'{folder.replace("/", "-")}.xml'
    report.unlink(missing_ok=True)
    command = [sys.executable, '-m', 'pytest', '-q', '-rs', '--durations=10', f'--junitxml={report}', folder]
    if options.only:
        command += ['-k', options.only]
    status, text = spawn(command, env={'HAYLOFT_LONG': '1' if options.long else ''}, timeout=timeout)
    if status == 5 and options.only:  # nothing by that name here
        return Result()
    if not report.exists():
        return Result(failed=1, output=text)
    suite = ElementTree.parse(report).getroot().find('testsuite')
    counts = {key: int(suite.get(key, '0')) for key in ('tests', 'failures', 'errors', 'skipped')}
    failed = counts['failures'] + counts['errors']
    skipped = [f'{case.get("classname")}.{case.get("name")}: {skip.get("message")}'
               for case in suite.iter('testcase') for skip in case.iter('skipped')]
    passed = counts['tests'] - failed - counts['skipped']
    if skipped and IN_CI:
        failed += len(skipped)
        text += 'skipped, which in CI is a failure:\n' + '\n'.join(skipped) + '\n'
        skipped = []
    if status != 0 and failed == 0:
        failed = 1
    return Result(passed, failed, skipped, text)


def step_tool(options):
    return pytest_step('tests/tool', options, 7200 if options.long else 900)


def step_boot(options):
    if not shutil.which('qemu-system-x86_64'):
        return missing('qemu-system-x86_64', 'qemu-system-x86')
    return pytest_step('tests/boot', options, 8 * 3600 if options.long else 1800)


STEPS = [
    Step('fresh', step_fresh, 0),
    Step('layers', step_layers, 0),
    Step('format', step_format, 0, 1),
    Step('shell', step_shell, 0, 1),
    Step('python', step_python, 0, 1),
    Step('build', step_build, 1),
    Step('asan', step_asan, 2, 0),
    Step('tsan', step_tsan, 2, 0),
    Step('model', step_model, 2, 0),
    Step('mutants', step_mutants, 2, 0),
    Step('fuzz', step_fuzz, 2, 0),
    Step('tool', step_tool, 2, 1),
    Step('boot', step_boot, 3),
]


# -- the whole ----------------------------------------------------------------------------------------------

class Gate:
    """Runs steps and keeps the sum. Lanes of a phase are threads; each runs its steps in order."""

    def __init__(self, options):
        self.options = options
        self.total = Result()
        self.broken = False  # the build failed: what follows cannot run
        self.lock = threading.Lock()

    def one(self, step):
        begin = time.monotonic()
        try:
            result = step.run(self.options)
        except Exception as error:  # a step that cannot run is a failed step, not a silent one
            result = Result(failed=1, output=f'{type(error).__name__}: {error}\n')
        seconds = time.monotonic() - begin
        LOGS.mkdir(parents=True, exist_ok=True)
        (LOGS / f'{step.name}.log').write_text(result.output, encoding='utf-8')
        with self.lock:
            self.total.passed += result.passed
            self.total.failed += result.failed
            self.total.skipped += [f'{step.name}: {what}' for what in result.skipped]
            if step.name == 'build' and result.failed:
                self.broken = True
            self.say(step, result, seconds)

    def say(self, step, result, seconds):
        word = 'FAIL' if result.failed else 'SKIP' if result.skipped and not result.passed else 'ok'
        print(f'{word:4} {step.name:8} {result.passed:5} passed {result.failed:3} failed {seconds:7.1f} s',
              flush=True)
        if result.failed:
            lines = result.output.rstrip().split('\n')
            if len(lines) > 150:
                print(f'     … {len(lines) - 150} lines more in build/check/{step.name}.log')
            print('\n'.join('     ' + line for line in lines[-150:]), flush=True)
        for what in result.skipped:
            print(f'     SKIPPED {what}', flush=True)

    def phase(self, steps):
        lanes = {}
        for step in steps:
            lanes.setdefault(step.lane, []).append(step)
        threads = [threading.Thread(target=lambda lane=lane: [self.one(s) for s in lane])
                   for lane in lanes.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def chosen(names):
    """(steps, test name): a NAME that is no step's is a test's."""
    if not names:
        return STEPS, ''
    steps = [s for s in STEPS if any(name in s.name for name in names)]
    if steps:
        needs_build = any(s.phase > 1 for s in steps) and not any(s.name == 'build' for s in steps)
        return ([s for s in STEPS if s.name == 'build'] if needs_build else []) + steps, ''
    if len(names) > 1:
        sys.exit('check.py: one test name at a time')
    return [s for s in STEPS if s.phase >= 1], names[0]


def main(argv):
    parser = argparse.ArgumentParser(description='Runs every check.')
    parser.add_argument('--long', action='store_true', help='also what takes hours')
    parser.add_argument('names', nargs='*', metavar='NAME', help='steps or tests whose name contains it')
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: (end_children(), os._exit(143)))
    steps, only = chosen(args.names)
    gate = Gate(Options(args.long, only))
    begin = time.monotonic()
    try:
        for phase in sorted({s.phase for s in steps}):
            if gate.broken:
                print('     the build failed: nothing after it was run', flush=True)
                break
            gate.phase([s for s in steps if s.phase == phase])
    except KeyboardInterrupt:
        end_children()
        print('interrupted', flush=True)
        return 130
    if gate.total.skipped:
        print(f'NOT RUN: {len(gate.total.skipped)} skipped:')
        for what in gate.total.skipped:
            print(f'  {what}')
    if only and gate.total.passed + gate.total.failed == 1:
        print(f'no test has "{only}" in its name')
        gate.total.failed += 1
    print(f'all steps: {time.monotonic() - begin:.0f} s')
    print(f'{gate.total.passed} passed, {gate.total.failed} failed', flush=True)
    return 1 if gate.total.failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
