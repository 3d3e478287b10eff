"""What a load reads, and which logs cannot continue a table."""

import pytest

from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import OffsetRange
from ottla.loading.plan import plan_load
from ottla.sources.log_source import LogPartition
from ottla.tables.entries import LoadedPartition

TOPIC_ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(16))


def log(
    partition: int, start: int, end: int, *, topic: str = "orders", topic_id: Uuid | None = TOPIC_ID
) -> LogPartition:
    return LogPartition(
        topic=topic, topic_id=topic_id, partition=partition, start_offset=start, end_offset=end
    )


def table(
    *until_offsets: int, topic: str = "orders", topic_id: Uuid | None = TOPIC_ID
) -> dict[int, LoadedPartition]:
    return {
        partition: LoadedPartition(
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            from_offset=0,
            until_offset=until_offset,
            row_count=until_offset,
        )
        for partition, until_offset in enumerate(until_offsets)
    }


def offsets(
    loaded: dict[int, LoadedPartition], *partitions: LogPartition, allow_gaps: bool = False
) -> list[tuple[int, int]]:
    planned = plan_load(loaded, partitions, allow_gaps=allow_gaps)
    return [(one.from_offset, one.until_offset) for one in planned]


def test_a_first_load_takes_all_that_the_log_has() -> None:
    assert offsets({}, log(1, 5, 5), log(0, 3, 10)) == [(3, 10), (5, 5)]


def test_a_later_load_continues_where_the_last_one_ended() -> None:
    assert offsets(table(4, 7), log(0, 0, 10), log(1, 0, 7)) == [(4, 10), (7, 7)]


def test_nothing_new_is_a_plan_of_empty_ranges() -> None:
    planned = plan_load(table(4, 7), [log(0, 2, 4), log(1, 0, 7)])
    assert all(one.is_empty for one in planned)


def test_a_partition_that_the_topic_grew_is_read_from_its_start() -> None:
    assert offsets(table(4), log(0, 0, 4), log(1, 0, 3)) == [(4, 4), (0, 3)]


def test_a_log_that_starts_where_the_table_ends_has_no_gap() -> None:
    (planned,) = plan_load(table(4), [log(0, 4, 9)])
    assert planned.lost is None


@pytest.mark.parametrize(
    ("loaded", "now", "words"),
    [
        (table(4), [log(0, 0, 3)], "orders-0: .* below 4, .* ends at 3"),
        (table(4), [log(0, 6, 9)], "orders-0: .* below 4, .* starts at 6; .*--allow-gaps"),
        (table(4), [log(0, 0, 9), log(1, 2, 9)], "orders-1: .* below 0, .* starts at 2"),
        (table(4, 5), [log(0, 0, 9)], "orders-1 up to offset 5, but the log has no"),
        (table(4), [log(0, 0, 9, topic="sales")], "holds topic orders, not sales"),
        (table(4), [log(0, 0, 9, topic_id=OTHER_ID)], "re-created since the table was loaded"),
        (table(4, 5), [log(0, 0, 9, topic_id=OTHER_ID)], "re-created since the table was loaded"),
    ],
    ids=["cut", "gap", "gap-in-new", "fewer", "other-topic", "made-again", "made-again-smaller"],
)
def test_a_log_that_cannot_continue_the_table_is_refused(
    loaded: dict[int, LoadedPartition], now: list[LogPartition], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        plan_load(loaded, now)


def test_a_gap_that_is_allowed_is_recorded() -> None:
    (planned,) = plan_load(table(4), [log(0, 6, 9)], allow_gaps=True)
    assert planned.lost == OffsetRange(from_offset=4, until_offset=6)
    assert (planned.from_offset, planned.until_offset) == (6, 9)


@pytest.mark.parametrize("words", ["was re-created", "ends at 3"])
def test_allowing_gaps_allows_nothing_else(words: str) -> None:
    now = log(0, 0, 9, topic_id=OTHER_ID) if words == "was re-created" else log(0, 0, 3)
    with pytest.raises(UserError, match=words):
        plan_load(table(4), [now], allow_gaps=True)


def test_a_log_without_an_id_is_held_by_its_offsets_alone() -> None:
    assert offsets(table(4), log(0, 0, 9, topic_id=None)) == [(4, 9)]
    assert offsets(table(4, topic_id=None), log(0, 0, 9)) == [(4, 9)]
