"""Files compared with the log: what must not pass for a whole load."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.plan import PlannedRange
from ottla.loading.verification import verify_files
from ottla.record.batch_roll_up import BatchRollUp
from ottla.sources.log_source import LogSource
from ottla.tables.entries import DataFile, FileRole
from ottla.tables.files.data_files import DataFiles
from ottla.tables.stores.local_store import LocalStore


class CountedLog(LogSource):
    """A log of which only counts and roll-ups are asked."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.asked: list[int] = []

    looks_by_reading = False

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> BatchRollUp | None:
        return BatchRollUp(batch_count=wanted.until_offset, crc=place.partition, leader_epoch=3)

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> int:
        self.asked.append(place.partition)
        return self._count


def file(first_offset: int, last_offset: int, row_count: int, partition: int = 0) -> DataFile:
    return DataFile(
        path=f"data/part-{first_offset}.parquet",
        size=1,
        row_count=row_count,
        partition=partition,
        first_offset=first_offset,
        last_offset=last_offset,
    )


def planned(until_offset: int, partition: int = 0) -> PlannedRange:
    return PlannedRange(
        topic="orders",
        topic_id=None,
        partition=partition,
        from_offset=10,
        until_offset=until_offset,
    )


def opened(path: Path = Path("t")) -> DataFiles:
    return DataFiles(LocalStore(str(path)))


def row_counts(files: list[DataFile], log: CountedLog) -> list[int]:
    return [one.row_count for one in verify_files([planned(20)], files, log, opened())]


def test_a_row_for_every_offset_needs_no_counting() -> None:
    log = CountedLog(10)
    files = [file(15, 19, 5), file(10, 14, 5)]
    first, second = verify_files([planned(20), planned(10, partition=1)], files, log, opened())
    assert (first.row_count, second.row_count) == (10, 0)
    assert first.batches == BatchRollUp(batch_count=20, crc=0, leader_epoch=3)
    assert second.batches is None
    assert log.asked == []


def test_fewer_rows_than_offsets_are_right_when_the_log_has_no_more() -> None:
    assert row_counts([file(10, 17, 6)], CountedLog(6)) == [6]
    assert row_counts([], CountedLog(0)) == [0]


def test_rows_in_quarantine_count_as_records_of_the_log() -> None:
    files = [file(10, 16, 7), replace(file(17, 19, 3), role=FileRole.QUARANTINE)]
    (found,) = verify_files([planned(20)], files, CountedLog(10), opened())
    assert (found.row_count, found.quarantined_count, found.record_count) == (7, 3, 10)


def write_offsets(path: Path, name: str, offsets: list[int]) -> DataFile:
    (path / "data").mkdir(exist_ok=True)
    pq.write_table(
        pa.table({"partition": [0] * len(offsets), "offset": offsets}), path / "data" / name
    )
    count = len(offsets)
    return replace(file(min(offsets), max(offsets), count), path=f"data/{name}")


def test_files_whose_offsets_lie_between_each_others_are_read(tmp_path: Path) -> None:
    even = write_offsets(tmp_path, "even.parquet", [10, 12, 14, 16, 18])
    odd = write_offsets(tmp_path, "odd.parquet", [19, 17, 15, 13, 11])
    (found,) = verify_files([planned(20)], [odd, even], CountedLog(10), opened(tmp_path))
    assert found.row_count == 10
    twice = write_offsets(tmp_path, "twice.parquet", [11, 13, 14, 17, 19])
    with pytest.raises(UserError, match=r"data/twice.parquet holds 5 rows .* written twice"):
        verify_files([planned(20)], [twice, even], CountedLog(10), opened(tmp_path))


@pytest.mark.parametrize(
    ("files", "counted", "words"),
    [
        ([file(10, 17, 6)], 7, "6 rows were written of offsets 10 to 19, .* has 7 records"),
        ([], 1, "0 rows were written"),
        ([file(10, 14, 6)], 6, "6 rows of offsets 10 to 14, .* written twice"),
        ([file(9, 14, 5)], 5, "written twice"),
        ([file(15, 20, 5)], 5, "written twice"),
        ([file(10, 19, 10, partition=3)], 10, "partition 3, which was not read"),
    ],
)
def test_files_that_do_not_hold_the_range_are_refused(
    files: list[DataFile], counted: int, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        verify_files([planned(20)], files, CountedLog(counted), opened())
