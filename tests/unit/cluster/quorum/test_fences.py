"""The fence of a broker with 10,000 partitions holds up nobody whom the quorum's thread answers."""

from collections.abc import Callable
from dataclasses import replace
from time import thread_time

import pytest

from benchmarks.stretches import host_millisecond
from ottla.base.timestamps import Timestamps
from ottla.cluster.quorum.committed_image import CommittedImage
from ottla.cluster.quorum.quorum_thread import SLICE_MS
from ottla.metadata.deciding.heartbeats import HeartbeatRequest
from ottla.metadata.log_writing import record_batch
from ottla.metadata.replay import MetadataReplay
from tests.simulation.quorum_disk import MemoryDirectory
from tests.support.active_controllers import BEGUN, AloneInQuorum
from tests.support.partition_images import cluster, partition

COUNT = 10_000
LONGEST_MS = 50.0
TRIES = 5
END = 100


class Stretch:
    """The longest time on the processor of what is done in one go."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    def __enter__(self) -> None:
        self._begun_s = thread_time()

    def __exit__(self, *_: object) -> None:
        self.longest_ms = max(self.longest_ms, (thread_time() - self._begun_s) * 1000)


def slice_over() -> Callable[[], bool]:
    until_s = thread_time() + SLICE_MS / 1000
    return lambda: thread_time() >= until_s


def fenced() -> tuple[float, float]:
    """The longest stretches of deciding and of replaying."""
    partitions = [partition((1, 2 + number % 3)) for number in range(COUNT)]
    image = replace(cluster(*partitions), end_offset=END)
    quorum = AloneInQuorum(image=image)
    controller, log = quorum.controller, MemoryDirectory()
    log.content.start = controller.end_offset
    committed = CommittedImage(log)
    committed._reading.replay = MetadataReplay.of(replace(image, end_offset=log.content.start))
    ended = Timestamps(now_ms=BEGUN.now_ms + 9000, monotonic_ms=BEGUN.monotonic_ms + 9000)
    controller.note_time(ended)
    for one in (2, 3, 4):
        controller.heartbeat(HeartbeatRequest(one, 100 + one, END))
    deciding, replaying = Stretch(), Stretch()
    while not controller.image.brokers[1].is_fenced:
        assert controller.deadline_ms <= ended.monotonic_ms, "it is called again at once"
        with deciding:
            controller.advance(ended)
            for batch in quorum.commit():
                end = log.log_end_offset
                log.append(record_batch(batch, end, 1, 0))
    assert len(quorum.complaints) == 1
    is_over = False
    while not is_over:
        with replaying:
            is_over = committed.advance(log.log_end_offset, slice_over())
    with replaying:
        known, changes, _ = committed.take()
    assert known.topics == controller.image.topics
    assert known.brokers == controller.image.brokers
    assert len(changes.partitions) == COUNT
    assert all(one.leader != 1 for one in known.topics["t"].partitions.values())
    return deciding.longest_ms, replaying.longest_ms


@pytest.mark.slow
def test_neither_the_decision_nor_its_replay_takes_long_in_one_go() -> None:
    deciding = replaying = float("inf")
    host_ms = 0.0
    for _ in range(TRIES):
        decided, replayed = fenced()
        deciding, replaying = min(deciding, decided), min(replaying, replayed)
        host_ms = max(host_ms, host_millisecond())
        if max(deciding, replaying) <= LONGEST_MS * host_ms:
            return
    raise AssertionError(f"{deciding:.0f} and {replaying:.0f} ms")
