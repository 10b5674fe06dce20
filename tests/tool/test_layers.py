"""The tree obeys its rules, and each rule can fail: one planted violation for each, found under its own name."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location('check_layers', ROOT / 'tools' / 'check_layers.py')
check_layers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_layers)

CLEAN = {
    'base/list.h': '/* list.h: lists. */\n#ifndef BASE_LIST_H\n#define BASE_LIST_H\n#include <stddef.h>\n#endif\n',
    'base/plat.h': '/* plat.h: the contract. */\n#include "plat_impl.h"\n',
    'base/machine.h': '/* machine.h: interrupts. */\n#include "plat.h"\n',
    'base/counters.def': 'COUNTER(cache, alloc_fast, ops, sum, hits, "fast ones")\n'
                         'DERIVED(cache, allocs_all, ops, none, "alloc_fast", "all of them")\n',
    'base/knobs.def': 'KNOB(front, "front", ENUM, 0, 0, "none", all, "front end")\n'
                      'VALUE(front, none, "nothing")\n',
    'base/lockclass.def': 'LOCKCLASS(cache, "lists")\n',
    'base/faults.def': 'PANIC_KIND(trap, "a trap")\n',
    'sync/sync.h': '/* sync.h: the door. */\n#include "../base/list.h"\n',
    'sync/sync_impl.h': '/* sync_impl.h: private. */\n',
    'sync/spin.c': '/* spin.c: locks. */\n#include "sync.h"\n#include "sync_impl.h"\n'
                   '#ifdef HAYLOFT_DEBUG\n#endif\n/* asm is only named here */\n'
                   'int f(int *p)\n{\n    return __atomic_load_n(p, __ATOMIC_RELAXED);\n}\n',
    'mm/mm.h': '/* mm.h: the door. */\n#include "../sync/sync.h"\n',
    'kernel/main.c': '/* main.c: boot. */\n#include "../mm/mm.h"\n#include "../base/machine.h"\n'
                     '#include "version.h"\n',
    'arch/x86_64/cpu.c': '/* cpu.c: the CPU. */\n#include "../../base/plat.h"\nvoid f(void) { __asm__("nop"); }\n',
    'arch/host/host.c': '/* host.c: threads. */\n#include <pthread.h>\n',
    'tests/host/test_spin.c': '/* test_spin.c: locks. */\n#include "../../sync/sync_impl.h"\n#include <stdio.h>\n',
    'tools/telemetry/run.py': '"""Says alloc_fast in a docstring."""\nKEY = "slabs"\nARGS = "overcommit=1"\n',
}
LISTED = {path for path in CLEAN if path.endswith(('.c', '.S'))}

# rule -> (path, text put there). Text that starts with '+' is appended to the clean file.
PLANTED = {
    'include-system': ('mm/mm.h', '+#include <stdio.h>\n'),
    'include-layer': ('sync/spin.c', '+#include "../mm/mm.h"\n'),
    'include-machine': ('base/list.h', '+#include "machine.h"\n'),
    'include-private': ('mm/mm.h', '+#include "../sync/sync_impl.h"\n'),
    'asm': ('mm/mm.h', '+static inline void f(void) { __asm__ volatile("pause"); }\n'),
    'platform-ifdef': ('mm/mm.h', '+#ifdef __linux__\n#endif\n'),
    'atomic-order': ('kernel/main.c', '+int f(void)\n{\n    return atomic_load(&x);\n}\n'),
    'head-comment': ('kernel/main.c', '/*\n * Author: somebody\n */\n'),
    'length': ('kernel/main.c', '+' + '\n' * 700),
    'todo': ('kernel/main.c', '+/* TODO: later */\n'),
    'machine-path': ('kernel/main.c', '+/* see /home/me/notes */\n'),
    'hard-coded-name': ('tools/telemetry/run.py', '+X = row["alloc_fast"]\n'),
    'hard-coded-knob': ('tools/telemetry/run.py', '+X = "front=none"\n'),
    'def-entry': ('base/counters.def', '+COUNTER(cache, odd_one, ops, average, hits, "no such kind")\n'),
    'def-twice': ('base/counters.def', '+COUNTER(cache, alloc_fast, ops, sum, hits, "again")\n'),
    'def-formula': ('base/counters.def', '+DERIVED(cache, ratio, ops, none, "alloc_fast + nothing", "x")\n'),
    'unlisted': ('kernel/forgotten.c', '/* forgotten.c: nobody builds it. */\n'),
}


def rules_of(findings):
    return {f.rule for f in findings}


def test_clean_tree_has_no_findings():
    assert check_layers.check_tree(CLEAN, LISTED) == []


@pytest.mark.parametrize('rule', sorted(PLANTED))
def test_planted_violation_is_found(rule):
    path, text = PLANTED[rule]
    files = dict(CLEAN)
    files[path] = files[path] + text[1:] if text.startswith('+') else text
    findings = check_layers.check_tree(files, LISTED)
    assert rule in rules_of(findings)
    assert {f.path for f in findings} == {path}


def test_every_rule_has_a_plant():
    source = (ROOT / 'tools' / 'check_layers.py').read_text(encoding='utf-8')
    import re
    assert set(re.findall(r"Finding\('([\w-]+)'", source)) == set(PLANTED)


@pytest.mark.parametrize('path, text', [
    ('kernel/spin.S', '/* spin.S: no. */\n'),
    ('kernel/main.c', '/* main.c: x. */\nvoid f(void) { asm("hlt"); }\n'),
])
def test_assembly_in_any_form(path, text):
    assert 'asm' in rules_of(check_layers.check_tree({**CLEAN, path: text}, LISTED | {path}))


@pytest.mark.parametrize('text, wrong', [
    ('#if defined(HAYLOFT_DEBUG)\n#endif\n', False),
    ('#if defined(HAYLOFT_DEBUG) && defined(__x86_64__)\n#endif\n', True),
    ('#ifndef MM_MM_H\n#define MM_MM_H\n#endif\n', False),
    ('#if __has_feature(address_sanitizer)\n#endif\n', True),
])
def test_conditionals(text, wrong):
    findings = check_layers.check_tree({**CLEAN, 'mm/mm.h': '/* mm.h: x. */\n' + text}, LISTED)
    assert (rules_of(findings) == {'platform-ifdef'}) is wrong


def test_comments_and_strings_do_not_count():
    text = '/* main.c: x. */\n/* #include "../arch/x.h" asm */\nconst char *s = "asm";\n'
    assert check_layers.check_tree({**CLEAN, 'kernel/main.c': text}, LISTED) == []


def test_this_tree():
    findings = check_layers.check_tree(check_layers.tree_files(ROOT), check_layers.listed_sources(ROOT))
    assert [str(f) for f in findings if not f.warning] == []
