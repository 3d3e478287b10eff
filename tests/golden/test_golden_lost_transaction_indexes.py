"""Transaction indexes that Kafka wrote, lost: no aborted record is shown, and it is said."""

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import read_file
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.filenames import META_PROPERTIES
from ottla.storage.index.transaction_index import ENTRY
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.testing import FakeFileSystem
from tests.golden.directories import CASES, GOLDEN
from tests.support import SHARED
from tests.support.damaged_logs import Files
from tests.support.logs import DIRECTORY, NOW_MS, open_directory
from tests.unit.storage.test_lost_transaction_index import Harm, cut_last_entry, delete, empty

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SHARED is None, reason="the directories written by Kafka are not here"),
]

CONFIG = TopicConfig(segment_index_bytes=1 << 12, cleanup_policy=("compact",))
"""Nothing is taken for damage that compaction may have left."""


def cut_first_entry(files: Files, name: str) -> None:
    del files[name][: ENTRY.size]


HARMS: list[Harm] = [delete, empty, cut_last_entry, cut_first_entry]


@cache
def content_of(case: str, partition: str) -> dict[str, bytes]:
    root = GOLDEN / case / "logdir"
    paths = [path for path in root.glob("*") if path.is_file() and path.name != META_PROPERTIES]
    paths += (root / partition).glob("*")
    content = {f"{DIRECTORY}/{path.relative_to(root)}": path.read_bytes() for path in paths}
    disk = FakeFileSystem()
    open_directory(disk).close()
    name = f"{DIRECTORY}/{META_PROPERTIES}"  # of the broker that is to open it
    return {**content, name: read_file(disk, name)}


def files_of(case: str, partition: str) -> Files:
    return Files({name: bytearray(one) for name, one in content_of(case, partition).items()})


def partitions(*, with_aborts: bool) -> list[tuple[str, str]]:
    found = []
    for case in CASES:
        for directory in sorted((GOLDEN / case / "logdir").glob("*-[0-9]*")):
            if not with_aborts or has_aborts(directory):
                found.append((case, directory.name))
    return found


def has_aborts(directory: Path) -> bool:
    return any(path.stat().st_size for path in directory.glob("*.txnindex"))


def cases(case: str, partition: str) -> Iterator[tuple[Files, list[str], str]]:
    """One index harmed at a time, in every way, and then all of them."""
    sound = files_of(case, partition)
    names = [name for name, one in sorted(sound.content.items()) if is_index(name) and one]
    for harm in HARMS:
        for harmed in [*([one] for one in names), names]:
            files = files_of(case, partition)
            for name in harmed:
                harm(files, name)
            yield files, harmed, f"{harm.__name__} {harmed}"


def is_index(name: str) -> bool:
    return name.endswith(".txnindex")


def key_of(partition: str) -> tuple[str, int]:
    topic, _, index = partition.rpartition("-")
    return topic, int(index)


def read_by_files(disk: FakeFileSystem, partition: str) -> list[int]:
    log = open_for_reading(DIRECTORY, disk).partition(*key_of(partition))
    return [one.offset for one in log.records.read(log.log_start_offset, read_committed=True)]


def open_log(disk: FakeFileSystem, partition: str) -> PartitionLog:
    return open_directory(disk, CONFIG).logs[key_of(partition)]


def read_by_consumer(log: PartitionLog) -> list[int]:
    """As a consumer gets them, which asks again while the log is still looked through."""
    offset, found = log.log_start_offset, []
    while offset < log.last_stable_offset:
        data = log.reader.read(offset, 300, Isolation.LAST_STABLE)
        if data.records is None:
            assert log.abort_check is not None, f"nothing at offset {offset}"
            log.maintenance.check_aborts()
            continue
        ranges = AbortedRanges(data.aborted or [])
        for batch in iter_batches(data.records.read(), allow_torn_tail=True):
            offset = batch.last_offset + 1
            if not batch.is_control and not ranges.covers(batch):
                found += [one.offset for one in read_records(batch)]
    return found


def run_whole_check(log: PartitionLog) -> None:
    while log.abort_check is not None:
        log.maintenance.check_aborts()


@pytest.mark.parametrize(("case", "partition"), partitions(with_aborts=True))
def test_consumers_see_no_aborted_record_and_the_entries_are_there_again(
    case: str, partition: str, caplog: pytest.LogCaptureFixture
) -> None:
    want = read_by_consumer(open_log(files_of(case, partition).disk(), partition))
    sound = files_of(case, partition)
    for files, harmed, name in cases(case, partition):
        disk = files.disk()
        caplog.clear()
        directory = open_directory(disk, CONFIG)
        log = directory.logs[key_of(partition)]
        assert read_by_consumer(log) == want, name
        run_whole_check(log)
        if case == "txn":
            for path in harmed:
                assert path in caplog.text, name
                file = disk.open(path)
                assert file.pread(file.size(), 0) == sound[path], name
            directory.close()
            caplog.clear()
            again = open_directory(disk, CONFIG)
            assert again.logs[key_of(partition)].abort_check is None, "it is done once"
            assert caplog.text == "", name
            again.close()
            disk.remove(harmed[0])
            assert read_by_consumer(open_log(disk, partition)) == want, "there is a copy now"


@pytest.mark.parametrize("partition", ["txn-0", "txn-1"])
def test_readers_of_files_name_the_index_and_the_repair_and_then_see_what_they_saw(
    partition: str, caplog: pytest.LogCaptureFixture
) -> None:
    want = read_by_files(files_of("txn", partition).disk(), partition)
    for files, harmed, name in cases("txn", partition):
        disk = files.disk()
        with pytest.raises(CorruptionError, match="ottla log repair") as raised:
            read_by_files(disk, partition)
        assert raised.value.path in harmed, name
        topic, index = key_of(partition)
        log = open_for_reading(DIRECTORY, disk, on_damage=lambda _: None).partition(topic, index)
        caplog.clear()
        assert [one.offset for one in log.records.read(0, read_committed=True)] == want, name
        assert raised.value.path in caplog.text
        repair(disk, DIRECTORY, RepairOptions(now_ms=NOW_MS, discard=True))
        assert read_by_files(disk, partition) == want, name


def test_a_range_that_touches_nothing_of_a_lost_entry_is_read() -> None:
    files = files_of("txn", "txn-0")
    sound = open_for_reading(DIRECTORY, files.disk()).partition("txn", 0)
    first = sound.transactions.aborted(0, sound.log_end_offset)[0]
    delete(files, next(name for name in sorted(files.content) if is_index(name) and files[name]))
    log = open_for_reading(DIRECTORY, files.disk()).partition("txn", 0)
    assert log.transactions.aborted(0, first.first_offset) == []
    with pytest.raises(CorruptionError):
        log.transactions.aborted(0, first.first_offset + 1)


def test_no_directory_of_kafkas_gives_a_false_alarm(caplog: pytest.LogCaptureFixture) -> None:
    looked_through = 0
    for case, partition in partitions(with_aborts=False):
        if partition == "__cluster_metadata-0":
            continue  # no topic's
        disk = files_of(case, partition).disk()
        log = open_for_reading(DIRECTORY, disk).partition(*key_of(partition))
        # Raises where an entry seems to be missing.
        log.transactions.aborted(log.log_start_offset, log.offsets.readable_end_offset)
        with caplog.at_level(logging.WARNING):
            run_whole_check(open_log(disk, partition))
        looked_through += 1
        assert "lacks aborted transactions" not in caplog.text, (case, partition)
        assert "is used unchecked" not in caplog.text, (case, partition)
    assert looked_through > 20
