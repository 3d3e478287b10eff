"""Segments that are lost of a topic with a tier: only those that were left to the tier may be gone.

Recovery, a check of the directory and a reader say the same of each loss.
"""

import logging
from collections.abc import Callable

import pytest

from ottla.base.files import join
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import INTEGRITY, log_file_name
from ottla.storage.findings import FindingKind
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.logs import leave_to_tier
from tests.support.metadata import record_settings

DIRECTORY, PARTITION = "/d", "/d/t-0"
SETTINGS = {
    "segment.bytes": "200",
    "remote.storage.enable": "true",
    "local.retention.bytes": "0",
    "retention.ms": "-1",
}


def tiered(*, is_clean: bool) -> tuple[FakeFileSystem, int]:
    """A directory with segments of one record each, of which the first three are in the tier."""
    files = disk(DIRECTORY)
    broker = open_broker(files, log_index_size_max_bytes="240")
    broker.admin.create_topic(NewTopic(name="t", overrides={"segment.bytes": "200"}))
    record_settings(broker, "t", SETTINGS)
    partition = broker.topics.partition("t", 0)
    for _ in range(8):
        broker.appends.append(partition, batch(b"v" * 80), now_ms=NOW_MS)
        broker.appends.write_out()
    partition.directory.checkpoints.write_log_starts()
    local_start = leave_to_tier(partition.log, 3)
    partition.directory.checkpoints.write()
    if is_clean:
        broker.close()
    return files.crash(CrashMode.KEEP), local_start


def lose(files: FakeFileSystem, *base_offsets: int) -> None:
    for one in base_offsets:
        for name in files.list(PARTITION):
            if name.startswith(log_file_name(one)[:20]) and not name.endswith(".snapshot"):
                files.remove(join(PARTITION, name))


def lose_nothing(files: FakeFileSystem) -> None:
    pass


def lose_the_first_local(files: FakeFileSystem) -> None:
    lose(files, 3)


def lose_one_in_the_middle(files: FakeFileSystem) -> None:
    lose(files, 5)


def lose_the_last(files: FakeFileSystem) -> None:
    lose(files, 7)


def lose_the_integrity_file(files: FakeFileSystem) -> None:
    files.remove(join(PARTITION, INTEGRITY))


DAMAGES: list[tuple[Callable[[FakeFileSystem], None], tuple[int, int] | None]] = [
    (lose_nothing, None),
    (lose_the_first_local, (3, 4)),
    (lose_one_in_the_middle, (5, 6)),
    (lose_the_last, (7, 8)),
    (lose_the_integrity_file, None),
]


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(("damage", "lost"), DAMAGES, ids=lambda one: getattr(one, "__name__", ""))
def test_what_was_not_left_to_the_tier_is_named_where_it_is_missing(
    damage: Callable[[FakeFileSystem], None],
    lost: tuple[int, int] | None,
    is_clean: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, local_start = tiered(is_clean=is_clean)
    assert local_start == 3
    damage(files)
    found = [
        one
        for one in check(files, DIRECTORY).findings
        if one.kind is FindingKind.LOST_OFFSETS and not one.is_note
    ]
    log = open_for_reading(DIRECTORY, files).partition("t", 0)
    parts = list(log.damage.lost_parts())
    log_of(files)
    errors = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    errors = [one for one in errors if "this broker has no tier" not in one]
    if lost is None:
        assert (found, parts, errors) == ([], [], [])
    else:
        assert found
        assert [(one.from_offset, one.until_offset) for one in parts] == [lost]
        assert errors


def log_of(files: FakeFileSystem) -> PartitionLog:
    return open_broker(files, log_index_size_max_bytes="240").topics.partition("t", 0).log


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_loss_in_a_tiered_log_costs_nothing_but_what_is_lost(is_clean: bool) -> None:
    for damage, (start, local_start, end) in (
        (lose_nothing, (0, 3, 8)),
        (lose_the_first_local, (0, 4, 8)),
        (lose_one_in_the_middle, (0, 3, 8)),
        (lose_the_last, (0, 3, 8)),
        (lose_the_integrity_file, (0, 3, 8)),
    ):
        files, _ = tiered(is_clean=is_clean)
        damage(files)
        log = log_of(files)
        assert (log.log_start_offset, log.local_start_offset) == (start, local_start)
        assert log.log_end_offset >= end, "no offset is given twice"
        assert [one.start_offset for one in log.epochs.entries] == [0]


def lose_the_metadata(files: FakeFileSystem) -> None:
    for one in files.list(join(DIRECTORY, "__cluster_metadata-0")):
        files.remove(join(DIRECTORY, "__cluster_metadata-0", one))
    files.remove_directory(join(DIRECTORY, "__cluster_metadata-0"))
    for name in files.list(DIRECTORY):
        if "metadata" in name and name != "meta.properties":
            files.remove(join(DIRECTORY, name))


def test_a_topic_whose_tier_is_unknown_keeps_its_start_until_it_is_known() -> None:
    files, _ = tiered(is_clean=True)
    lose_the_metadata(files)
    broker = open_broker(files, log_index_size_max_bytes="240")
    log = broker.topics.partition("t", 0).log
    assert (log.log_start_offset, log.local_start_offset) == (0, 3)
    topic = broker.topics.get("t")
    broker.admin.confirm_topics({"t": SETTINGS})
    assert (log.log_start_offset, log.local_start_offset) == (0, 3)
    assert topic.config.remote_storage_enable


def test_a_log_that_was_emptied_has_nothing_in_a_tier_though_its_settings_are_unknown() -> None:
    """As a follower is whose log ends before its leader's begins."""
    files = disk(DIRECTORY)
    broker = open_broker(files, log_index_size_max_bytes="240")
    broker.admin.create_topic(NewTopic(name="t"))
    partition = broker.topics.partition("t", 0)
    broker.appends.append(partition, batch(b"v"), now_ms=NOW_MS)
    partition.directory.checkpoints.write_log_starts()
    partition.log.maintenance.truncate_fully_and_start_at(20, now_ms=NOW_MS)
    broker.appends.append(partition, batch(b"v"), now_ms=NOW_MS)
    broker.appends.write_out()
    killed = files.crash(CrashMode.KEEP)
    lose_the_metadata(killed)
    log = open_broker(killed, log_index_size_max_bytes="240").topics.partition("t", 0).log
    assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (20, 20, 21)
