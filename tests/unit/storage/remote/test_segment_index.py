"""The uploads of a partition by epoch and offset, compared with a plain list of them."""

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.remote.metadata_records import PartitionDeletion
from ottla.storage.remote.segment_index import SegmentIndex, SegmentIndexes
from ottla.storage.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tests.support.logs import NOW_MS
from tests.support.remote_segments import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    number_id,
    number_of,
    update,
    upload,
)

OFFSETS = 14
EPOCHS = 4


def index_of(*uploads: RemoteLogSegmentMetadata) -> SegmentIndex:
    index = SegmentIndex(PARTITION)
    for one in uploads:
        assert index.put(one) is None
    return index


def found(index: SegmentIndex, epoch: int = 0) -> list[int | None]:
    return [number_of(index.look_up(epoch, offset)) for offset in range(OFFSETS)]


def numbers(index: SegmentIndex, epoch: int | None = None) -> list[int | None]:
    return [number_of(one) for one in index.segments(epoch)]


def test_an_upload_is_found_once_it_is_finished_and_until_it_is_deleted() -> None:
    indexes = SegmentIndexes()
    assert indexes.apply(upload(1, 2, 5, state=STARTED)) is None
    index = indexes.of(PARTITION)
    assert set(found(index)) == {None}
    assert (numbers(index), index.size, index.epochs) == ([1], 0, [])
    assert indexes.apply(update(1, FINISHED, b"custom")) is None
    assert found(index)[1:7] == [None, 1, 1, 1, 1, None]
    assert (numbers(index), index.size, index.epochs) == ([1], 4, [0])
    (known,) = index.segments()
    assert (known.custom_metadata, known.broker_id) == (b"custom", 2)
    assert indexes.apply(update(1, DELETING)) is None
    assert set(found(index)) == {None}
    assert (numbers(index), index.size, index.epochs) == ([1], 0, [])
    assert index.segments()[0].custom_metadata == b"custom"
    assert indexes.apply(update(1, DELETED)) is None
    assert numbers(index) == []
    assert [index.after_deleted(offset) for offset in (1, 2, 5, 6)] == [1, 6, 6, 6]


def test_an_offset_is_looked_up_in_its_epoch() -> None:
    index = index_of(upload(1, 0, 9, {3: 0, 5: 4}))
    assert found(index, 3)[:10] == [1] * 4 + [None] * 6
    assert found(index, 5)[:10] == [None] * 4 + [1] * 6
    assert set(found(index, 4)) == {None}
    assert index.epochs == [3, 5]


def test_of_two_uploads_of_a_segment_the_later_one_counts_until_it_is_deleted() -> None:
    index = index_of(upload(1, 0, 4), upload(2, 0, 4))
    assert found(index)[:5] == [2] * 5
    assert numbers(index, 0) == [1, 2]
    assert index.update(update(2, DELETING)) is None
    assert found(index)[:5] == [1] * 5


def test_a_longer_upload_covers_shorter_ones_whichever_is_finished_first() -> None:
    for uploads in ((upload(1, 2, 5), upload(2, 0, 9)), (upload(2, 0, 9), upload(1, 2, 5))):
        index = index_of(*uploads)
        assert found(index)[:10] == [2] * 10
        assert index.update(update(2, DELETING)) is None
        assert found(index)[:10] == [None, None, 1, 1, 1, 1, None, None, None, None]


def test_of_uploads_that_overlap_the_one_that_begins_later_counts() -> None:
    index = index_of(upload(2, 4, 9), upload(1, 0, 6))
    assert found(index)[:10] == [1] * 4 + [2] * 6
    ranges = [(first, last, number_of(one)) for first, last, one in index.ranges(0, 2, 8)]
    assert ranges == [(2, 3, 1), (4, 8, 2)]
    assert [number_of(one) for _, _, one in index.ranges(0, 5, 8)] == [2]
    assert list(index.ranges(0, 5, 4)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [(STARTED, DELETED), (FINISHED, STARTED), (DELETING, FINISHED), (DELETING, STARTED)],
)
def test_a_forbidden_state_is_reported_and_changes_nothing(
    before: SegmentState, after: SegmentState
) -> None:
    index = index_of(upload(1, 0, 4, state=before))
    reason = index.update(update(1, after)) or ""
    assert f"is {after.name} after {before.name}" in reason
    assert index.segments() == [upload(1, 0, 4, state=before)]
    if after is STARTED:
        assert index.put(upload(1, 0, 4, state=STARTED)) == reason


def test_a_repeated_state_is_fine() -> None:
    indexes = SegmentIndexes()
    once = [upload(1, 0, 4, state=STARTED), *(update(1, state) for state in SegmentState)]
    assert [indexes.apply(one) for event in once for one in (event, event)] == [None] * 10
    assert len(indexes.of(PARTITION)) == 0


def test_an_update_of_an_unknown_upload_is_reported_unless_nothing_is_left_of_it() -> None:
    index = SegmentIndex(PARTITION)
    for state in (FINISHED, DELETING):
        assert f"is unknown, and now {state.name}" in (index.update(update(1, state)) or "")
    assert index.update(update(1, DELETED)) is None
    assert len(index) == 0


def test_records_begin_an_upload_with_its_copying() -> None:
    indexes = SegmentIndexes()
    reason = indexes.apply(upload(1, 0, 4, state=FINISHED))
    assert "begins with COPY_SEGMENT_FINISHED" in (reason or "")
    assert list(indexes) == []


def test_topics_of_one_name_have_an_index_each() -> None:
    indexes = SegmentIndexes()
    other = replace(PARTITION, topic_id=number_id(9))
    indexes.apply(upload(1, 0, 4, state=STARTED))
    indexes.apply(upload(2, 0, 4, state=STARTED, partition=other))
    indexes.apply(update(2, FINISHED, partition=other))
    first, second = (indexes.find(one.topic_id, 0) for one in (PARTITION, other))
    assert first is not None
    assert second is not None
    assert (first.size, second.size) == (0, 5)
    assert indexes.named("t", 0) == [first, second]
    assert indexes.named("t", 1) == []
    assert indexes.find(PARTITION.topic_id, 1) is None


def test_a_partition_that_was_deleted_is_forgotten() -> None:
    indexes = SegmentIndexes()
    indexes.apply(upload(1, 0, 4, state=STARTED))
    marked, started, finished = (
        PartitionDeletion(partition=PARTITION, broker_id=1, event_timestamp_ms=NOW_MS, state=state)
        for state in PartitionDeleteState
    )
    reason = "t-0 is DELETE_PARTITION_FINISHED after no state"
    assert reason in (indexes.apply(finished) or "")
    assert [indexes.apply(one) for one in (marked, marked, started)] == [None] * 3
    assert "MARKED after DELETE_PARTITION_STARTED" in (indexes.apply(marked) or "")
    assert indexes.of(PARTITION).deletion is PartitionDeleteState.DELETE_PARTITION_STARTED
    assert [indexes.apply(one) for one in (finished, finished)] == [None] * 2
    assert list(indexes) == []


def test_deleted_offsets_are_known_in_whatever_order_they_were_deleted() -> None:
    index = index_of(*(upload(n, 10 * n, 10 * n + 9) for n in range(8)), upload(8, 35, 44))
    for number in (6, 1, 4, 0, 2, 7):
        index.update(update(number, DELETING))
    asked = (0, 29, 30, 40, 49, 50, 60, 80, 99)
    assert [index.after_deleted(one) for one in asked] == [30, 30, 30, 50, 50, 50, 80, 80, 99]
    index.update(update(8, DELETING))
    assert [index.after_deleted(one) for one in asked] == [30, 30, 30, 50, 50, 50, 80, 80, 99]
    assert index.after_deleted(36) == 50
    index.update(update(3, DELETING))
    assert index.after_deleted(0) == 50


ranges = st.tuples(st.integers(0, OFFSETS - 1), st.integers(0, OFFSETS - 1)).map(sorted)
steps = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from([*SegmentState, FINISHED]),
        ranges,
        st.dictionaries(st.integers(0, EPOCHS - 1), st.integers(0, OFFSETS - 1), max_size=3),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(steps)
def test_an_index_finds_what_a_list_of_uploads_has(
    chosen: list[tuple[int, SegmentState, list[int], dict[int, int]]],
) -> None:
    index, known = SegmentIndex(PARTITION), dict[int, RemoteLogSegmentMetadata]()
    for number, state, (start, end), cuts in chosen:
        before = known.get(number)
        if before is None:
            epochs = ascending(start, cuts)
            known[number] = upload(number, start, end, epochs, STARTED)
            assert index.put(known[number]) is None
            continue
        is_allowed = before.state.may_become(state)
        assert (index.update(update(number, state)) is None) == is_allowed
        if is_allowed:
            known[number] = replace(before, state=state, broker_id=2, event_timestamp_ms=NOW_MS + 1)
        if is_allowed and state is DELETED:
            del known[number]
    check(index, list(known.values()))


def ascending(start: int, cuts: dict[int, int]) -> dict[int, int]:
    """Epochs with ascending offsets; the first begins with the segment."""
    offsets = [start, *sorted(max(start, offset) for offset in cuts.values())[1:]]
    return dict(zip(sorted(cuts), offsets, strict=False)) or {0: start}


def check(index: SegmentIndex, known: list[RemoteLogSegmentMetadata]) -> None:
    assert {one.segment_id: one for one in index.segments()} == {
        one.segment_id: one for one in known
    }
    finished = [one for one in known if one.state is FINISHED]
    assert index.size == sum(one.size for one in finished)
    for epoch in range(EPOCHS):
        here = [one for one in known if epoch in [number for number, _, _ in one.epoch_ranges()]]
        assert sorted(map(repr, index.segments(epoch))) == sorted(map(repr, here))
        starts = [one.start_offset for one in index.segments(epoch)]
        assert starts == sorted(starts)
        offsets = {offset for one in finished for offset in offsets_of(one, epoch)}
        assert (epoch in index.epochs) == bool(offsets)
        by_range = dict[int, RemoteLogSegmentMetadata]()
        for first, last, segment in index.ranges(epoch, 0, OFFSETS):
            assert first > max(by_range, default=-1)
            by_range |= dict.fromkeys(range(first, last + 1), segment)
        assert set(by_range) == offsets
        for offset in range(OFFSETS):
            segment_found = index.look_up(epoch, offset)
            assert segment_found is by_range.get(offset)
            if segment_found is not None:
                assert segment_found in finished
                assert offset in offsets_of(segment_found, epoch)


def offsets_of(segment: RemoteLogSegmentMetadata, epoch: int) -> list[int]:
    ranges_of = {one: range(first, last + 1) for one, first, last in segment.epoch_ranges()}
    return list(ranges_of.get(epoch, range(0)))


@pytest.mark.slow
def test_ten_thousand_segments_take_less_than_2_kb_each() -> None:
    count = 10_000
    tracemalloc.start()
    try:
        index = SegmentIndex(PARTITION)
        for number in range(count):
            start = number * 100_000
            one = upload(number, start, start + 99_999, {number // 100: start}, STARTED)
            index.put(replace(one, partition=replace(PARTITION)))
            index.update(update(number, FINISHED, b"%060d" % number))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / count < 2048
    assert number_of(index.look_up(77, 770_000_123)) == 7_700
    assert number_of(index.look_up(99, count * 100_000 - 1)) == count - 1


def test_a_copy_stays_as_the_index_was() -> None:
    index = index_of(upload(1, 0, 4), upload(2, 5, 9))
    copy, size = index.copy(), index.size
    assert index.update(update(2, DELETING)) is None
    assert index.put(upload(3, 5, 9)) is None
    assert (numbers(copy), copy.size) == ([1, 2], size)
    assert found(copy)[:10] == [1] * 5 + [2] * 5
    assert copy.find(number_id(2)) == upload(2, 5, 9)
    assert copy.find(number_id(3)) is None
    assert copy.after_deleted(5) == 5
