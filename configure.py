#!/usr/bin/env python3
"""configure.py: writes build.ninja.

The whole build is described here and nowhere else: explicit source lists, one file a line (a file that is not
listed is not built, and tools/check.py says so), a few helper functions, and the variants. The result is
committed; whoever changes this file runs it and commits both, and CI fails if they disagree.

  ./configure.py                 the default configuration
  ./configure.py --cc clang-16   another compiler; the arguments are recorded in build.ninja, so that ninja can
                                 run this script again by itself when it changes

What it deliberately does not do: look for anything on this machine. build.ninja holds no absolute path and is
the same text everywhere. Only the standard library is used.

Variants, each in build/<variant>/ with objects of its own:
  release     the measured kernel: kernel.elf, hayloft.iso
  debug       the same with all assertions and lock ranks (HAYLOFT_DEBUG)
  host        the same kernel sources as a process: hayloft-host
  host-asan   hosted under ASan and UBSan, with HAYLOFT_DEBUG; unit tests in tests/
  host-tsan   hosted under TSan, with HAYLOFT_DEBUG; unit tests in tests/
  rivals      the workloads on Hayloft's allocator and on the process's malloc: runner-hayloft, runner-malloc
  fuzz        libFuzzer targets
  model       tests/test_model: mm/ and sync/ with their atomic accesses calling tests/host/model.c
  mutants     N/test: a unit test of host-asan with guard N taken out (base/guard.h); not part of `all`
"""

import argparse
import os
import sys
import tomllib

# -- sources: one file a line -------------------------------------------------------------------------------

BASE = [
    'base/cbor.c',
    'base/cobs.c',
    'base/crc32.c',
    'base/fmt.c',
    'base/knobs.c',
    'base/leftout.c',
    'base/names.c',
]

SYNC = [
    'sync/lockrank.c',
    'sync/mcs.c',
    'sync/rcu.c',
    'sync/register.c',
    'sync/spinlock.c',
]

MM = [
    'mm/badfree.c',
    'mm/barn.c',
    'mm/buddy.c',
    'mm/bulk.c',
    'mm/cache.c',
    'mm/depot.c',
    'mm/extras.c',
    'mm/fault.c',
    'mm/front_bounded.c',
    'mm/front_magazine.c',
    'mm/front_sheaf.c',
    'mm/heap.c',
    'mm/kmalloc.c',
    'mm/krealloc.c',
    'mm/latency.c',
    'mm/pages.c',
    'mm/pcp.c',
    'mm/prefill.c',
    'mm/rcufree.c',
    'mm/reclaim.c',
    'mm/slab.c',
    'mm/stats.c',
    'mm/validate.c',
    'mm/visit.c',
    'mm/ways.c',
]

# kernel/ that runs on both platforms.
KERNEL = [
    'kernel/arguments.c',
    'kernel/hooks.c',
    'kernel/lab.c',
    'kernel/mem_global.c',
    'kernel/probe.c',
    'kernel/provoke.c',
    'kernel/remake.c',
    'kernel/selfcheck.c',
    'kernel/tell.c',
]

TELEMETRY = [
    'kernel/telemetry/last.c',
    'kernel/telemetry/observed.c',
    'kernel/telemetry/records.c',
    'kernel/telemetry/ring.c',
    'kernel/telemetry/sample.c',
]

BENCH = [
    'kernel/bench/batch.c',
    'kernel/bench/bloat.c',
    'kernel/bench/larson.c',
    'kernel/bench/malloc.c',
    'kernel/bench/maple.c',
    'kernel/bench/mstress.c',
    'kernel/bench/open.c',
    'kernel/bench/pages.c',
    'kernel/bench/remote.c',
    'kernel/bench/round.c',
    'kernel/bench/run.c',
    'kernel/bench/scratch.c',
    'kernel/bench/tests.c',
    'kernel/bench/threadtest.c',
    'kernel/bench/typed.c',
    'kernel/bench/xmalloc.c',
    'kernel/bench/yardstick.c',
    'kernel/bench/yield.c',
]

# kernel/ that needs interrupts: the metal kernel only.
KERNEL_METAL = [
    'kernel/console.c',
    'kernel/irq.c',
    'kernel/main.c',
    'kernel/panic.c',
    'kernel/run.c',
    'kernel/sched.c',
    'kernel/sched_test.c',
    'kernel/thread.c',
    'kernel/wait.c',
]

# What stands in for KERNEL_METAL on the hosted machine.
KERNEL_HOST = [
    'kernel/host_main.c',
]

ARCH_X86_64 = [
    'arch/embed.S',
    'arch/x86_64/acpi.c',
    'arch/x86_64/alike.c',
    'arch/x86_64/boot.c',
    'arch/x86_64/clock.c',
    'arch/x86_64/cpu.c',
    'arch/x86_64/entry.S',
    'arch/x86_64/lapic.c',
    'arch/x86_64/memory.S',
    'arch/x86_64/multiboot2.c',
    'arch/x86_64/paging.c',
    'arch/x86_64/portio.c',
    'arch/x86_64/smp.c',
    'arch/x86_64/start.S',
    'arch/x86_64/symbol.c',
    'arch/x86_64/text.c',
    'arch/x86_64/trampoline.S',
    'arch/x86_64/trap.c',
]

DRIVERS = [
    'drivers/serial/serial.c',
    'drivers/serial/uart16550.c',
]

# The hosted platform without its main(): unit tests (harness.c) and fuzz targets bring their own.
ARCH_HOST = [
    'arch/embed.S',
    'arch/host/fault.c',
    'arch/host/host.c',
    'arch/host/io.c',
    'arch/host/symbol.c',
    'arch/host/window.c',
]

ARCH_HOST_MAIN = [
    'arch/host/main.c',
]

# The contenders of ./hayloft rivals: the workloads and what starts them, on the hosted platform.
RIVALS = [
    'tests/rivals/runner.c',
]

# Linked into every unit test.
TEST_COMMON = [
    'tests/host/harness.c',
]

# Hosted unit tests: name -> what it needs beside its own tests/host/test_<name>.c, base, sync, mm, the hosted
# platform and TEST_COMMON.
TESTS = {
    'api': [],
    'barn': [],
    'bringup': BENCH + TELEMETRY + KERNEL + KERNEL_HOST,
    'buddy': [],
    'bulk': [],
    'faulted': [],
    'heap': [],
    'kmalloc': [],
    'latency': [],
    'life': ['kernel/mem_global.c', 'kernel/remake.c'],
    'locks': [],
    'magazine': [],
    'nodes': [],
    'pcp': [],
    'prefill': [],
    'rcu': [],
    'rcufree': [],
    'sheaf': [],
    'shortage': [],
    'slab': [],
    'telemetry': TELEMETRY + ['kernel/hooks.c', 'kernel/mem_global.c'],
    'base_fmt': [],
    'base_names': [],
    'base_wire': [],
    'host': [],
    'knobs': [],
    'multiboot2': ['arch/x86_64/multiboot2.c'],
    'acpi': ['arch/x86_64/acpi.c'],
    'alike': ['arch/x86_64/alike.c'],
    'uart': ['drivers/serial/uart16550.c'],
    'workloads': BENCH + TELEMETRY + KERNEL,
    'x86_memory': ['arch/x86_64/memory_hosted.S'],
}

# libFuzzer targets: name -> what tests/host/fuzz_<name>.c needs beside base, the ground it stands on included.
FUZZ = {
    'cobs_cbor': ARCH_HOST,
    'heap': SYNC + MM + ['arch/host/window.c', 'tests/host/fuzz_machine.c', 'tests/host/shadow.c',
                         'tests/host/sim_plat.c'],
    'knobs': ARCH_HOST,
    'multiboot2': ['arch/x86_64/multiboot2.c'] + ARCH_HOST,
    'acpi': ['arch/x86_64/acpi.c'] + ARCH_HOST,
}

# The model checker, which is its own ground.
MODEL_TEST = [
    'arch/host/window.c',
    'tests/host/model.c',
    'tests/host/model_life.c',
    'tests/host/model_shortage.c',
    'tests/host/sim_plat.c',
    'tests/host/test_model.c',
]

# -- flags ----------------------------------------------------------------------------------------------------

WARNINGS = [
    '-Wall',
    '-Wextra',
    '-Wshadow',
    '-Wmissing-prototypes',
    '-Wstrict-prototypes',
    '-Wundef',
    '-Wvla',
    '-Werror',
]

COMMON = [
    '-std=gnu17',
    '-O2',
    '-g',
    '-fno-omit-frame-pointer',
    '-momit-leaf-frame-pointer',
    '-fno-strict-aliasing',
    # Debug information names no folder of this machine: the same tree gives the same bytes anywhere.
    '-ffile-compilation-dir=.',
]

METAL = [
    '--target=x86_64-unknown-none-elf',
    '-ffreestanding',
    '-mno-red-zone',
    '-mgeneral-regs-only',
    '-mcmodel=kernel',
    '-fno-pic',
    '-fno-stack-protector',
    '-fno-asynchronous-unwind-tables',
    '-fcf-protection=none',
    '-ffunction-sections',
    '-fdata-sections',
]

HOSTED = ['-pthread']
ASAN = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all']
TSAN = ['-fsanitize=thread']
# Workloads that call malloc: by the linker's table at once, and never seen through by the compiler.
USE_MALLOC = ['-fno-plt', '-fno-builtin', '-include tests/rivals/use_malloc.h']
FUZZER = ['-fsanitize=fuzzer,address,undefined', '-fno-sanitize-recover=all']
# As for TSan, but atomic accesses only; tests/host/model.c is what they call, so TSan itself is not linked.
MODEL = [
    '-fsanitize=thread',
    '-mllvm -tsan-instrument-memory-accesses=0',
    '-mllvm -tsan-instrument-func-entry-exit=0',
    '-mllvm -tsan-instrument-memintrinsics=0',
    '-include tests/host/model_clock.h',
]
DEBUG = ['-DHAYLOFT_DEBUG']

MUTANTS = 'tests/host/mutants.toml'

KNOBS = 'base/knobs.def'  # its text travels in each image; see embed.S


# -- writing ninja ----------------------------------------------------------------------------------------------

class Writer:
    """Collects the text of build.ninja."""

    def __init__(self):
        self.lines = []

    def comment(self, text=''):
        self.lines.append(f'# {text}'.rstrip() if text else '')

    def variable(self, name, value, indent=0):
        self.lines.append(f'{"  " * indent}{name} = {value}')

    def rule(self, name, **variables):
        self.lines.append(f'rule {name}')
        for key, value in variables.items():
            self.variable(key, value, 1)
        self.lines.append('')

    def build(self, outputs, rule, inputs=(), implicit=(), order_only=(), **variables):
        line = f'build {" ".join(listed(outputs))}: {rule}'
        if inputs:
            line += ' ' + ' '.join(listed(inputs))
        if implicit:
            line += ' | ' + ' '.join(listed(implicit))
        if order_only:
            line += ' || ' + ' '.join(listed(order_only))
        self.lines.append(wrapped(line))
        for key, value in variables.items():
            self.variable(key, value, 1)

    def text(self):
        return '\n'.join(self.lines) + '\n'


def listed(value):
    return [value] if isinstance(value, str) else list(value)


def wrapped(line, width=100):
    """Breaks a long build line at blanks with ninja's '$' continuation."""
    out, current = [], ''
    for word in line.split(' '):
        if current and len(current) + len(word) + 1 > width - 2:
            out.append(current + ' $')
            current = '    ' + word
        else:
            current = f'{current} {word}' if current else word
    return '\n'.join(out + [current])


class Variant:
    """One way of compiling: its folder, its flags, its version.h."""

    def __init__(self, ninja, name, flags, include):
        self.ninja = ninja
        self.name = name
        self.key = name.replace('-', '_')
        self.folder = f'build/{name}'
        self.version = f'{self.folder}/version.h'
        self.done = {}
        self.groups = {}
        ninja.comment()
        ninja.comment(f'-- {name} --')
        # Recorded in the image. Warnings and include paths change no code, so they are left out.
        ninja.variable(f'flags_{self.key}', ' '.join(flags))
        ninja.variable(f'cflags_{self.key}', f'$flags_{self.key} $warnings -I{include} -I{self.folder}')
        ninja.build(self.version, 'version', implicit=['tools/version.py', 'always'],
                    variant=name, flags=f'$flags_{self.key}')

    def obj(self, source):
        """Compiles one file, once per variant."""
        if source not in self.done:
            out = f'{self.folder}/{source}.o'
            embeds = [KNOBS] if os.path.basename(source) == 'embed.S' else []
            self.ninja.build(out, 'cc', source, implicit=embeds, order_only=self.version,
                             cflags=f'$cflags_{self.key}')
            self.done[source] = out
        return self.done[source]

    def objs(self, *groups):
        return [self.obj(source) for group in groups for source in group]

    def program(self, name, *groups, link):
        out = f'{self.folder}/{name}'
        self.ninja.build(out, 'link', self.objs(*groups), ldflags=link)
        return out


def write_rules(n, args):
    n.variable('ninja_required_version', '1.8')
    n.variable('builddir', 'build')
    n.comment()
    n.comment('The arguments configure.py was given; ninja passes them again when it reruns it.')
    n.variable('configure_args', ' '.join(args.recorded))
    n.variable('python', args.python)
    n.variable('cc', args.cc)
    n.variable('ld', args.ld)
    n.variable('warnings', ' '.join(WARNINGS))
    n.comment()
    n.rule('configure', command='$python configure.py $configure_args', generator='1',
           description='CONFIGURE')
    n.rule('cc', command='$cc $cflags -MD -MF $out.d -c $in -o $out', depfile='$out.d', deps='gcc',
           description='CC $out')
    n.rule('link', command='$cc $ldflags $in -o $out', description='LINK $out')
    n.rule('kernel', command='$ld $ldflags -o $out $in', description='LINK $out')
    n.rule('iso', command='$python tools/mkiso.py --output $out --kernel $in --config $config',
           description='ISO $out')
    n.comment('Runs at each build, but rewrites its output (and so rebuilds what includes it) only on a change.')
    n.rule('version', command='$python tools/version.py --output $out --variant $variant --cc "$cc"'
           ' --flags="$flags"', restat='1', description='VERSION $out')
    n.build('always', 'phony')
    n.comment()
    n.build('build.ninja', 'configure', implicit=['configure.py', MUTANTS])


def write_metal(n, name, flags):
    v = Variant(n, name, METAL + COMMON + flags, 'arch/x86_64')
    out = []
    if ARCH_X86_64:
        script = 'arch/x86_64/kernel.ld'
        kernel = f'{v.folder}/kernel.elf'
        n.build(kernel, 'kernel',
                v.objs(ARCH_X86_64, DRIVERS, BASE, SYNC, MM, KERNEL, TELEMETRY, BENCH, KERNEL_METAL),
                implicit=script,
                ldflags=f'-static -nostdlib -z max-page-size=0x1000 -z noexecstack --build-id=none'
                        f' --gc-sections -T {script}')
        config = 'arch/x86_64/grub.cfg'
        n.build(f'{v.folder}/hayloft.iso', 'iso', kernel, implicit=[config, 'tools/mkiso.py'],
                config=config)
        out = [kernel, f'{v.folder}/hayloft.iso']
    n.build(name, 'phony', out)
    return out


def host_sources():
    return [BASE, SYNC, MM, KERNEL, TELEMETRY, BENCH, KERNEL_HOST, ARCH_HOST, ARCH_HOST_MAIN]


def write_hosted(n, name, flags, tests):
    v = Variant(n, name, HOSTED + COMMON + flags, 'arch/host')
    link = f'-fuse-ld=lld -rdynamic $flags_{v.key}'
    out = []
    if ARCH_HOST_MAIN:
        out.append(v.program('hayloft-host', *host_sources(), link=link))
    if tests:
        for test, extra in TESTS.items():
            out.append(v.program(f'tests/test_{test}', [f'tests/host/test_{test}.c'], TEST_COMMON,
                                 BASE, SYNC, MM, extra, ARCH_HOST, link=link))
    n.build(name, 'phony', out)
    return v, out


def write_rivals(n, host):
    """The same objects twice, but for the workloads' allocator."""
    v = Variant(n, 'rivals', HOSTED + COMMON + USE_MALLOC, 'arch/host')
    loops = [source for source in BENCH if source != 'kernel/bench/run.c']
    common = host.objs(BASE, SYNC, MM, ARCH_HOST, RIVALS, ['kernel/hooks.c', 'kernel/mem_global.c'])
    out = []
    for allocator, variant in (('hayloft', host), ('malloc', v)):
        out.append(f'{v.folder}/runner-{allocator}')
        n.build(out[-1], 'link', variant.objs(loops) + common, ldflags=f'-fuse-ld=lld -rdynamic $flags_{host.key}')
    n.build('rivals', 'phony', out)
    return out


def write_fuzz(n):
    v = Variant(n, 'fuzz', HOSTED + COMMON + DEBUG + FUZZER, 'arch/host')
    out = [v.program(f'fuzz_{name}', [f'tests/host/fuzz_{name}.c'], BASE, extra,
                     link='-fuse-ld=lld $flags_fuzz') for name, extra in FUZZ.items()]
    n.build('fuzz', 'phony', out)
    return out


def mutants():
    """(number, source file, what its guard does, test program, test) of each line."""
    with open(MUTANTS, 'rb') as f:
        return [tuple(line) for line in tomllib.load(f)['mutants']]


def sources_with(path):
    """A guard in a header is compiled anew in every file of mm/ that names it."""
    if path.endswith('.c'):
        return [path]
    return [source for source in MM if f'"{os.path.basename(path)}"' in open(source, encoding='utf-8').read()]


def write_mutants(n, v, model):
    """Test programs of variant v, or the model checker, each with the files that hold one guard compiled anew."""
    n.comment()
    n.comment('-- mutants --')
    out = []
    for number, path, _, test, _ in mutants():
        folder = f'build/mutants/{number}'
        changed = sources_with(path)
        if test == 'model':
            w, sources = model, [*MODEL_TEST, *BASE, *SYNC, *MM]
        else:
            w, sources = v, [f'tests/host/test_{test}.c', *TEST_COMMON, *BASE, *SYNC, *MM, *TESTS[test],
                             *ARCH_HOST]
        objects = []
        for source in sources:
            objects.append(w.obj(source))
            if source in changed:
                objects[-1] = f'{folder}/{source}.o'
                n.build(objects[-1], 'cc', source, order_only=w.version,
                        cflags=f'$cflags_{w.key} -DMUTANT={number}')
        out.append(f'{folder}/test')
        if w is model: # TSan is not linked: model.c has what its calls need
            n.build(out[-1], 'link', objects, ldflags='-fuse-ld=lld -pthread')
        else:
            n.build(out[-1], 'link', objects, ldflags=f'-fuse-ld=lld -rdynamic $flags_{w.key}')
    n.build('mutants', 'phony', out)


def write_model(n):
    v = Variant(n, 'model', HOSTED + COMMON + DEBUG + MODEL, 'arch/host')
    out = [v.program('tests/test_model', MODEL_TEST, BASE, SYNC, MM, link='-fuse-ld=lld -pthread')]
    n.build('model', 'phony', out)
    return v, out


def listed_sources():
    """Every file named above, for the check that the tree holds no others."""
    groups = [BASE, SYNC, MM, KERNEL, TELEMETRY, BENCH, KERNEL_METAL, KERNEL_HOST, ARCH_X86_64, DRIVERS,
              ARCH_HOST, ARCH_HOST_MAIN, RIVALS, TEST_COMMON, MODEL_TEST]
    out = {source for group in groups for source in group}
    for name, extra in TESTS.items():
        out |= {f'tests/host/test_{name}.c', *extra}
    for name, extra in FUZZ.items():
        out |= {f'tests/host/fuzz_{name}.c', *extra}
    return out


def generate(args):
    n = Writer()
    n.comment('build.ninja: written by configure.py, which is where to change anything.')
    n.comment()
    write_rules(n, args)
    release = write_metal(n, 'release', [])
    debug = write_metal(n, 'debug', DEBUG)
    hosted, host = write_hosted(n, 'host', [], tests=False)
    checked, asan = write_hosted(n, 'host-asan', DEBUG + ASAN, tests=True)
    _, tsan = write_hosted(n, 'host-tsan', DEBUG + TSAN, tests=True)
    rivals = write_rivals(n, hosted)
    fuzz = write_fuzz(n)
    checker, model = write_model(n)
    write_mutants(n, checked, checker)
    n.comment()
    n.build('all', 'phony', release + debug + host + asan + tsan + rivals + fuzz + model)
    n.lines.append('default release host')
    return n.text()


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description='Writes build.ninja.')
    parser.add_argument('--cc', default='clang', help='C compiler, a clang (default: clang)')
    parser.add_argument('--ld', default='ld.lld', help='linker of the kernel (default: ld.lld)')
    parser.add_argument('--python', default='python3', help='Python that runs the scripts (default: python3)')
    parser.add_argument('--list', action='store_true', help='print the listed sources and stop')
    parser.add_argument('--output', default='build.ninja', help='where to write; "-" for standard output')
    args = parser.parse_args(argv)
    args.recorded = [f'--{key} {getattr(args, key)}' for key in ('cc', 'ld', 'python')
                     if getattr(args, key) != parser.get_default(key)]
    return args


def main(argv):
    args = parse_arguments(argv)
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    if args.list:
        print('\n'.join(sorted(listed_sources())))
        return 0
    missing = sorted(source for source in [*listed_sources(), MUTANTS] if not os.path.exists(source))
    if missing:
        print(f'configure.py: listed, but not in the tree: {" ".join(missing)}', file=sys.stderr)
        return 2
    text = generate(args)
    if args.output == '-':
        sys.stdout.write(text)
        return 0
    aside = f'{args.output}.new'
    with open(aside, 'w', encoding='utf-8') as f:
        f.write(text)
    os.replace(aside, args.output)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
