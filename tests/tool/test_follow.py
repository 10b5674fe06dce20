"""Following a file that grows must give what reading it whole gives, whenever it is looked at."""

import threading
import time

import synth
from hypothesis import given, settings
from hypothesis import strategies as st
from telemetry.decode import Fault, Record, decode_file
from telemetry.follow import Follower, follow

BOOT = synth.capture(synth.plan_for("A", rounds=1))


def test_a_file_that_is_not_there_yet(tmp_path):
    path = tmp_path / "telemetry.bin"
    follower = Follower(path)
    assert follower.poll() == []
    assert not follower.behind
    path.write_bytes(BOOT)
    assert follower.behind
    items = follower.poll() + follower.finish()
    assert items == list(decode_file(path))
    assert not follower.behind


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(BOOT)), max_size=12), st.integers(100, 5000))
def test_growth_in_any_steps(tmp_path_factory, cuts, most):
    path = tmp_path_factory.mktemp("follow") / "telemetry.bin"
    follower, items, before = Follower(path), [], 0
    with open(path, "wb", buffering=0) as out:
        for cut in [*sorted(cuts), len(BOOT)]:
            out.write(BOOT[before:cut])
            before = cut
            items += follower.poll(most)
    while follower.behind:
        items += follower.poll(most)
    items += follower.finish()
    assert items == list(decode_file(path))


def test_a_file_that_shrank_is_read_again(tmp_path):
    path = tmp_path / "telemetry.bin"
    path.write_bytes(BOOT)
    follower = Follower(path)
    first = follower.poll()
    other = synth.capture(synth.plan_for("B", rounds=1))[:9000]
    path.write_bytes(other)
    second = follower.poll() + follower.finish()
    assert first[0].type == "hello"
    assert second[0].type == "hello"
    assert not [item for item in second if isinstance(item, Fault) and item.kind != "damage"]


def test_follow_ends_when_the_writer_does_and_misses_nothing(tmp_path):
    path, over = tmp_path / "telemetry.bin", threading.Event()

    def write():
        with open(path, "wb", buffering=0) as out:
            for start in range(0, len(BOOT), 1500):
                out.write(BOOT[start : start + 1500])
                time.sleep(0.01)
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    items = list(follow(path, over.is_set, pause=0.005))
    writer.join()
    assert items == list(decode_file(path))
    assert isinstance(items[-1], Record)
    assert items[-1].type == "bye"
