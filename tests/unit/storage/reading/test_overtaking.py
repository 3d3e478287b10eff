"""Reads of a log's files that retention overtakes: between any two calls, and again."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.time_search import first_offset_at
from ottla.testing import FakeFileSystem
from ottla.testing.crash import CrashMode
from tests.support.brokers import NOW_MS
from tests.support.mirroring import SOURCE
from tests.support.overtaken import OvertakingFileSystem, filled_disk, overtaken


@pytest.fixture(scope="module")
def disk() -> FakeFileSystem:
    return filled_disk()


def read_only(files: OvertakingFileSystem) -> ReadOnlyLog:
    return open_for_reading(SOURCE, files).partition("t", 0)


@pytest.mark.slow
def test_where_transactions_stand_is_known_however_often_retention_is_there(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    end, stable = read_only(_undisturbed(disk)).log_end_offset, set()

    def read(files: OvertakingFileSystem) -> None:
        log = ask_log(
            lambda: read_only(files), lambda log: log.transactions.last_stable_offset and log
        )
        assert (
            log.log_start_offset <= log.transactions.last_stable_offset <= log.log_end_offset == end
        )
        assert [one.producer_id for one in log.transactions.open] == [8]
        stable.add(log.transactions.last_stable_offset)

    overtaken(disk, read, crash_seconds)
    assert len(stable) == 1


@pytest.mark.slow
def test_an_offset_is_found_by_its_time_in_what_is_left(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    def read(files: OvertakingFileSystem) -> None:
        found = ask_log(lambda: read_only(files), lambda log: first_offset_at(log, NOW_MS))
        assert found is not None

    overtaken(disk, read, crash_seconds)


@pytest.mark.slow
def test_records_that_are_read_are_right_and_what_is_gone_is_said(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    whole = {one.offset: one for one in read_only(_undisturbed(disk)).records.read(0)}

    def read(files: OvertakingFileSystem) -> None:
        log = read_only(files)
        start, seen = log.log_start_offset, []
        try:
            for record in log.records.read(start):
                assert record == whole[record.offset]
                seen.append(record.offset)
        except ApiError as error:
            code = error.code
        else:
            code = ErrorCode.NONE
            assert seen == [offset for offset in whole if offset >= start]
        assert code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)

    overtaken(disk, read, crash_seconds)


def test_offsets_that_never_were_are_not_asked_for_again_and_again(disk: FakeFileSystem) -> None:
    files = _undisturbed(disk)
    with pytest.raises(ApiError, match="offset 9999 is not in /source/t-0, which has 0 to"):
        ask_log(lambda: read_only(files), lambda log: log.batches.regions(9999))


def _undisturbed(disk: FakeFileSystem) -> OvertakingFileSystem:
    return OvertakingFileSystem(disk.crash(CrashMode.KEEP), lambda _: False)


def test_a_listing_that_missed_the_first_segment_is_made_again(disk: FakeFileSystem) -> None:
    log = read_only(_undisturbed(disk))
    whole = [one.offset for one in log.records.read(0)]
    segments = log._facts.listed
    assert len(segments.values) > 1
    segments.files = replace(segments.files, segments=segments.values[1:])
    assert [one.offset for one in log.records.read(0)] == whole
