"""Fetch sessions as a machine: every transition, what is told, and who makes way for whom."""

import gc
import itertools

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.fetching_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MAX_EPOCH,
    NO_SESSION,
    next_epoch,
)
from ottla.base.files import FileSlice
from ottla.base.ids import Uuid
from ottla.base.principal import Principal
from ottla.base.turns import CURRENT, PART_SIZE, Turn
from ottla.broker.records.fetch_sessions import (
    KEPT_MS,
    MAX_ID,
    FetchContext,
    FetchSessions,
    FullFetch,
    IncrementalFetch,
    PartitionKey,
    SessionFetch,
    SessionlessFetch,
    SessionPartition,
)
from ottla.broker.waiting.fetch_queries import FetchResult, PartitionQuery
from ottla.storage.log.reader import FetchData
from tests.support.brokers import disk

TOPIC_ID = Uuid(bytes(range(16)))
RECORDS = FileSlice(disk("/d").open("/d/records", create=True), 0, 10)
NO_RECORDS = FileSlice(RECORDS.file, 0, 0)


def sessions_of(slot_count: int = 3, max_partition_count: int = 100) -> FetchSessions:
    new_id = itertools.count(100).__next__
    return FetchSessions(slot_count, new_id, max_partition_count=max_partition_count)


def partition(index: int = 0, offset: int = 0, *, topic_id: Uuid | None = None) -> PartitionQuery:
    return PartitionQuery(None if topic_id else "t", index, offset, 1000, -1, topic_id)


def fetch(
    session_id: int,
    epoch: int,
    *partitions: PartitionQuery,
    forgotten: tuple[PartitionKey, ...] = (),
    uses_topic_ids: bool = False,
) -> SessionFetch:
    return SessionFetch(session_id, epoch, uses_topic_ids, list(partitions), forgotten)


def data(records: FileSlice | None = None, *, end: int = 7, start: int = 0) -> FetchData:
    return FetchData(records, end, end, start)


def result(*read: FetchData | ApiError) -> FetchResult:
    return FetchResult(list(read), 0, has_error=False)


def quiet(context: FetchContext) -> FetchResult:
    """Nothing new in any partition."""
    return result(*[data() for _ in context.partitions])


def begin(sessions: FetchSessions, count: int = 2, now_ms: float = 0) -> int:
    """A session of so many partitions."""
    wanted = [partition(index) for index in range(count)]
    context = sessions.begin(fetch(NO_SESSION, INITIAL_EPOCH, *wanted), now_ms)
    return context.respond(quiet(context)).session_id


def go_on(sessions: FetchSessions, session_id: int, epoch: int, now_ms: float = 0) -> None:
    context = sessions.begin(fetch(session_id, epoch), now_ms)
    context.respond(quiet(context))


def refused(sessions: FetchSessions, wanted: SessionFetch) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        sessions.begin(wanted, 0)
    return caught.value.code


def indexes(told: list[tuple[PartitionQuery, FetchData | ApiError]]) -> list[int]:
    return [wanted.index for wanted, _ in told]


# Full fetches


def test_a_full_fetch_begins_a_session_and_is_told_everything() -> None:
    sessions = sessions_of()
    context = sessions.begin(fetch(NO_SESSION, INITIAL_EPOCH, partition(0), partition(1)), 0)
    assert isinstance(context, FullFetch)
    assert len(sessions) == 0, "until it has been answered"
    told = context.respond(quiet(context))
    assert told.session_id == 100
    assert indexes(told.pairs) == [0, 1]
    assert (len(sessions), sessions.partition_count) == (1, 2)


def test_a_final_fetch_is_told_everything_and_begins_none() -> None:
    sessions = sessions_of()
    context = sessions.begin(fetch(NO_SESSION, FINAL_EPOCH, partition(0)), 0)
    assert isinstance(context, SessionlessFetch)
    told = context.respond(quiet(context))
    assert (told.session_id, indexes(told.pairs)) == (NO_SESSION, [0])
    assert len(sessions) == 0


@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_a_full_fetch_ends_the_session_that_it_names(epoch: int) -> None:
    sessions = sessions_of()
    old = begin(sessions)
    sessions.begin(fetch(old, epoch, partition(0)), 0)
    assert refused(sessions, fetch(old, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_fetch_that_names_an_unknown_session_is_served() -> None:
    context = sessions_of().begin(fetch(55, INITIAL_EPOCH, partition(0)), 0)
    assert context.respond(quiet(context)).session_id == 100


def test_an_id_that_is_taken_is_counted_on_from() -> None:
    sessions = FetchSessions(3, lambda: MAX_ID, max_partition_count=100)
    assert [begin(sessions) for _ in range(3)] == [MAX_ID, 1, 2]


# Incremental fetches


def test_an_incremental_fetch_reads_all_partitions_of_the_session() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    context = sessions.begin(fetch(session_id, 1, partition(1, offset=5)), 0)
    assert isinstance(context, IncrementalFetch)
    assert [(one.index, one.offset) for one in context.partitions] == [(0, 0), (1, 5)]


def test_partitions_are_added_and_forgotten() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    wanted = fetch(session_id, 1, partition(2), forgotten=(("t", 0), ("never known", 0)))
    context = sessions.begin(wanted, 0)
    assert [one.index for one in context.partitions] == [1, 2]
    assert indexes(context.respond(quiet(context)).pairs) == [2], "of which nothing was told yet"


def test_what_has_not_changed_is_not_sent() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    for epoch in (1, 2):
        context = sessions.begin(fetch(session_id, epoch), 0)
        told = context.respond(result(data(), data(NO_RECORDS)))
        assert (told.session_id, told.pairs) == (session_id, [])


@pytest.mark.parametrize("change", [data(RECORDS), data(end=8), data(start=1)])
def test_records_a_new_high_watermark_and_a_new_start_are_sent(change: FetchData) -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    context = sessions.begin(fetch(session_id, 1), 0)
    assert indexes(context.respond(result(data(), change)).pairs) == [1]


def test_a_change_is_reported_once() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    for epoch, wanted in ((1, [0, 1]), (2, [])):
        context = sessions.begin(fetch(session_id, epoch), 0)
        told = context.respond(result(data(end=8), data(start=1)))
        assert indexes(told.pairs) == wanted


def test_an_error_is_reported_each_time_and_so_is_its_end() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    error = ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    for epoch, read, wanted in (
        (1, error, [0]),
        (2, error, [0]),
        (3, data(), [0]),
        (4, data(), []),
    ):
        context = sessions.begin(fetch(session_id, epoch), 0)
        assert indexes(context.respond(result(read, data())).pairs) == wanted


def test_a_partition_with_an_error_in_the_full_fetch_is_reported_when_it_is_well() -> None:
    sessions = sessions_of()
    context = sessions.begin(fetch(NO_SESSION, INITIAL_EPOCH, partition(0)), 0)
    told = context.respond(result(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    context = sessions.begin(fetch(told.session_id, 1), 0)
    assert indexes(context.respond(result(data())).pairs) == [0]


def test_who_got_records_is_read_last_next_time() -> None:
    sessions = sessions_of()
    session_id = begin(sessions, 3)
    context = sessions.begin(fetch(session_id, 1), 0)
    context.respond(result(data(RECORDS), data(end=9), data(RECORDS)))
    context = sessions.begin(fetch(session_id, 2), 0)
    assert [one.index for one in context.partitions] == [1, 0, 2]


def test_a_session_whose_partitions_are_all_forgotten_ends() -> None:
    sessions = sessions_of()
    session_id = begin(sessions, 1)
    context = sessions.begin(fetch(session_id, 1, forgotten=(("t", 0),)), 0)
    assert isinstance(context, SessionlessFetch)
    told = context.respond(quiet(context))
    assert (told.session_id, told.pairs, len(sessions)) == (NO_SESSION, [], 0)


# Refusals


def test_an_unknown_session_is_refused() -> None:
    sessions = sessions_of()
    assert refused(sessions, fetch(7, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refused(sessions, fetch(NO_SESSION, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_another_epoch_than_the_next_is_refused_and_changes_nothing() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    go_on(sessions, session_id, 1)
    for epoch in (1, 3, -2):
        wanted = fetch(session_id, epoch, partition(5))
        assert refused(sessions, wanted) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.partition_count == 2
    go_on(sessions, session_id, 2)


def test_names_and_ids_of_topics_do_not_mix_in_a_session() -> None:
    sessions = sessions_of()
    by_name = begin(sessions)
    wanted = partition(0, topic_id=TOPIC_ID)
    context = sessions.begin(fetch(NO_SESSION, INITIAL_EPOCH, wanted, uses_topic_ids=True), 0)
    by_id = context.respond(quiet(context)).session_id
    for refusal in (fetch(by_name, 1, uses_topic_ids=True), fetch(by_id, 1)):
        assert refused(sessions, refusal) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    forgetting = fetch(by_id, 1, forgotten=((TOPIC_ID, 0),), uses_topic_ids=True)
    assert sessions.begin(forgetting, 0).partitions == []


def test_an_answer_that_comes_after_the_next_fetch_of_its_session_is_refused() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    late = sessions.begin(fetch(session_id, 1), 0)
    go_on(sessions, session_id, 2)
    with pytest.raises(ApiError) as caught:
        late.respond(quiet(late))
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_answer_of_a_session_that_has_ended_still_comes() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    late = sessions.begin(fetch(session_id, 1), 0)
    sessions.begin(fetch(session_id, FINAL_EPOCH), 0)
    assert late.respond(quiet(late)).session_id == session_id


def test_epochs_continue_from_one_after_the_largest() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, MAX_EPOCH)] == [1, 2, 1]


# Slots


def test_without_slots_every_fetch_is_full() -> None:
    assert begin(sessions_of(slot_count=0)) == NO_SESSION


def test_a_session_in_use_makes_no_way_for_one_of_the_same_size() -> None:
    sessions = sessions_of(slot_count=1)
    session_id = begin(sessions, 2)
    go_on(sessions, session_id, 1, now_ms=KEPT_MS + 1)
    assert begin(sessions, 2, now_ms=KEPT_MS + 2) == NO_SESSION
    go_on(sessions, session_id, 2)


def test_a_session_just_begun_makes_no_way_for_a_larger_one() -> None:
    sessions = sessions_of(slot_count=1)
    session_id = begin(sessions, 1)
    go_on(sessions, session_id, 1, now_ms=KEPT_MS)
    assert begin(sessions, 9, now_ms=KEPT_MS) == NO_SESSION


def test_the_smallest_session_that_is_old_makes_way_for_a_larger_one() -> None:
    sessions = sessions_of(slot_count=3)
    large, small, middle = (begin(sessions, count) for count in (4, 1, 2))
    for session_id in (small, middle, large):
        go_on(sessions, session_id, 1, now_ms=KEPT_MS + 1)
    assert begin(sessions, 3, now_ms=KEPT_MS + 2) != NO_SESSION
    assert refused(sessions, fetch(small, 2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for session_id in (middle, large):
        go_on(sessions, session_id, 2, now_ms=KEPT_MS + 2)


def test_the_longest_unused_session_makes_way_for_any() -> None:
    sessions = sessions_of(slot_count=2)
    stale, used = begin(sessions, 9), begin(sessions, 9)
    go_on(sessions, used, 1, now_ms=KEPT_MS)
    assert begin(sessions, 1, now_ms=KEPT_MS) == NO_SESSION
    assert begin(sessions, 1, now_ms=KEPT_MS + 1) != NO_SESSION
    assert refused(sessions, fetch(stale, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    go_on(sessions, used, 2, now_ms=KEPT_MS + 1)


def told(sessions: FetchSessions, count: int, now_ms: float) -> int:
    """The id of a session of so many partitions, which only their number limits."""
    wanted = [partition(index) for index in range(count)]
    context = sessions.begin(fetch(NO_SESSION, INITIAL_EPOCH, *wanted), now_ms)
    return context.respond(result(*[data() for _ in wanted])).session_id


def test_sessions_are_bounded_by_their_partitions_together() -> None:
    sessions = sessions_of(slot_count=1000, max_partition_count=10)
    assert told(sessions, 11, 0) == NO_SESSION, "larger than all may be"
    assert told(sessions, 6, 0) != NO_SESSION
    assert told(sessions, 4, 0) != NO_SESSION
    assert told(sessions, 1, 0) == NO_SESSION, "no room"
    assert sessions.partition_count == 10
    assert told(sessions, 8, KEPT_MS + 1) != NO_SESSION
    assert (len(sessions), sessions.partition_count) == (1, 8), "both old ones had to go"


def test_a_session_that_grows_beyond_the_bound_ends() -> None:
    sessions = sessions_of(max_partition_count=5)
    session_id = told(sessions, 4, 0)
    more = [partition(index) for index in range(4, 7)]
    with pytest.raises(ApiError) as refused:
        sessions.begin(fetch(session_id, 1, *more), 0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_partitions_that_are_forgotten_make_room() -> None:
    sessions = sessions_of(max_partition_count=5)
    session_id = told(sessions, 4, 0)
    sessions.begin(fetch(session_id, 1, forgotten=(("t", 0), ("t", 1))), 0)
    assert sessions.partition_count == 2
    sessions.begin(fetch(session_id, 2, *[partition(index) for index in range(7, 10)]), 0)
    assert sessions.partition_count == 5
    sessions.begin(fetch(session_id, FINAL_EPOCH), 0)
    assert sessions.partition_count == 0


def test_a_session_that_ends_while_it_is_updated_counts_no_more() -> None:
    """The update of many partitions goes in turns."""
    sessions = sessions_of()
    session_id = begin(sessions, 2)
    turn = Turn(lambda: end(sessions, session_id), lambda: 0.0, max_elements=1000, max_size=1 << 20)
    grown = fetch(session_id, 1, *map(partition, range(2, 9)))
    token = CURRENT.set(turn)
    try:
        assert refused(sessions, grown) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    finally:
        CURRENT.reset(token)
    assert (len(sessions), sessions.partition_count) == (0, 0)


def end(sessions: FetchSessions, session_id: int) -> None:
    sessions.begin(fetch(session_id, FINAL_EPOCH), 0)


@pytest.mark.slow
def test_the_partitions_of_a_session_that_ended_are_freed_a_few_with_each_fetch() -> None:
    sessions = sessions_of(max_partition_count=1000)
    before = kept_partitions()
    session_id = begin(sessions, 2 * PART_SIZE + 1)
    assert kept_partitions() - before == 2 * PART_SIZE + 1
    end(sessions, session_id)
    left = []
    for _ in range(3):
        end(sessions, session_id)
        left.append(kept_partitions() - before)
    assert left == [PART_SIZE + 1, 1, 0]


def kept_partitions() -> int:
    gc.collect()  # what other tests left in cycles
    return sum(type(one) is SessionPartition for one in gc.get_objects())


def test_a_session_of_another_user_is_none_and_is_not_ended() -> None:
    sessions = sessions_of()
    session_id = begin(sessions)
    for epoch in (1, INITIAL_EPOCH, FINAL_EPOCH):
        theirs = fetch(session_id, epoch, partition(5))
        theirs.owner = Principal("User", "bob")
        if epoch == 1:
            with pytest.raises(ApiError) as caught:
                sessions.begin(theirs, 0)
            assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        else:
            sessions.begin(theirs, 0)
    assert len(sessions.begin(fetch(session_id, 1), 0).partitions) == 2
