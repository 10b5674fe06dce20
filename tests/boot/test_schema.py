"""The kernel's schema and the lists in the tree agree, both ways, and the lists travel inside each image."""

import shutil
import subprocess

import pytest

from booting import BUILD, ROOT
from telemetry import defs, image

KNOBS = (ROOT / 'base' / 'knobs.def').read_bytes()


def test_schema_is_the_list(boot):
    counters = {c.name: c for c in defs.parse_counters((ROOT / 'base' / 'counters.def').read_text())}
    sent = [r.body for r in boot('kbench=0 selfcheck=0').sound().all('schema')]
    assert [body['id'] for body in sent] == list(range(len(sent)))
    assert {body['name'] for body in sent} == set(counters)
    for body in sent:
        listed = counters[body['name']]
        assert (body['scope'], body['unit'], body['kind'], body['panel'], body['doc'],
                body.get('formula', '')) == (listed.scope, listed.unit, listed.kind, listed.panel, listed.doc,
                                             listed.formula), body['name']


def test_caches_with_a_barn_tell_its_limits(boot):
    """By the gauges' names, so that a reader can draw the one against the other."""
    def caches(args):
        done = boot(f'kbench=0 selfcheck=0 {args}', kind='host', variant='host').sound()
        return [r.body for r in done.all('object') if r.body['kind'] == 'cache']

    told = [cache['limits'] for cache in caches('front=sheaf barn.full=6') if 'limits' in cache]
    assert told and all(limits == {'barn_full': 6, 'barn_empty': 10, 'barn_partial': 1} for limits in told)
    assert not any('limits' in cache for cache in caches('front=magazine'))


@pytest.mark.parametrize('path', ['release/kernel.elf', 'debug/kernel.elf', 'host/hayloft-host',
                                  'host-asan/hayloft-host', 'host-tsan/hayloft-host'])
def test_knobs_travel_in_the_image(path):
    text = image.read_section(BUILD / path, b'.hayloft.knobs')
    assert text.rstrip(b'\0') == KNOBS


def test_kernel_uses_no_vector_register():
    """Interrupts do not save them."""
    out = subprocess.run(['objdump', '-d', '--no-show-raw-insn', BUILD / 'release' / 'kernel.elf'],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    assert '%xmm' not in out and '%ymm' not in out
    assert 'rdtsc' in out, 'the disassembly shows nothing, so the line above shows nothing'


def test_same_tree_same_kernel(tmp_path):
    """Two copies of the tree in two places give the same bytes, ISO included."""
    listed = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    images = []
    for name in ('one', 'another/deeper'):
        copy = tmp_path / name
        for path in filter(None, listed.decode().split('\0')):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, copy / path)
        subprocess.run(['ninja', '-C', copy, 'release'], stdout=subprocess.DEVNULL, check=True)
        images.append([(copy / 'build' / 'release' / f).read_bytes() for f in ('kernel.elf', 'hayloft.iso')])
    assert images[0][0] == images[1][0], 'kernel.elf differs'
    assert images[0][1] == images[1][1], 'hayloft.iso differs'
