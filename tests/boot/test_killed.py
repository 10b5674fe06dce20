"""A run of real boots, killed a hundred times at random moments, loses no archived boot and is completed by resume.
(Ten kills with a machine that costs nothing are in tests/tool.)"""

import os

import pytest

from booting import ROOT
from killing import Victim

KILLS = int(os.environ.get('HAYLOFT_KILLS', '100'))


@pytest.mark.long
def test_a_hundred_kills(tmp_path):
    victim = Victim(tmp_path / 'run', ROOT / 'experiments' / 'quick.toml',
                    lambda words: [ROOT / 'hayloft', '--yes', *words], patience=600)
    victim.campaign(KILLS, longest=40.0)
    print(f'{victim.kills} kills: {victim.states}; {victim.finished} runs completed, seed {victim.seed}')
