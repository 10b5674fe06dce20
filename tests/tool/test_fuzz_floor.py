"""The gate's judgement on a fuzz target: it must be able to say no."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAID = '#20000\tDONE   cov: 66 ft: 160 corp: 57/16Kb lim: 4096 exec/s: 20000 rss: 57Mb\n' \
       'stat::number_of_executed_units: 20000\nstat::average_exec_per_sec:     20000\n'


@pytest.fixture(scope='module')
def shortfall():
    spec = importlib.util.spec_from_file_location('gate', ROOT / 'tools' / 'check.py')
    gate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gate)
    return gate.fuzz_shortfall


def test_a_target_that_reaches_its_floor_passes(shortfall):
    assert shortfall(SAID, {'executions': 20000, 'edges': 66}) == ''


@pytest.mark.parametrize('floor, told', [({'executions': 20001, 'edges': 66}, '20000 executions'),
                                         ({'executions': 20000, 'edges': 67}, '66 edges')])
def test_a_target_below_its_floor_fails(shortfall, floor, told):
    assert told in shortfall(SAID, floor)


def test_a_target_that_says_nothing_fails(shortfall):
    assert shortfall('', {'executions': 0, 'edges': 0})
