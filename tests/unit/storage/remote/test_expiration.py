"""What a leader deletes of a tier, compared with a log as a list of records."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.expiration import (
    Expiration,
    LogState,
    Reason,
    plan_expiration,
)
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from tests.support.histories import (
    END,
    entries,
    epoch_of,
    index_of,
    offsets,
    some_epochs,
    uploads_of,
)
from tests.support.logs import NOW_MS
from tests.support.remote_segments import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    number_id,
    number_of,
    update,
    upload,
)


@dataclass(frozen=True)
class Local:
    """A local segment; its size is that of the uploads of tests, one byte a record."""

    base_offset: int
    size: int

    def largest_timestamp_ms(self) -> int:
        raise AssertionError("deleting in the tier does not depend on it")


def state(
    *local: tuple[int, int],
    epochs: Sequence[EpochEntry] = tuple(entries({0: 0})),
    start: int = 0,
    ms: int = -1,
    size: int = -1,
    copying: Collection[int] = (),
) -> LogState:
    """A log whose local segments have these base offsets and ends, the last one exclusive."""
    return LogState(
        broker_id=1,
        epochs=epochs,
        log_start_offset=start,
        log_end_offset=local[-1][1],
        segments=[Local(first, end - first) for first, end in local],
        retention_ms=ms,
        retention_bytes=size,
        being_copied={number_id(one) for one in copying},
    )


def aged(segment: RemoteLogSegmentMetadata, age_ms: int) -> RemoteLogSegmentMetadata:
    return replace(segment, max_timestamp_ms=NOW_MS - age_ms)


def planned(index: SegmentIndex, log: LogState) -> tuple[int, list[tuple[int | None, Reason]]]:
    found = plan_expiration(index, log, NOW_MS)
    return found.log_start_offset, [(number_of(one), why) for one, why in found.going]


THREE = (upload(1, 0, 9), upload(2, 10, 19), upload(3, 20, 29))


def test_uploads_older_than_the_limit_are_deleted_up_to_the_first_that_is_not() -> None:
    index = index_of(aged(THREE[0], 101), aged(THREE[1], 100), aged(THREE[2], 300))
    log = state((20, 30), (30, 40), ms=100)
    assert planned(index, log) == (10, [(1, Reason.TIME)])
    assert planned(index, replace(log, retention_ms=-1)) == (0, [])
    assert planned(index, replace(log, retention_ms=99))[0] == 30
    # A clock that is set back makes nothing old.
    assert plan_expiration(index, log, NOW_MS - 500).going == ()


def test_uploads_over_the_size_are_deleted_and_what_is_local_too_counts_once() -> None:
    index = index_of(*THREE)
    log = state((20, 30), (30, 40))
    assert planned(index, replace(log, retention_bytes=40)) == (0, [])
    assert planned(index, replace(log, retention_bytes=31)) == (0, [])
    assert planned(index, replace(log, retention_bytes=30)) == (10, [(1, Reason.SIZE)])
    assert planned(index, replace(log, retention_bytes=0))[0] == 30


def test_what_time_deletes_counts_for_the_size() -> None:
    index = index_of(aged(THREE[0], 500), *THREE[1:])
    log = state((30, 40), ms=100, size=30)
    assert planned(index, log) == (10, [(1, Reason.TIME)])


def test_uploads_below_the_log_start_are_deleted() -> None:
    log = state((30, 40), start=19)
    assert planned(index_of(*THREE), log) == (19, [(1, Reason.LOG_START)])
    assert planned(index_of(*THREE), replace(log, log_start_offset=20)) == (
        20,
        [(1, Reason.LOG_START), (2, Reason.LOG_START)],
    )


def test_a_leader_that_was_deposed_leaves_the_uploads_of_its_successor() -> None:
    index = index_of(*THREE, upload(9, 0, 19, {4: 0}))
    assert planned(index, state((30, 40), start=20))[1] == [
        (1, Reason.LOG_START),
        (2, Reason.LOG_START),
    ]


def test_a_deletion_that_was_interrupted_is_done_again() -> None:
    index = index_of(*THREE)
    index.update(update(2, DELETING))
    assert planned(index, state((30, 40))) == (0, [(2, Reason.AGAIN)])


def test_what_a_killed_process_had_begun_is_deleted_and_what_is_being_copied_is_not() -> None:
    index = index_of(*THREE, upload(4, 30, 39, state=STARTED), upload(5, 30, 39, state=STARTED))
    log = state((30, 40), (40, 41), copying=[5], size=0)
    assert planned(index, log)[1][-1] == (4, Reason.ABANDONED)
    assert len(planned(index, log)[1]) == 4


def test_what_another_broker_has_begun_is_deleted_once_it_is_copied_again() -> None:
    elsewhere = replace(upload(4, 15, 29, state=STARTED), broker_id=2)
    assert planned(index_of(*THREE[:2], elsewhere), state((20, 30), (30, 31))) == (0, [])
    assert planned(index_of(*THREE, elsewhere), state((20, 30), (30, 31))) == (
        0,
        [(4, Reason.ABANDONED)],
    )


def test_what_another_broker_has_begun_and_nothing_replaces_is_deleted_when_no_offset_counts() -> (
    None
):
    begun = upload(4, 20, 29, {0: 20, 2: 25}, state=STARTED)
    elsewhere = replace(begun, broker_id=2)
    log = state((20, 30), (30, 40), epochs=entries({0: 0, 2: 25}))
    # The leader still has to copy it, and so has the other if it is one after all.
    assert planned(index_of(*THREE[:2], elsewhere), log) == (0, [])
    for start, expected in ((29, []), (30, [(4, Reason.ABANDONED)])):
        deleted = replace(log, log_start_offset=start)
        assert planned(index_of(elsewhere), deleted)[1] == expected
    # An unclean election has cut the log at 22: the rest is no record of it.
    cut = replace(log, epochs=entries({0: 0, 3: 22}))
    assert planned(index_of(*THREE[:2], elsewhere), cut) == (0, [])
    again = upload(5, 20, 29, {0: 20, 3: 22})
    assert planned(index_of(*THREE[:2], again, elsewhere), cut) == (0, [(4, Reason.ABANDONED)])
    before = replace(log, epochs=entries({3: 20}), log_start_offset=20)
    assert planned(index_of(elsewhere), before) == (20, [(4, Reason.ABANDONED)])
    # Of a later leader, which this one has not heard of.
    newer = replace(upload(4, 20, 29, {5: 20}, state=STARTED), broker_id=2)
    assert planned(index_of(newer), replace(log, log_start_offset=30)) == (30, [])


def test_uploads_of_epochs_before_those_of_the_log_are_deleted() -> None:
    index = index_of(upload(1, 0, 9, {1: 0}), upload(2, 0, 19, {1: 0, 2: 15}))
    log = state((20, 30), epochs=entries({2: 15}), start=15)
    assert planned(index, log) == (15, [(1, Reason.UNREFERENCED)])
    assert planned(index, replace(log, epochs=())) == (15, [])
    assert planned(index, replace(log, epochs=entries({2: 20}))) == (15, [])


def test_an_overtaken_upload_counts_for_no_size_and_goes_with_the_other() -> None:
    index = index_of(upload(1, 0, 9), upload(2, 0, 14), upload(3, 15, 29))
    log = state((30, 40), size=39)
    assert planned(index, log) == (0, [])
    assert planned(index, replace(log, retention_bytes=25)) == (
        15,
        [(1, Reason.LOG_START), (2, Reason.SIZE)],
    )


def test_an_upload_of_which_a_part_belongs_to_the_log_is_judged_as_that_part() -> None:
    # An unclean election has cut epoch 0 at 15.
    index = index_of(upload(1, 0, 9), upload(2, 10, 19), upload(3, 15, 29, {2: 15}))
    log = state((30, 40), epochs=entries({0: 0, 2: 15}), size=26)
    assert planned(index, log) == (10, [(1, Reason.SIZE)])
    log = replace(log, retention_bytes=5)
    assert planned(index, log)[0] == 30
    found = planned(index, replace(log, log_start_offset=15, retention_bytes=-1))
    assert found == (15, [(1, Reason.LOG_START)])  # the second has offsets after it
    found = planned(index, replace(log, log_start_offset=20, retention_bytes=-1))
    assert [number for number, _ in found[1]] == [1, 2]


def applied(index: SegmentIndex, plan: Expiration) -> None:
    for one, _ in plan.going:
        number = number_of(one)
        assert number is not None
        assert index.update(update(number, DELETING)) is None
        assert index.update(update(number, DELETED)) is None


def served(index: SegmentIndex, log: dict[int, int], start: int) -> dict[int, int]:
    """Which upload each record of a log is read from."""
    found = {}
    for offset in range(start, END):
        epoch = epoch_of(log, offset)
        segment = None if epoch is None else index.look_up(epoch, offset)
        number = number_of(segment)
        if number is not None:
            found[offset] = number
    return found


@st.composite
def tiers(draw: st.DrawFn) -> tuple[dict[int, int], list[RemoteLogSegmentMetadata], LogState]:
    epochs = draw(some_epochs)
    epochs[min(epochs)] = 0
    uploads = [aged(one, draw(st.integers(-5, 20))) for one in draw(uploads_of(epochs))]
    bases = sorted({draw(offsets) for _ in range(draw(st.integers(1, 4)))})
    local = list(zip(bases, [*bases[1:], END], strict=True))
    log = state(
        *local,
        epochs=entries(epochs),
        start=draw(offsets),
        ms=draw(st.sampled_from([-1, 0, 5, 10])),
        size=draw(st.sampled_from([-1, 0, 5, 15, 30, 60])),
        copying=draw(st.sets(st.integers(0, 9))),
    )
    return epochs, uploads, log


@pytest.mark.slow
@given(tiers())
def test_no_record_from_the_new_start_on_is_lost_and_a_second_plan_deletes_nothing(
    drawn: tuple[dict[int, int], list[RemoteLogSegmentMetadata], LogState],
) -> None:
    epochs, uploads, log = drawn
    index = index_of(*uploads)
    plan = plan_expiration(index, log, NOW_MS)
    assert plan.log_start_offset >= log.log_start_offset
    before = served(index, epochs, plan.log_start_offset)
    copying = [
        one for one in uploads if one.state is STARTED and one.segment_id in log.being_copied
    ]
    applied(index, plan)
    assert served(index, epochs, plan.log_start_offset) == before
    assert {one.segment_id for one in copying} <= {one.segment_id for one in index.segments()}
    after = replace(log, log_start_offset=plan.log_start_offset)
    assert plan_expiration(index, after, NOW_MS) == Expiration(
        log_start_offset=plan.log_start_offset, going=()
    )


@pytest.mark.slow
@given(tiers())
def test_retention_stops_at_the_first_record_whose_upload_is_young_and_fits(
    drawn: tuple[dict[int, int], list[RemoteLogSegmentMetadata], LogState],
) -> None:
    epochs, uploads, log = drawn
    index = index_of(*uploads)
    by_number = {number_of(one): one for one in uploads}
    reads = served(index, epochs, log.log_start_offset)
    # Each record of the tier by the upload that it is read from; then what is local only.
    local = range(max(log.segments[0].base_offset, log.log_start_offset), END)
    first_missing = min(set(local) - set(reads), default=END)
    size = sum(
        one.size
        for one in log.segments
        if one.base_offset + one.size > first_missing or one is log.segments[-1]
    )
    size += sum(by_number[one].size for one in set(reads.values()))
    start = log.log_start_offset
    for offset, number in sorted(reads.items()):
        used = by_number[number]
        is_old = 0 <= log.retention_ms < NOW_MS - used.max_timestamp_ms
        if not is_old and not 0 <= log.retention_bytes <= size - used.size:
            break
        start = offset + 1
        if number not in [by for at, by in reads.items() if at >= start]:
            size -= used.size
    plan = plan_expiration(index, log, NOW_MS)
    assert plan.log_start_offset == start
    for one, reason in plan.going:
        assert reason is not Reason.LOG_START or one.end_offset < start
        assert one.state is FINISHED or reason in (Reason.AGAIN, Reason.ABANDONED)
