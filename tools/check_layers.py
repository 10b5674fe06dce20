#!/usr/bin/env python3
"""check_layers.py: the tree's rules, as far as a script can see them.

Which folder may include what, assembly in arch/ only, no platform #ifdef, private headers kept private, names
declared once, atomics with their order, a head comment in each file, nothing unlisted in configure.py. Each rule
has a name; tests/tool/test_layers.py plants one violation of each and expects exactly that name, so a rule that
cannot fail does not live long.

Length guides (600 lines a file, 70 a function) are warnings: printed, never fatal.

What it does not do: parse C. Comments and strings are blanked and lines matched, which is enough because the
code base keeps to plain forms.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FREESTANDING = {'stdbool.h', 'stddef.h', 'stdint.h', 'stdarg.h', 'stdalign.h', 'stdnoreturn.h', 'limits.h',
                'float.h', 'iso646.h'}
GENERATED = {'version.h'}

# folder -> what a file in it may include beside freestanding headers and its own folder. Longest prefix wins. A
# name that ends in '/' allows the whole folder.
MAY_INCLUDE = {
    'base/': ['plat_impl.h', 'portio_impl.h'],
    'sync/': ['base/'],
    'mm/': ['base/', 'sync/sync.h'],
    'drivers/': ['base/'],
    'kernel/': ['base/', 'sync/sync.h', 'mm/mm.h', 'drivers/', 'kernel/', *GENERATED],
    'arch/x86_64/': ['base/'],
    'arch/host/': ['base/'],
}
# Code that runs on both platforms cannot know what only a machine with interrupts has.
NO_MACHINE = ('base/', 'sync/', 'mm/', 'kernel/bench/', 'kernel/telemetry/')
MACHINE_HEADERS = {'base/machine.h'}
# Folders that may use the C library.
HOSTED = ('arch/host/', 'tests/')

CODE = ('base/', 'sync/', 'mm/', 'kernel/', 'drivers/', 'arch/', 'tests/host/', 'tests/rivals/')
PORTABLE = ('base/', 'sync/', 'mm/', 'kernel/')
# What a conditional in portable code may test. The platform is not among it: it comes by include path.
MAY_TEST = {'HAYLOFT_DEBUG', 'MUTANT'}

# Knobs that the tool itself has to set, whatever the experiment; each has its reason.
TOOL_KNOBS = {
    'overcommit',      # only the host can count its CPUs
    'nonce',           # a number for each boot, by which its bytes are known
    'repeat',          # watch
    'kbench',          # watch without tests would show nothing
    'kbench.ops',      # icount: a fixed number of operations...
    'kbench.ms',       # ...instead of a time
    'tests',           # watch chooses what to repeat
    'telemetry.hz',    # icount: none inside the round
    'deadline',        # must lie inside the machine's timeout
    'telemetry.port',  # a real machine with one serial port
    'lockstat',        # an empty panel says which knob emptied it
}
FILE_LINES, FUNCTION_LINES = 600, 70


@dataclass(frozen=True)
class Finding:
    rule: str
    path: str
    line: int
    message: str
    warning: bool = False

    def __str__(self):
        kind = 'warning: ' if self.warning else ''
        return f'{self.path}:{self.line}: {kind}{self.message} [{self.rule}]'


def blanked(text, strings=True):
    """The text with comments (and string contents, unless told otherwise) turned to blanks, lines kept."""
    def replace(m):
        s = m.group(0)
        if s.startswith('/'):
            return re.sub(r'[^\n]', ' ', s)
        return s if not strings else s[0] + ' ' * (len(s) - 2) + s[-1]
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', replace, text,
                  flags=re.DOTALL)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


def allowed_for(path):
    best = max((prefix for prefix in MAY_INCLUDE if path.startswith(prefix)), key=len, default=None)
    return best, MAY_INCLUDE.get(best, [])


def matches(target, allowed):
    return any(target == a or (a.endswith('/') and target.startswith(a)) for a in allowed)


# -- C rules ------------------------------------------------------------------------------------------------

def check_includes(path, text):
    folder, allowed = allowed_for(path)
    for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', blanked(text, strings=False), re.M):
        line = line_of(text, m.start())
        system, name = m.group(1) == '<', m.group(2)
        if system:
            if name not in FREESTANDING and not path.startswith(HOSTED):
                yield Finding('include-system', path, line, f'<{name}> is not a freestanding header')
            continue
        own_or_up = os.path.normpath(os.path.join(os.path.dirname(path), name))
        target = name if name in GENERATED or name in allowed else own_or_up
        if folder and not target.startswith(folder) and not matches(target, allowed):
            yield Finding('include-layer', path, line, f'{folder} may not include {target}')
        if target in MACHINE_HEADERS and path.startswith(NO_MACHINE) and path not in MACHINE_HEADERS:
            yield Finding('include-machine', path, line,
                          f'{target} is for machines with interrupts; this code runs on both platforms')
        base = os.path.basename(target)
        if base.endswith('_impl.h') and base not in ('plat_impl.h', 'portio_impl.h'):
            if os.path.dirname(target) != os.path.dirname(path) and not path.startswith('tests/'):
                yield Finding('include-private', path, line,
                              f'{target} is private to {os.path.dirname(target)}/')


def check_asm(path, text):
    if path.startswith('arch/'):
        return
    if path.endswith('.S'):
        yield Finding('asm', path, 1, 'assembly outside arch/')
    for m in re.finditer(r'\b(asm|__asm|__asm__)\b', blanked(text)):
        yield Finding('asm', path, line_of(text, m.start()), 'assembly outside arch/')


def check_conditionals(path, text):
    if not path.startswith(PORTABLE):
        return
    guard = re.sub(r'\W', '_', path).upper()
    for m in re.finditer(r'^[ \t]*#[ \t]*(ifdef|ifndef|if|elif)\b([^\n]*)', blanked(text), re.M):
        names = set(re.findall(r'[A-Za-z_]\w*', m.group(2))) - {'defined'}
        for name in sorted(names - MAY_TEST):
            if m.group(1) == 'ifndef' and (name == guard or name.endswith('_H')):
                continue
            if re.search(rf'#\s*(?:undef|define)\s+{name}\b', text):
                continue  # a macro of the file itself, as in lists included more than once
            yield Finding('platform-ifdef', path, line_of(text, m.start()),
                          f'#{m.group(1)} {name}: portable code tests only {", ".join(sorted(MAY_TEST))}')


def check_atomics(path, text):
    for m in re.finditer(r'\b(atomic_(?:load|store|exchange|fetch_\w+|compare_exchange_\w+)|__sync_\w+)\s*\(',
                         blanked(text)):
        if not m.group(1).endswith('_explicit'):
            yield Finding('atomic-order', path, line_of(text, m.start()),
                          f'{m.group(1)} does not name its order; use __atomic_* with one')


def check_head(path, text):
    name = os.path.basename(path)
    if not text.startswith(f'/* {name}: '):
        yield Finding('head-comment', path, 1, f'must open with "/* {name}: purpose …"')


def check_lengths(path, text):
    lines = text.split('\n')
    if len(lines) > FILE_LINES:
        yield Finding('length', path, len(lines), f'{len(lines)} lines (guide: {FILE_LINES})', True)
    start = None
    for i, line in enumerate(lines, 1):
        if line == '{':
            start = i
        elif line == '}' and start is not None:
            if i - start > FUNCTION_LINES:
                yield Finding('length', path, start,
                              f'a function of {i - start} lines (guide: {FUNCTION_LINES})', True)
            start = None


# -- rules for every text file --------------------------------------------------------------------------------

MACHINE_PATHS = re.compile(r'(?<![\w.])/(?:work|home|root|Users)/\w')


def check_text(path, text):
    for i, line in enumerate(text.split('\n'), 1):
        if re.search(r'\b(?:TODO|FIXME|XXX)\b(?!\s*\(?#\d)', line) and path not in EXEMPT_TEXT:
            yield Finding('todo', path, i, 'unfinished work needs an issue number')
        if MACHINE_PATHS.search(line) and path not in EXEMPT_TEXT:
            yield Finding('machine-path', path, i, 'names a path of one machine')


# The files that hold the words as data.
EXEMPT_TEXT = {'tools/check_layers.py', 'tests/tool/test_layers.py'}


# -- names declared once --------------------------------------------------------------------------------------

def declared_names(files):
    """(counter and lock class names, knob names) of the .def files."""
    names, knobs = set(), set()
    for path, text in files.items():
        if path == 'base/counters.def':
            names |= set(re.findall(r'^(?:COUNTER|DERIVED)\(\w+, *(\w+)', text, re.M))
        elif path == 'base/lockclass.def':
            names |= set(re.findall(r'^LOCKCLASS\((\w+)', text, re.M))
        elif path == 'base/knobs.def':
            knobs |= set(re.findall(r'^KNOB\(\w+, *"([^"]+)"', text, re.M))
    return names, knobs


def string_constants(tree):
    """String literals that are neither docstrings nor the help of a command, where a name is an example."""
    docs = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ('help', 'description', 'epilog'):
            docs.update(id(inner) for inner in ast.walk(node.value))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                docs.add(id(body[0].value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node


def check_names(files):
    """tools/telemetry learns names from the stream, so a literal that spells one is a second declaration.

    A plain English word ("slabs", "cache") cannot be told from a name; compound ones can.
    """
    names, knobs = declared_names(files)
    compound = {n for n in names if '_' in n}
    for path, text in files.items():
        if not path.startswith('tools/telemetry/') or not path.endswith('.py'):
            continue
        for node in string_constants(ast.parse(text, path)):
            if node.value in compound:
                yield Finding('hard-coded-name', path, node.lineno,
                              f'"{node.value}" is declared in a .def file; read it from the stream')
            for m in re.finditer(r'(?<![\w.])([a-z][\w.]*)=', node.value):
                if m.group(1) in knobs - TOOL_KNOBS:
                    yield Finding('hard-coded-knob', path, node.lineno,
                                  f'"{m.group(1)}=" is a knob; arms set knobs, the tool does not')


def check_defs(files):
    """One entry a line and nothing between, so that cpp and a small parser read the same list."""
    entries = {
        'base/counters.def': r'COUNTER\((?:cpu|cache|lock|node|global), \w+, \w+, (?:sum|max|gauge), '
                             r'(?:contention|hits|supply|barn|churn|footprint|none), ".+"\)'
                             r'|DERIVED\((?:cpu|cache|lock|node|global), \w+, \w+, '
                             r'(?:contention|hits|supply|barn|churn|footprint|none), "[\w +-]+", ".+"\)',
        'base/knobs.def': r'KNOB\(\w+, "[\w.]+", (?:ENUM|UINT|TEXT), \d+, \d+, ".*", (?:all|metal|host), ".+"\)'
                          r'|VALUE\(\w+, \w+, ".+"\)|CONFLICT\("[^"]+", "[^"]*", "[^"]+", "[^"]+"\)',
        'base/lockclass.def': r'LOCKCLASS\(\w+, ".+"\)',
        'base/latency.def': r'LATENCY_LEVEL\(\w+, ".+"\)',
        'base/faults.def': r'(?:PANIC_KIND|BADFREE_KIND)\(\w+, ".+"\)',
    }
    for path, pattern in entries.items():
        seen = {}
        for i, line in enumerate(blanked(files.get(path, ''), strings=False).split('\n'), 1):
            if not line.strip():
                continue
            if not re.fullmatch(pattern, line.rstrip()):
                yield Finding('def-entry', path, i, 'not a legal entry of this list')
                continue
            head = line.split(', "')[0] if path != 'base/knobs.def' else line.split(', ')[0]
            key = tuple(re.findall(r'\w+', head)[:3])
            key = key[1:3] if path == 'base/counters.def' else key[:2]
            if path == 'base/knobs.def' and line.startswith('VALUE'):
                key = tuple(re.findall(r'\w+', line)[:3])
            if line.startswith('CONFLICT'):
                key = (line.split('"')[1],)
            if key in seen:
                yield Finding('def-twice', path, i, f'{" ".join(key)} is already in line {seen[key]}')
            seen[key] = i
    yield from check_formulas(files.get('base/counters.def', ''))


def check_formulas(text):
    known = set(re.findall(r'^COUNTER\(\w+, *(\w+)', text, re.M))
    for i, line in enumerate(text.split('\n'), 1):
        m = re.match(r'DERIVED\(\w+, \w+, \w+, \w+, "([^"]*)"', line)
        for name in re.findall(r'\w+', m.group(1)) if m else []:
            if name not in known:
                yield Finding('def-formula', 'base/counters.def', i, f'{name} is not a counter')


def check_listed(files, listed):
    for path in files:
        if path.startswith(CODE) and path.endswith(('.c', '.S')) and path not in listed:
            yield Finding('unlisted', path, 1, 'not in configure.py: it would never be built')


# -- the whole ------------------------------------------------------------------------------------------------

def check_tree(files, listed):
    """files: path -> text. Returns all findings, in order of path and line."""
    out = []
    for path, text in files.items():
        out += check_text(path, text)
        if path.startswith(CODE) and path.endswith(('.c', '.h', '.S')):
            for rule in (check_includes, check_asm, check_conditionals, check_atomics, check_head,
                         check_lengths):
                out += rule(path, text)
    out += check_names(files)
    out += check_defs(files)
    out += check_listed(files, listed)
    return sorted(set(out), key=lambda f: (f.path, f.line, f.rule))


TEXT_SUFFIXES = ('.c', '.h', '.S', '.def', '.py', '.toml', '.md', '.sh', '.cfg', '.ld', '.ninja')


def tree_files(root):
    """The text files of the tree, without what is built or ignored."""
    out = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders
                            if f not in ('build', 'runs', '__pycache__') and not f.startswith('.')
                            or f == '.ci')
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith(TEXT_SUFFIXES) or path in ('hayloft', '.ci/run'):
                with open(os.path.join(root, path), encoding='utf-8') as f:
                    out[path] = f.read()
    return out


def listed_sources(root):
    done = subprocess.run([sys.executable, os.path.join(root, 'configure.py'), '--list'], check=True,
                          stdout=subprocess.PIPE)
    return set(done.stdout.decode().split())


def main(argv):
    parser = argparse.ArgumentParser(description='Checks the rules of the tree.')
    parser.add_argument('--root', default=ROOT)
    args = parser.parse_args(argv)
    findings = check_tree(tree_files(args.root), listed_sources(args.root))
    for finding in findings:
        print(finding)
    errors = [f for f in findings if not f.warning]
    print(f'layers: {len(errors)} errors, {len(findings) - len(errors)} warnings')
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
