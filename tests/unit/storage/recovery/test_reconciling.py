"""Leader epochs, producers and the integrity file are brought to the log's end."""

from typing import Any

import pytest

from ottla.base.files import read_file, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.files.integrity import read_integrity
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.log.state import RecoveredLog
from ottla.storage.recovery.ending import find_end
from ottla.storage.recovery.opening import open_segments
from ottla.storage.recovery.reconciling import reconcile
from ottla.storage.recovery.replaying import recover_segments
from ottla.testing import FakeFileSystem
from tests.support.logs import TOPIC_ID
from tests.support.recovering import COUNT, PARTITION, killed, live, opened

EPOCHS = f"{PARTITION}/leader-epoch-checkpoint"


@pytest.fixture
def disk() -> FakeFileSystem:
    return killed()


def reconciled(disk: FakeFileSystem, **known: Any) -> RecoveredLog:
    log = opened(disk, **known)
    open_segments(log)
    recover_segments(log)
    return reconcile(log, find_end(log))


def test_a_log_is_handed_over_from_its_start_to_its_end(disk: FakeFileSystem) -> None:
    log = reconciled(disk, log_start_offset=3)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (3, COUNT, 0)
    assert log.producers.entries[7].last_sequence == 0
    assert log.producers.map_end_offset == COUNT


def test_epochs_that_begin_after_the_end_go_and_those_before_the_start_too(
    disk: FakeFileSystem,
) -> None:
    replace_file(disk, EPOCHS, b"0\n3\n0 0\n1 10\n5 900\n")
    assert reconciled(disk, log_start_offset=12).epochs.entries == (EpochEntry(1, 12),)


def test_epochs_that_the_checkpoint_lacks_are_read_from_the_batches(disk: FakeFileSystem) -> None:
    disk.remove(EPOCHS)
    found = reconciled(disk, was_clean_stop=True, recovery_point=COUNT).epochs.entries
    assert found == (EpochEntry(0, 0), EpochEntry(1, COUNT // 2))


def test_snapshots_after_the_end_go_and_one_of_the_end_is_there(disk: FakeFileSystem) -> None:
    beyond = f"{PARTITION}/{900:020d}.snapshot"
    replace_file(disk, beyond, read_file(disk, live(disk, ".snapshot")[-1]))
    reconciled(disk)
    assert disk.status(beyond) is None
    assert f"{PARTITION}/{COUNT:020d}.snapshot" in live(disk, ".snapshot")


def test_snapshots_that_are_gone_after_a_clean_stop_are_named_and_the_log_is_asked(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    for path in live(disk, ".snapshot"):
        disk.remove(path)
    log = reconciled(disk, was_clean_stop=True, recovery_point=COUNT)
    assert log.producers.entries[7].last_sequence == 0
    assert log.producers.map_end_offset == COUNT
    assert f"{COUNT:020d}.snapshot is missing, though the log was closed there" in caplog.text


def test_of_a_log_that_kafka_stopped_without_snapshots_nobody_is_remembered(
    disk: FakeFileSystem,
) -> None:
    for path in [*live(disk, ".snapshot"), f"{PARTITION}/{INTEGRITY}"]:
        disk.remove(path)
    log = reconciled(disk, was_clean_stop=True, recovery_point=COUNT, integrity=None)
    assert log.producers.entries == {}
    assert log.producers.map_end_offset == COUNT


def test_the_integrity_file_says_whose_it_is_and_how_long_each_ended_segment_is(
    disk: FakeFileSystem,
) -> None:
    log = reconciled(disk)
    found = read_integrity(disk, PARTITION)
    assert found is not None
    assert (found.topic_id, found.partition) == (TOPIC_ID, TopicPartition("t", 0))
    sizes = {base: facts.size for base, facts in found.segments.items()}
    expected = {one.base_offset: one.log.size for one in log.segments.values}
    expected[log.segments.active.base_offset] = None  # type: ignore[assignment]
    assert sizes == expected


def test_a_lost_integrity_file_that_kafka_cannot_have_removed_is_reported_and_rebuilt(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    reconciled(disk)
    before = read_integrity(disk, PARTITION)
    assert before is not None
    disk.remove(f"{PARTITION}/{INTEGRITY}")
    reconciled(disk, integrity=None, is_integrity_lost=True)
    after = read_integrity(disk, PARTITION)
    assert after is not None
    assert after.segments.keys() == before.segments.keys()
    assert "is missing or damaged, and Kafka has not removed it" in caplog.text
