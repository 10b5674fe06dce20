"""A run that is killed at random moments, over and over, loses nothing and is completed by resume."""

import fake_machine
from killing import Victim
from telemetry import ROOT


def test_ten_kills(tmp_path):
    fake_machine.install(tmp_path / "bin")
    path = fake_machine.experiment(tmp_path / "x", 3)
    victim = Victim(tmp_path / "run", path, lambda words: [ROOT / "hayloft", *words],
                    fake_machine.environment(tmp_path / "bin", pace=0.3))
    victim.campaign(10, longest=3.0)
    print(f"{victim.kills} kills: {victim.states}; {victim.finished} runs completed, seed {victim.seed}")
