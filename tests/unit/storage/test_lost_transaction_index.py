"""A transaction index that is lost, or has lost entries, shows no aborted record to anybody."""

import logging
from collections.abc import Callable, Iterator

import pytest

from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.index.transaction_index import ENTRY
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.testing import FakeFileSystem
from tests.support.damaged_logs import PARTITION, Files, sound_files
from tests.support.logs import DIRECTORY, NOW_MS, SMALL, open_directory

Harm = Callable[[Files, str], None]


def delete(files: Files, name: str) -> None:
    del files.content[name]


def empty(files: Files, name: str) -> None:
    files[name].clear()


def cut_last_entry(files: Files, name: str) -> None:
    del files[name][-ENTRY.size :]


def cut_a_byte(files: Files, name: str) -> None:
    del files[name][-1:]


def zero(files: Files, name: str) -> None:
    files[name][:] = bytes(len(files[name]))


HARMS: list[Harm] = [delete, empty, cut_last_entry, cut_a_byte, zero]


def indexes(files: Files) -> list[str]:
    return [
        name
        for name, content in sorted(files.content.items())
        if name.startswith(PARTITION) and name.endswith(".txnindex") and content
    ]


def cases() -> Iterator[tuple[Files, str]]:
    """One index harmed at a time, in every way, and then all of them."""
    for harm in HARMS:
        names = indexes(sound_files())
        assert names
        for harmed in [[one] for one in names] + [names]:
            files = sound_files()
            for name in harmed:
                harm(files, name)
            yield files, f"{harm.__name__} {harmed}"


def read_by_files(disk: FakeFileSystem) -> list[int]:
    log = open_for_reading(DIRECTORY, disk).partition("t", 0)
    return [one.offset for one in log.records.read(log.log_start_offset, read_committed=True)]


def read_by_consumer(log: PartitionLog) -> list[int]:
    """As a consumer of committed records gets them, in small fetches."""
    offset, found = log.log_start_offset, []
    while offset < log.last_stable_offset:
        data = log.reader.read(offset, 200, Isolation.LAST_STABLE)
        assert data.records is not None
        assert data.aborted is not None
        ranges = AbortedRanges(data.aborted)
        for batch in iter_batches(data.records.read(), allow_torn_tail=True):
            offset = batch.last_offset + 1
            if not batch.is_control and not ranges.covers(batch):
                found += [one.offset for one in read_records(batch)]
    return found


def test_readers_of_files_see_what_they_saw(caplog: pytest.LogCaptureFixture) -> None:
    want = read_by_files(sound_files().disk())
    assert want
    for files, case in cases():
        caplog.clear()
        assert read_by_files(files.disk()) == want, case
        assert "it has changed on the disk" in caplog.text, case


def test_consumers_see_what_they_saw_and_the_index_is_there_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sound = sound_files()
    want = read_by_consumer(open_directory(sound.disk(), SMALL).logs["t", 0])
    assert want == read_by_files(sound.disk())
    for files, case in cases():
        disk = files.disk()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            directory = open_directory(disk, SMALL)
        assert "it has changed on the disk" in caplog.text, case
        assert read_by_consumer(directory.logs["t", 0]) == want, case
        for name in indexes(sound):
            file = disk.open(name)
            assert file.pread(file.size(), 0) == sound[name], case


def test_after_a_kill_they_do_too() -> None:
    want = read_by_files(sound_files().disk())
    for files, case in cases():
        del files.content[f"{DIRECTORY}/.kafka_cleanshutdown"]
        assert read_by_files(files.disk()) == want, case
        assert read_by_consumer(open_directory(files.disk(), SMALL).logs["t", 0]) == want, case


def test_a_check_names_it_and_a_repair_rebuilds_it() -> None:
    sound = sound_files()
    for files, case in cases():
        disk = files.disk()
        found = [one.path for one in check(disk, DIRECTORY, deep=False).findings]
        assert any(path.endswith(".txnindex") for path in found), case
        assert repair(disk, DIRECTORY, RepairOptions(now_ms=NOW_MS, discard=True)).is_sound, case
        for name in indexes(sound):
            file = disk.open(name)
            assert file.pread(file.size(), 0) == sound[name], case
