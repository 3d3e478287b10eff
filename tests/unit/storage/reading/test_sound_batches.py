"""What is left of an open log whose files were damaged, and what is lost."""

import pytest

from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.files.losses import KnownLosses
from ottla.storage.findings import Finding
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.sound_batches import sound_batches
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


@pytest.fixture
def log(file_system: FakeFileSystem) -> PartitionLog:
    """Four segments of three batches."""
    broker = open_broker(file_system, "/d")
    broker.admin.create_topic(NewTopic(name="t", overrides={"segment.bytes": "260"}))
    for number in range(12):
        records = batch(b"%d" % number)
        broker.appends.append(broker.topics.partition("t", 0), records, now_ms=NOW_MS)
        broker.appends.write_out()
    return broker.topics.partition("t", 0).log


def told(log: PartitionLog, losses: KnownLosses) -> list[object]:
    """Offsets of batches, and the ranges that are lost."""
    return [
        (one.from_offset, one.until_offset) if isinstance(one, Finding) else one.base_offset
        for one in sound_batches(log, losses)
    ]


def test_what_is_whole_is_read_to_its_end(log: PartitionLog) -> None:
    assert told(log, KnownLosses()) == list(range(12))


def test_damage_costs_what_it_covers_and_nothing_after_it(
    log: PartitionLog, file_system: FakeFileSystem
) -> None:
    for segment in log.segments.values:
        size = segment.size // 3
        file = file_system.open(segment.log.path, writable=True)
        whole = file.pread(file.size(), 0)
        for number in range(3):
            for position in (size * number + 8, size * number + size - 2):
                file.pwrite(bytes([whole[position] ^ 1]), position)
                lost = segment.base_offset + number
                expected: list[object] = list(range(12))
                expected[lost] = (lost, lost + 1)
                assert told(log, KnownLosses()) == expected
                file.pwrite(whole, 0)


def test_recorded_losses_and_damage_are_told_in_their_places(
    log: PartitionLog, file_system: FakeFileSystem
) -> None:
    first, second = log.segments.values[:2]
    file_system.open(first.log.path, writable=True).pwrite(b"\xff" * first.size, 0)
    log.segments.remove([second])
    losses = KnownLosses(segments=((second.base_offset, 6),))
    assert told(log, losses) == [(0, 6), *range(6, 12)]
