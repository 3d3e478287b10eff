"""Where micro-batches begin and end, and what a checkpoint says of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.sources.log_source import LogPartition, LogSource
from ottla.sources.options import TriggerLimits
from ottla.sources.stream.continuity import LossKind, Position
from ottla.sources.stream.stream_offset import StreamOffset
from ottla.sources.stream.stream_plan import BatchPlan, ends_of, go_on, is_due, plan_batch

ID, NEW_ID = Uuid(b"1" * 16), Uuid(b"2" * 16)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class PartedLog(LogSource):
    """A log that parts at 30 from what it was in epoch 1."""

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        return 30 if epoch == 1 and position > 30 else None


def there(place: TopicPartition, start: int, end: int, **more: Any) -> LogPartition:
    fields = {"topic_id": ID, "leader_epoch": 1, **more}
    return LogPartition(
        topic=place.topic,
        partition=place.partition,
        start_offset=start,
        end_offset=end,
        **fields,
    )


def at(offset: int, topic_id: Uuid = ID, leader_epoch: int = 1) -> Position:
    return Position(offset=offset, topic_id=topic_id, leader_epoch=leader_epoch)


def ends(
    known: dict[TopicPartition, Position], log: list[LogPartition], limit: int | None = None
) -> dict[TopicPartition, int]:
    found = ends_of(go_on(known, log, PartedLog()), log, limit)
    return {place: one.offset for place, one in found.items()}


def planned(
    known: dict[TopicPartition, Position], end: dict[TopicPartition, Position], *log: LogPartition
) -> tuple[dict[TopicPartition, tuple[int, int]], list[tuple[LossKind, int, int | None]]]:
    plan: BatchPlan = plan_batch(known, StreamOffset(positions=end), log, PartedLog())
    ranges = {place: (one.from_offset, one.until_offset) for place, one in plan.ranges.items()}
    return ranges, [(one.kind, one.from_offset, one.until_offset) for one in plan.losses]


def test_without_a_limit_a_batch_takes_all_there_is() -> None:
    assert ends({A0: at(5)}, [there(A0, 0, 9)]) == {A0: 9}


def test_a_limit_is_shared_out_by_what_there_is() -> None:
    log = [there(A0, 0, 900), there(A1, 0, 100)]
    assert ends({A0: at(0), A1: at(0)}, log, 100) == {A0: 90, A1: 10}


def test_no_partition_starves_under_a_limit() -> None:
    log = [there(A0, 0, 1_000_000), there(A1, 0, 1)]
    assert ends({A0: at(0), A1: at(0)}, log, 10) == {A0: 9, A1: 1}


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=1, max_size=5),
    st.integers(1, 10**6),
)
def test_limited_batches_come_to_the_end(sizes: list[tuple[int, int]], limit: int) -> None:
    log = [there(TopicPartition("a", n), 0, at + size) for n, (at, size) in enumerate(sizes)]
    known = {one.place: at(begin) for one, (begin, _) in zip(log, sizes, strict=True)}
    found = ends(known, log, limit)
    taken = {place: found[place] - known[place].offset for place in found}
    assert sum(taken.values()) <= max(limit, limit + len(sizes) - 1)
    for one, (_, size) in zip(log, sizes, strict=True):
        assert min(size, 1) <= taken[one.place] <= size


def test_a_new_partition_is_read_from_its_beginning() -> None:
    log = [there(A0, 0, 9), there(A1, 0, 4)]
    assert planned({A0: at(9)}, {A0: at(9), A1: at(4)}, *log) == ({A1: (0, 4)}, [])


def test_a_new_partition_that_was_cleaned_already_has_lost_its_first_records() -> None:
    found = planned({A0: at(9)}, {A0: at(9), A1: at(4)}, there(A0, 0, 9), there(A1, 3, 4))
    assert found == ({A1: (3, 4)}, [(LossKind.REMOVED, 0, 3)])


def test_a_removed_range_costs_no_other_partition_its_place() -> None:
    found = planned(
        {A0: at(2), A1: at(5)}, {A0: at(9), A1: at(9)}, there(A0, 4, 9), there(A1, 0, 9)
    )
    assert found == ({A0: (4, 9), A1: (5, 9)}, [(LossKind.REMOVED, 2, 4)])


def test_what_was_removed_after_a_batchs_end_is_reported_by_the_next_one() -> None:
    log = there(A0, 8, 9)
    assert planned({A0: at(2)}, {A0: at(5)}, log) == ({}, [(LossKind.REMOVED, 2, 5)])
    assert planned({A0: at(5)}, {A0: at(5)}, log) == ({}, [])
    assert planned({A0: at(5)}, {A0: at(9)}, log) == ({A0: (8, 9)}, [(LossKind.REMOVED, 5, 8)])


def test_a_log_cut_and_grown_again_is_known_by_its_epoch() -> None:
    log = there(A0, 0, 60, leader_epoch=2)
    assert ends({A0: at(40)}, [log]) == {A0: 60}
    end = {A0: at(60, leader_epoch=2)}
    assert planned({A0: at(40)}, end, log) == ({A0: (30, 60)}, [(LossKind.TRUNCATED, 30, 40)])
    assert planned({A0: at(25)}, end, log) == ({A0: (25, 60)}, [])


def test_a_recreated_topic_before_the_batch_was_planned_is_read_from_its_start() -> None:
    now = there(A0, 0, 7, topic_id=NEW_ID)
    found = planned({A0: at(5)}, {A0: at(7, NEW_ID)}, now)
    assert found == ({A0: (0, 7)}, [(LossKind.RECREATED, 5, None)])


def test_a_recreated_topic_after_that_is_left_to_the_next_batch() -> None:
    now = there(A0, 0, 7, topic_id=NEW_ID)
    assert planned({A0: at(5)}, {A0: at(9)}, now) == ({}, [(LossKind.RECREATED, 5, 9)])
    assert ends({A0: at(9)}, [now]) == {A0: 7}
    assert planned({A0: at(9)}, {A0: at(7, NEW_ID)}, now)[0] == {A0: (0, 7)}


def test_a_log_cut_after_the_batch_was_planned_is_read_to_its_end() -> None:
    found = planned({A0: at(2)}, {A0: at(9)}, there(A0, 0, 6))
    assert found == ({A0: (2, 6)}, [(LossKind.TRUNCATED, 6, 9)])


def test_a_partition_that_is_gone_is_named_and_then_forgotten() -> None:
    known = {A0: at(2), B0: at(3)}
    assert ends(known, [there(A0, 0, 9)]) == {A0: 9}
    found = planned(known, {A0: at(9)}, there(A0, 0, 9))
    assert found == ({A0: (2, 9)}, [(LossKind.GONE, 3, None)])


def test_too_few_offsets_wait_until_the_delay_is_over() -> None:
    limits = TriggerLimits(min_offsets=10, max_delay_ms=100)
    assert is_due(3, limits, now_ms=0, last_ms=None)
    assert not is_due(3, limits, now_ms=99, last_ms=0)
    assert is_due(10, limits, now_ms=1, last_ms=0)
    assert is_due(3, limits, now_ms=100, last_ms=0)
    assert not is_due(0, limits, now_ms=1000, last_ms=0)
    assert is_due(0, TriggerLimits(), now_ms=0, last_ms=0)
