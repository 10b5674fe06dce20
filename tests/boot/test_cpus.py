"""Every number of CPUs boots, holes in the APIC ids are closed, and eight of them never garble the stream."""

import os

import pytest
import quiet

QUIET = 'kbench=0 selfcheck=1'
MANY = 20 if os.environ.get('HAYLOFT_LONG') == '1' else 3


def hello_of_all(boot, cpus, **options):
    """The hello of a boot in which every CPU answered. One that the host gives no time for 200 ms is left out,
    as it should be, so a short count is tried again: it has to come out in one of three boots."""
    def left_out(hello):
        missing = hello['cpus_found'] - len(hello['cpus'])
        return f'{missing} of {hello["cpus_found"]} CPUs had no time to answer' if missing else ''

    return quiet.again(lambda: boot(QUIET, cpus=cpus, **options).sound().one('hello'), left_out)


@pytest.mark.parametrize('cpus', [1, 2, 3, 8])
def test_boots_with(boot, cpus):
    hello = hello_of_all(boot, cpus)
    assert [row[0] for row in hello['cpus']] == list(range(cpus))
    assert hello['cpus_found'] == cpus


def test_holes_in_apic_ids(boot):
    hello = hello_of_all(boot, 6, topology='sockets=2,cores=3,threads=1')
    assert [row[0] for row in hello['cpus']] == list(range(6))
    apic_ids = [row[1] for row in hello['cpus']]
    assert sorted(set(apic_ids)) == apic_ids
    assert apic_ids != list(range(6)), 'this topology has a hole, or the test tests nothing'


def test_maxcpus_leaves_the_rest_alone(boot):
    hello = boot(QUIET + ' maxcpus=2', cpus=4).sound().one('hello')
    assert len(hello['cpus']) == 2
    assert hello['cpus_found'] == 4


@pytest.mark.parametrize('number', range(MANY))
def test_no_malformed_frame_at_eight_cpus(boot, number):
    """Two-packed vCPUs, a full self-check and a short test each: sound() demands a spotless stream."""
    done = boot('kbench=1 kbench.ms=50 tests=malloc/64/all-cpus overcommit=1', cpus=8, timeout=120).sound()
    streams = {r.stream for r in done.records}
    assert 255 in streams
    assert len(streams) > 1, 'no CPU sent a sample of its own'


def test_an_allocation_before_the_cpu_count_is_published(boot):
    """The published crash: magazines made for a CPU table that did not exist yet."""
    boot(QUIET + ' provoke=early-alloc', cpus=4).sound()


def test_an_allocation_before_the_cpu_count_is_published_debug(boot):
    boot(QUIET + ' provoke=early-alloc', cpus=4, variant='debug', timeout=120).sound()
