"""Arguments arrive as sent, and a wrong one is refused by the kernel itself, never ignored."""

import re

import pytest

from booting import REFUSED, ROOT


def test_they_arrive_intact(boot):
    args = 'kbench=0 selfcheck=0 tests=malloc/*,yield/* telemetry.hz=5'
    hello = boot(args).sound().one('hello')
    # On a slow host the boot is given a longer deadline, behind its own arguments (booting.py).
    assert hello['args'].startswith(args) and re.fullmatch(r'( deadline=\d+)?', hello['args'][len(args):])
    assert hello['knobs']['tests'] == 'malloc/*,yield/*'
    assert hello['knobs']['telemetry.hz'] == '5'
    assert hello['refused'] == []


def test_long_lines_arrive(boot):
    tests = ','.join(['malloc/1024/solo'] * 115)
    assert len(tests) > 1900
    hello = boot(f'kbench=0 selfcheck=0 tests={tests}').sound().one('hello')
    assert hello['knobs']['tests'] == tests


def test_every_knob_is_echoed(boot):
    from telemetry import defs
    knobs = defs.parse_knobs((ROOT / 'base' / 'knobs.def').read_text())
    hello = boot('kbench=0 selfcheck=0').sound().one('hello')
    assert set(hello['knobs']) == {knob.name for knob in knobs}


def test_without_any_the_menu_line_counts(boot):
    """What a user edits on real hardware: the second entry of grub.cfg, which speaks over one port."""
    menu = (ROOT / 'arch' / 'x86_64' / 'grub.cfg').read_text()
    own = re.findall(r'^\s*multiboot2 \S+ ([^$\n]+)$', menu, re.M)
    assert len(own) == 1, 'grub.cfg has no line of its own to fall back to'
    done = boot(None, timeout=150, shared_line='telemetry.port=com1' in own[0]).sound()
    assert done.one('hello')['args'] == own[0]


@pytest.mark.parametrize('argument, nearest', [
    ('frnt=bounded', 'front'),
    ('front=bouded', 'bounded'),
    ('kbench=many', ''),
    ('front', 'front'),
    ('front=none front=none', ''),
    ('lock=ticket overcommit=1', ''),
])
def test_refused(boot, argument, nearest):
    done = boot(f'kbench=0 {argument}').sound('refused', REFUSED)
    refused = done.one('hello')['refused']
    assert len(refused) == 1
    assert refused[0][0].split('=')[0] == argument.split()[-1].split('=')[0] or 'lock' in refused[0][0]
    assert refused[0][1], 'a refusal says why'
    assert nearest in refused[0][2]
    assert done.all('bench') == []
