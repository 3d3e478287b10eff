"""What a rerun reads again, what it refuses, and how its ends are typed."""

from dataclasses import replace

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.rerun_plan import plan_rerun, rerun_range
from ottla.sources.bounds import FROM_EARLIEST, Bound, BoundKind
from ottla.sources.log_source import LogPartition
from ottla.tables.entries import DataFile, LoadedPartition
from ottla.tables.ledger.coverage import Piece
from ottla.tables.writing.copied_rows import touched_files


def piece(from_offset: int, until_offset: int) -> Piece:
    stated = LoadedPartition(
        topic="orders",
        topic_id=None,
        partition=0,
        from_offset=from_offset,
        until_offset=until_offset,
        row_count=until_offset - from_offset,
    )
    return Piece(from_offset=from_offset, until_offset=until_offset, stated=stated, commit_id=0)


def log(start: int = 0, end: int = 100, partition: int = 0) -> LogPartition:
    return LogPartition(
        topic="orders", topic_id=None, partition=partition, start_offset=start, end_offset=end
    )


def span(from_offset: int, until_offset: int) -> OffsetRange:
    return OffsetRange(from_offset=from_offset, until_offset=until_offset)


def test_a_range_is_cut_to_what_the_table_has() -> None:
    offered = [log(), log(partition=1)]
    plan = plan_rerun({0: span(0, 1000)}, {0: [piece(5, 20), piece(20, 40)]}, offered)
    assert [(one.from_offset, one.until_offset) for one in plan] == [(5, 40), (0, 0)]


@pytest.mark.parametrize(
    ("wanted", "start", "end", "words"),
    [
        (span(5, 30), 10, 100, "orders-0: the log starts at 10, .* rerun from 10"),
        (span(5, 30), 0, 29, "offsets below 30, but the log ends at 29; it was cut"),
        (span(30, 60), 0, 100, "orders-0: offset 40 was never loaded"),
        (span(70, 90), 0, 100, "the table has no offsets in that range"),
        (span(0, 5), 0, 100, "the table has no offsets in that range"),
    ],
)
def test_what_the_log_cannot_give_whole_is_refused(
    wanted: OffsetRange, start: int, end: int, words: str
) -> None:
    pieces = {0: [piece(5, 40), piece(50, 70)]}
    with pytest.raises(UserError, match=words):
        plan_rerun({0: wanted}, pieces, [log(start, end)])


def data_file(first: int, last: int, partition: int = 0) -> DataFile:
    return DataFile(
        path=f"data/{partition}-{first}",
        size=1,
        row_count=1,
        partition=partition,
        first_offset=first,
        last_offset=last,
    )


def test_files_that_touch_the_range_are_replaced() -> None:
    files = [data_file(0, 9), data_file(10, 19), data_file(20, 29), data_file(10, 19, 1)]
    assert touched_files(files, {0: span(10, 20)}) == (files[1],)
    assert touched_files(files, {0: span(9, 21)}) == tuple(files[:3])


def times(timestamp_ms: int) -> Bound:
    return Bound(option="--from", kind=BoundKind.TIMES, for_all=timestamp_ms)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        (None, None),
        ("1200", Bound(option="--from", for_all=1200)),
        ("0", Bound(option="--from", for_all=0)),
        (
            "0:1200,2:900",
            Bound(
                option="--from",
                for_each={TopicPartition("orders", 0): 1200, TopicPartition("orders", 2): 900},
            ),
        ),
        ("earliest", FROM_EARLIEST),
        ("@1700000000000", times(1_700_000_000_000)),
        ("2023-11-14T22:13:20", times(1_700_000_000_000)),
        ("2023-11-14T23:13:20.5+01:00", times(1_700_000_000_500)),
        ("2023-11-14", times(1_699_920_000_000)),
    ],
)
def test_ends_are_offsets_or_times(text: str | None, bound: Bound | None) -> None:
    found = rerun_range(text, None, "orders").begin
    assert found == (None if bound is None else replace(bound, option="--from"))


@pytest.mark.parametrize("text", ["", "-3", "yesterday", "0:1,0:2", "1:", "2023-13-01"])
def test_other_ends_are_refused_with_examples(text: str) -> None:
    with pytest.raises(UserError, match="--to"):
        rerun_range(None, text, "orders")


def test_partitions_that_no_end_names_are_left_alone() -> None:
    zero, one = TopicPartition("orders", 0), TopicPartition("orders", 1)
    wanted = rerun_range("0:5", "9", "orders")
    assert (wanted.names(zero), wanted.names(one)) == (True, False)
    assert rerun_range("5", None, "orders").names(one)
