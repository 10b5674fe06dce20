"""The judge of mutants: a mutant is noticed if its one test ends in any way but well."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location('check', ROOT / 'tools' / 'check.py')
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)


def program(tmp_path, text):
    path = tmp_path / 'test'
    path.write_text('#!/bin/sh\n' + text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize('text, noticed', [
    ('echo 0 passed, 1 failed; exit 1', True),
    ('kill -SEGV $$', True),                      # no last word at all
    ('echo 1 passed, 0 failed', False),
    ('echo 0 passed, 0 failed; exit 1', False),   # no test of that name: nothing was asked
    ('echo 1 passed, 1 failed; exit 1', False),   # two: which of them was meant?
])
def test_a_mutant_is_noticed_by_its_one_test(tmp_path, text, noticed):
    assert (check.mutant_survives(program(tmp_path, text), 'name') == '') is noticed


def test_every_guard_is_listed_once_and_stands_where_the_list_says():
    listed = check.configure.mutants()
    assert len(listed) > 40
    assert [line[0] for line in listed] == sorted({line[0] for line in listed})
    assert check.mutants_in_sources() == {number: {path} for number, path, *_ in listed}
    programs = ''.join(path.read_text() for path in sorted((ROOT / 'tests' / 'host').glob('*model*.c')))
    for _, _, _, test, name in listed:
        if test == 'model':
            # A macro makes some of the names; that there is just one of the name, the step itself sees.
            assert all(part in programs for part in re.split(r'[:,] ', name))
        else:
            assert f'TEST({name})' in (ROOT / 'tests' / 'host' / f'test_{test}.c').read_text()
