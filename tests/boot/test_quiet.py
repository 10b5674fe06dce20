"""How busy the host is, found by measuring: a neighbour is seen, patience grows and ends, waiting ends, and what a host
did not spoil is not tried again."""

import os
import subprocess
import sys
import time

import pytest
import quiet

SPIN = 'import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass'


@pytest.fixture
def at(monkeypatch):
    """at(3): a host on which things take three times as long."""
    def one(times, cores=2):
        monkeypatch.setattr(quiet, 'shares', lambda: [1 / times] * cores)
        monkeypatch.setattr(quiet, '_last', (float('-inf'), 1.0))
    return one


@pytest.fixture
def clock(monkeypatch):
    """Sleeps that take no time."""
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds
    monkeypatch.setattr(quiet.time, 'sleep', sleep)
    monkeypatch.setattr(quiet.time, 'monotonic', lambda: now[0])
    return now


def test_a_neighbour_on_every_core_is_seen():
    """Three on each: a quarter is left, if they are as nice as we are."""
    cores = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, '-c', SPIN]) for _ in range(3 * cores)]
    try:
        time.sleep(0.5)
        found = [quiet.stretch(fresh=True) for _ in range(3)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert sorted(found)[1] > 2, found


def test_patience_is_the_hosts_pace_and_ends(at, capfd):
    at(1)
    assert quiet.patient(5) == 5 and capfd.readouterr().err == ''
    at(3)
    assert quiet.patient(5) == 22.5 and quiet.ms(5) == 22500
    assert '3.0 times slower' in capfd.readouterr().err
    at(1000)
    assert quiet.patient(5) == 5 * quiet.MOST * 1.5
    assert quiet.patient(600) == 600 + quiet.MOST_MORE


def test_waiting_for_cores_is_bounded_and_said(at, clock, capfd):
    at(1)
    assert quiet.cores(2) is True and capfd.readouterr().err == ''
    at(3)
    assert quiet.cores(2, seconds=20) is False and 20 <= clock[0] < 25
    said = capfd.readouterr().err
    assert 'waiting for 2 cores, at most 20 s' in said and 'no 2 cores to be had in 20 s' in said
    at(1, cores=1)
    clock[0] = 0.0
    assert quiet.cores(2) is False and clock[0] == 0.0, 'a host has as many cores as it has'


def test_cores_that_come_are_taken(monkeypatch, clock, capfd):
    found = iter([[0.3, 1.0], [0.3, 1.0], [1.0, 1.0]])
    monkeypatch.setattr(quiet, 'shares', lambda: next(found))
    assert quiet.cores(2) is True
    assert '2 cores are to be had now' in capfd.readouterr().err


def test_only_what_the_host_spoiled_is_tried_again(at, clock):
    at(1)
    for results, used in (('good',), 1), (('bad',), 1), (('spoiled', 'bad'), 2), (('spoiled', 'good'), 2), (('spoiled',) * 9, 3):
        left = list(results)
        found = quiet.again(lambda: left.pop(0), lambda result: 'busy' if result == 'spoiled' else '')
        assert len(results) - len(left) == used and found == results[used - 1]
