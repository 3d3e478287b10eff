"""Files held against the log: what must not pass for a whole load."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.spark.log_source import Split
from ottla.spark.manifest import DataFile, OffsetRange
from ottla.spark.plan import LogPartition, PlannedRange
from ottla.spark.verification import verify_files


class CountedLog:
    """A log of which only the count of records is asked."""

    def __init__(self, count: int | None) -> None:
        self._count = count
        self.asked: list[int] = []

    def partitions(self) -> list[LogPartition]:
        return []

    def splits(self, ranges: Mapping[int, OffsetRange], min_count: int | None) -> list[Split]:
        return []

    def read(self, split: Split, columns: Sequence[str]) -> Iterator[Any]:
        return iter(())

    def count_records(self, partition: int, wanted: OffsetRange) -> int | None:
        self.asked.append(partition)
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


def test_a_row_for_every_offset_needs_no_counting() -> None:
    log = CountedLog(None)
    files = [file(15, 19, 5), file(10, 14, 5)]
    assert verify_files([planned(20), planned(10, partition=1)], files, log) == {0: 10, 1: 0}
    assert log.asked == []


def test_fewer_rows_than_offsets_are_right_when_the_log_has_no_more() -> None:
    assert verify_files([planned(20)], [file(10, 17, 6)], CountedLog(6)) == {0: 6}
    assert verify_files([planned(20)], [], CountedLog(0)) == {0: 0}


def test_what_a_broker_cannot_count_is_believed() -> None:
    assert verify_files([planned(20)], [file(10, 17, 6)], CountedLog(None)) == {0: 6}


@pytest.mark.parametrize(
    ("files", "counted", "words"),
    [
        ([file(10, 17, 6)], 7, "6 rows were written of offsets 10 to 19, .* has 7 records"),
        ([], 1, "0 rows were written"),
        ([file(10, 14, 6)], 6, "6 rows of offsets 10 to 14, .* written twice"),
        ([file(10, 15, 6), file(15, 19, 4)], 10, "written twice"),
        ([file(10, 14, 5), file(10, 14, 5)], 10, "written twice"),
        ([file(9, 14, 5)], 5, "written twice"),
        ([file(15, 20, 5)], 5, "written twice"),
        ([file(10, 19, 10, partition=3)], 10, "partition 3, which was not read"),
    ],
)
def test_files_that_do_not_hold_the_range_are_refused(
    files: list[DataFile], counted: int, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        verify_files([planned(20)], files, CountedLog(counted))
