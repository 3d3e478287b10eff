"""Fetches and ListOffsets of a broker whose logs begin in a tier."""

import logging
from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.records.tier_reads import ReadCounts
from ottla.broker.waiting.fetch_queries import Fetcher, FetchQuery, PartitionQuery
from ottla.protocol.messages.fetch import FetchPartition
from ottla.storage.remote.remote_storage import TierError
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from tests.support.brokers import NOW_MS, at
from tests.support.tier_jobs import remote_logs
from tests.support.tier_reading import (
    END,
    LOCAL_START,
    ROLLED,
    HeldThreads,
    TieredBroker,
    fetch_of,
    list_offsets_of,
    offsets_in,
)

CORRUPT, FAILING = ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.fixture
def tiered() -> Iterator[TieredBroker]:
    made = TieredBroker("orders", "payments")
    yield made
    made.broker.close()


@pytest.fixture
def held(tiered: TieredBroker) -> HeldThreads:
    return HeldThreads(tiered.reads)


def test_without_threads_a_fetch_is_answered_at_once(tiered: TieredBroker) -> None:
    for offset in (0, 9, 10, 37, LOCAL_START - 1):
        answer = tiered.client.ask(fetch_of(("orders", offset)), 12)
        # One answer never has records of two segments.
        assert offsets_in(answer) == [list(range(offset, offset // 10 * 10 + 10))]
    answer = tiered.client.ask(fetch_of(("orders", LOCAL_START)), 12)
    assert offsets_in(answer) == [list(range(LOCAL_START, LOCAL_START + 10))]


def test_a_log_is_read_from_its_start_to_its_end(tiered: TieredBroker) -> None:
    received: list[int] = []
    while len(received) < END:
        (found,) = offsets_in(tiered.client.ask(fetch_of(("orders", len(received))), 12))
        assert isinstance(found, list)
        received += found
    assert received == list(range(END))


def test_a_fetch_waits_until_all_its_reads_are_done(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("orders", 10), ("payments", 25), ("payments", 70))
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert len(held.waiting) == 1  # Of a partition that is named twice the last counts.
    held.run()
    assert tiered.answered() == 1
    answer = tiered.client.finish(later, request, 12)
    assert offsets_in(answer) == [list(range(10, 20)), list(range(70, 80))]


def test_several_partitions_are_read_at_the_same_time(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("orders", 10), ("payments", 25))
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert len(held.waiting) == 2
    held.run(1)
    assert tiered.answered() == 0
    held.run()
    assert tiered.answered() == 1
    answer = tiered.client.finish(later, request, 12)
    assert offsets_in(answer) == [list(range(10, 20)), list(range(25, 30))]


def test_a_slow_store_delays_only_the_fetches_that_need_it(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    slow, _ = tiered.client.send(fetch_of(("orders", 10)), 12)
    assert slow is not None
    local = tiered.client.ask(fetch_of(("orders", 70)), 12)
    assert offsets_in(local) == [list(range(70, 80))]
    assert tiered.answered(499) == 0
    assert tiered.answered(500) == 1
    answer = tiered.client.finish(slow, fetch_of(), 12)
    assert offsets_in(answer) == [[]]


def test_the_wait_for_the_store_is_the_brokers_and_not_the_clients(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("orders", 10), max_wait_ms=0)
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    held.run()
    assert tiered.answered(400) == 1
    assert offsets_in(tiered.client.finish(later, request, 12)) == [list(range(10, 20))]


def test_what_comes_too_late_is_the_answer_to_the_next_fetch(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("orders", 10), ("payments", 70))
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert tiered.answered(500) == 1
    answer = tiered.client.finish(later, request, 12)
    assert offsets_in(answer) == [[], list(range(70, 80))]
    held.run()
    assert tiered.answered(600) == 0
    answer = tiered.client.ask(request, 12)
    assert offsets_in(answer)[0] == list(range(10, 20))
    assert not held.waiting


def test_a_read_that_still_runs_is_not_begun_again(tiered: TieredBroker, held: HeldThreads) -> None:
    for number in (1, 2, 3):
        later, _ = tiered.client.send(fetch_of(("orders", 10)), 12)
        assert later is not None
        assert tiered.answered(500 * number) == 1
    assert len(held.waiting) == 1


def test_bytes_out_count_what_is_sent_once(tiered: TieredBroker, held: HeldThreads) -> None:
    request = fetch_of(("payments", 70), ("orders", 10), ("missing", 0))
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert tiered.partition("payments").bytes_out == 0
    held.run()
    tiered.answered()
    answer = tiered.client.finish(later, request, 12)
    sizes = [len(one.records) for topic in answer.responses for one in topic.partitions]
    counts = [tiered.partition(topic).bytes_out for topic in ("payments", "orders")]
    assert counts == sizes[:2]
    assert tiered.reads.counts["orders"] == ReadCounts(1, sizes[1], 0)


def test_together_the_reads_get_no_more_bytes_than_the_fetch_wants(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("orders", 10), ("payments", 10), max_bytes=250, partition_max_bytes=150)
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    held.run()
    tiered.answered()
    answer = tiered.client.finish(later, request, 12)
    assert [len(topic.partitions[0].records) for topic in answer.responses] == [150, 100]


def test_a_full_queue_is_an_error_of_that_partition_alone(
    tiered: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    HeldThreads(tiered.reads, limit=0)
    caplog.clear()
    for _ in range(2):
        answer = tiered.client.ask(fetch_of(("orders", 10), ("payments", 70)), 12)
        assert offsets_in(answer) == [FAILING, list(range(70, 80))]
    (line,) = [one for one in caplog.records if "remote.log.reader.threads" in one.message]
    assert "further ones are refused" in line.message


def test_the_quota_of_fetches_leaves_a_partition_empty_for_a_while() -> None:
    tiered = TieredBroker(remote_log_manager_fetch_max_bytes_per_second="10")
    assert offsets_in(tiered.client.ask(fetch_of(("orders", 0)), 12)) == [list(range(10))]
    later, _ = tiered.client.send(fetch_of(("orders", 10)), 12)
    assert later is not None
    assert tiered.answered(500) == 1
    assert offsets_in(tiered.client.finish(later, fetch_of(), 12)) == [[]]
    local = tiered.client.ask(fetch_of(("orders", 70)), 12)
    assert offsets_in(local) == [list(range(70, 80))]
    tiered.client.monotonic_ms = 1e6
    assert offsets_in(tiered.client.ask(fetch_of(("orders", 10)), 12)) == [list(range(10, 20))]
    tiered.broker.close()


def test_a_follower_is_told_that_the_offset_has_moved(tiered: TieredBroker) -> None:
    query = FetchQuery([PartitionQuery("orders", 0, 10, 1 << 20)], 1 << 20, fetcher=Fetcher(2))
    (error,) = tiered.broker.fetches.fetch(query).partitions
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


@pytest.mark.parametrize(
    ("version", "code"),
    [(13, OUT_OF_RANGE), (14, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)],
)
def test_old_followers_do_not_know_that_code(
    tiered: TieredBroker, version: int, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiered.broker.replicas, "fetcher", lambda *_: Fetcher(2))
    request = fetch_of(("orders", 10))
    request.topics[0].topic_id = tiered.broker.topics.get("orders").topic_id
    assert offsets_in(tiered.client.ask(request, version)) == [code]


def test_a_fetch_of_very_many_partitions_waits_for_its_reads_too(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    """Such a fetch is read in turns, and again when its reads are done."""
    request = fetch_of(("orders", 10), ("payments", 70))
    request.topics[0].partitions += [
        FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1)
        for one in range(1, 400)
    ]
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert tiered.answered(499) == 0
    held.run()
    assert tiered.answered(499) == 1
    answer = tiered.client.finish(later, request, 12)
    found = offsets_in(answer)
    assert found[0] == list(range(10, 20))
    assert set(found[1:-1]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # type: ignore[arg-type]
    assert found[-1] == list(range(70, 80))


def test_a_fetch_of_very_many_partitions_waits_no_longer_than_others(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("payments", 70), ("orders", 10))
    request.topics[0].partitions += [
        FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1)
        for one in range(1, 400)
    ]
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert tiered.answered(500) == 1
    found = offsets_in(tiered.client.finish(later, request, 12))
    assert (found[0], found[-1]) == (list(range(70, 80)), [])


def test_old_consumers_get_their_own_format(tiered: TieredBroker, held: HeldThreads) -> None:
    for version in (0, 3):
        request = fetch_of(("orders", 14))
        later, _ = tiered.client.send(request, version)
        assert later is not None
        held.run()
        tiered.answered()
        answer = tiered.client.finish(later, request, version)
        assert offsets_in(answer) == [list(range(14, 20))]


def test_a_session_goes_on_with_what_the_tier_brings(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = fetch_of(("orders", 10), ("payments", 70), session_epoch=0)
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    assert tiered.answered(500) == 1
    answer = tiered.client.finish(later, request, 12)
    assert offsets_in(answer) == [[], list(range(70, 80))]
    held.run()
    tiered.answered(600)
    more = fetch_of(("payments", END), session_epoch=1, session_id=answer.session_id)
    answer = tiered.client.ask(more, 12)
    assert offsets_in(answer) == [list(range(10, 20))]


READ_COMMITTED = 1


def test_one_transaction_index_suffices_where_no_transaction_is_open(
    tiered: TieredBroker,
) -> None:
    """Kafka 3.9 reads the indexes of all later segments."""
    storage = tiered.reads.tier.storage
    read_index, asked = storage.read_index, []

    def counted(segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes | None:
        asked.append((segment.start_offset, kind))
        return read_index(segment, kind)

    storage.read_index = counted  # type: ignore[method-assign]
    answer = tiered.client.ask(fetch_of(("orders", 10), isolation_level=READ_COMMITTED), 12)
    assert offsets_in(answer) == [list(range(10, 20))]
    assert answer.responses[0].partitions[0].aborted_transactions == []
    assert {start for start, _ in asked} == {10}


def test_a_consumer_that_goes_on_finds_the_next_records_read(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    for offset in (0, 10):
        request = fetch_of(("orders", offset))
        later, _ = tiered.client.send(request, 12)
        assert later is not None
        held.run(1)
        tiered.answered()
        assert offsets_in(tiered.client.finish(later, request, 12)) == [
            list(range(offset, offset + 10))
        ]
    assert len(held.waiting) == 1  # Begun when the second fetch was answered.
    held.run()
    answer = tiered.client.ask(fetch_of(("orders", 20)), 12)
    assert offsets_in(answer) == [list(range(20, 30))]


def test_nothing_is_read_ahead_of_the_border_or_of_who_reads_here_and_there(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    for offset in (30, 10, LOCAL_START - 20, LOCAL_START - 10):
        request = fetch_of(("orders", offset))
        later, _ = tiered.client.send(request, 12)
        assert later is not None
        held.run()
        tiered.answered()
        tiered.client.finish(later, request, 12)
    assert not held.waiting


def test_what_was_read_ahead_for_nobody_is_dropped(tiered: TieredBroker, held: HeldThreads) -> None:
    for number, offset in enumerate((0, 10, 40, 50)):
        tiered.client.pass_to(number * 20_000.0)
        request = fetch_of(("orders" if offset < 40 else "payments", offset))
        later, _ = tiered.client.send(request, 12)
        assert later is not None
        held.run()
        tiered.answered(number * 20_000.0)
        tiered.client.finish(later, request, 12)
        held.run()
    assert not tiered.reads._kept


# What goes wrong


class FailingStore:
    def __init__(self, tiered: TieredBroker) -> None:
        self.storage = tiered.reads.tier.storage
        self.is_failing = True
        self._read_log = self.storage.read_log
        self.storage.read_log = self.read_log  # type: ignore[method-assign]

    def read_log(self, *arguments: object) -> bytes:
        if self.is_failing:
            raise TierError("/tier: it does not answer; wait for it", is_retriable=True)
        return self._read_log(*arguments)  # type: ignore[arg-type]


def test_a_store_that_fails_is_named_once_and_other_partitions_are_read(
    tiered: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingStore(tiered)
    for _ in range(3):
        answer = tiered.client.ask(fetch_of(("orders", 10), ("payments", 70)), 12)
        assert offsets_in(answer) == [FAILING, list(range(70, 80))]
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.message == (
        "cannot read orders-0 in the remote tier: /tier: it does not answer; wait for it"
    )
    store.is_failing = False
    assert offsets_in(tiered.client.ask(fetch_of(("orders", 10)), 12)) == [list(range(10, 20))]
    store.is_failing = True
    tiered.client.ask(fetch_of(("orders", 10)), 12)
    assert len(caplog.records) == 2
    assert tiered.reads.counts["orders"].errors == 4


def broken(tiered: TieredBroker, ending: str, how: str) -> str:
    """Damages objects of the segment of offsets 20 to 29; returns the path of one."""
    paths = tiered.objects(ending, 20)
    for path in paths:
        if how == "missing":
            tiered.disk.remove(path)
            continue
        file = tiered.disk.open(path, writable=True)
        if how == "cut":
            file.truncate(file.size() - 1)
        elif how == "swapped":
            (other,) = [one for one in tiered.objects(ending, 30) if one[:40] == path[:40]]
            content = tiered.disk.open(other).pread(1 << 20, 0)
            file.truncate(0)
            file.pwrite(content, 0)
        else:
            middle = file.size() // 2
            (byte,) = file.pread(1, middle)
            file.pwrite(bytes((byte ^ 4,)), middle)
    return paths[0]


@pytest.mark.parametrize("how", ["missing", "cut", "swapped", "flipped"])
def test_a_damaged_log_is_named_once_and_neither_served_nor_the_end(
    tiered: TieredBroker, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = broken(tiered, ".log", how)
    for _ in range(2):
        answer = tiered.client.ask(fetch_of(("orders", 20), ("payments", 70)), 12)
        assert offsets_in(answer) == [CORRUPT, list(range(70, 80))]
    (line,) = caplog.records
    assert "cannot read orders-0 in the remote tier" in line.message
    assert path.rpartition("/")[2][:20] in line.message
    assert "(orders-0, offsets 20 to 29); put it back from a copy of the tier" in line.message
    # Neither the segment before it nor the one after it is touched.
    for offset in (10, 30):
        found = offsets_in(tiered.client.ask(fetch_of(("orders", offset)), 12))
        assert found == [list(range(offset, offset + 10))]


@pytest.mark.parametrize("how", ["missing", "cut"])
def test_a_damaged_index_is_named(
    tiered: TieredBroker, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken(tiered, ".index", how)
    assert offsets_in(tiered.client.ask(fetch_of(("orders", 20)), 12)) == [CORRUPT]
    (line,) = caplog.records
    assert ".index" in line.message


def test_an_offset_that_no_upload_has_is_an_error_and_not_the_end(
    tiered: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = tiered.broker.topics.get("orders")
    index = tiered.reads.tier.index_of(topic.topic_id, 0)
    assert index is not None
    (segment,) = [one for one in index.segments() if one.start_offset == 20]
    index._epochs[0].remove(20, segment.segment_id)
    for _ in range(2):
        assert offsets_in(tiered.client.ask(fetch_of(("orders", 25)), 12)) == [CORRUPT]
    (line,) = caplog.records
    assert "no upload has offset 25 of orders-0" in line.message
    assert "ottla delete-records" in line.message


def test_what_retention_deletes_while_it_is_read_is_out_of_range(
    tiered: TieredBroker, held: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    request = fetch_of(("orders", 20))
    later, _ = tiered.client.send(request, 12)
    assert later is not None
    tiered.partition().log.offsets.move_log_start(30)
    broken(tiered, ".log", "missing")
    held.run()
    tiered.answered()
    assert offsets_in(tiered.client.finish(later, request, 12)) == [OUT_OF_RANGE]
    assert not caplog.records


def test_a_broker_without_a_tier_does_not_pass_over_what_is_in_one(tiered: TieredBroker) -> None:
    tiered.broker.fetches.tier = None
    answer = tiered.client.ask(fetch_of(("orders", 10), ("payments", 70)), 12)
    assert offsets_in(answer) == [CORRUPT, list(range(70, 80))]


def test_a_fetch_waits_until_the_list_of_uploads_is_read(tiered: TieredBroker) -> None:
    readings = tiered.broker.remote_logs.metadata._readings  # type: ignore[union-attr]
    kept = dict(readings)
    readings.clear()
    later, _ = tiered.client.send(fetch_of(("orders", 10)), 12)
    assert later is not None
    readings.update(kept)
    assert tiered.answered(500) == 1
    found = offsets_in(tiered.client.finish(later, fetch_of(), 12))
    assert found == [list(range(10, 20))]


def test_the_list_of_uploads_wakes_the_fetches_that_wait_for_it(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    metadata = remote_logs(tiered.broker).metadata
    metadata._readings.clear()
    metadata._ready.clear()
    later, _ = tiered.client.send(fetch_of(("orders", 10)), 12)
    assert later is not None
    assert tiered.answered() == 0
    while metadata.advance(at(0)):
        pass
    assert tiered.broker.answers.has_answers
    assert tiered.answered() == 0  # Only now it is read.
    held.run()
    assert tiered.answered() == 1
    found = offsets_in(tiered.client.finish(later, fetch_of(), 12))
    assert found == [list(range(10, 20))]


def test_a_truncated_log_does_not_show_what_was_read_before(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    later, _ = tiered.client.send(fetch_of(("orders", 10)), 12)
    assert later is not None
    tiered.partition().log.offsets.cut_count += 1
    held.run()
    tiered.answered()
    assert offsets_in(tiered.client.finish(later, fetch_of(), 12)) == [[]]


# ListOffsets


def times(tiered: TieredBroker, *timestamps: int) -> list[tuple[int, int]]:
    found = []
    for one in timestamps:
        (topic,) = tiered.client.ask(list_offsets_of([one]), 11).topics
        (partition,) = topic.partitions
        assert not partition.error_code
        found.append((partition.offset, partition.timestamp))
    return found


def test_the_ends_of_the_tier_are_listed(tiered: TieredBroker) -> None:
    assert times(tiered, -5, -6) == [(-1, -1), (-1, -1)]  # Until the first look at the tier.
    tiered.partition().log.offsets.highest_remote_offset = ROLLED - 1
    assert times(tiered, -2, -4, -5, -6, -1) == [
        (0, -1),
        (LOCAL_START, -1),
        (ROLLED - 1, -1),
        (ROLLED, -1),
        (END, -1),
    ]


def test_a_time_is_found_on_either_side(tiered: TieredBroker) -> None:
    wanted = [0, 15, LOCAL_START - 1, LOCAL_START, END - 1]
    assert times(tiered, *(NOW_MS + one for one in wanted)) == [
        (one, NOW_MS + one) for one in wanted
    ]
    assert times(tiered, NOW_MS - 1000, NOW_MS + END) == [(0, NOW_MS), (-1, -1)]
    tiered.partition().log.offsets.move_log_start(33)
    assert times(tiered, NOW_MS) == [(33, NOW_MS + 33)]


def test_a_search_waits_for_the_tier_and_not_longer_than_the_client(
    tiered: TieredBroker, held: HeldThreads
) -> None:
    request = list_offsets_of([NOW_MS + 15], timeout_ms=700)
    later, _ = tiered.client.send(request, 10)
    assert later is not None
    assert tiered.answered(699) == 0
    assert tiered.answered(700) == 1
    answer = tiered.client.finish(later, request, 10)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    tiered.client.monotonic_ms = 0
    later, _ = tiered.client.send(request, 10)
    assert later is not None
    held.run()
    assert tiered.answered(10) == 1
    answer = tiered.client.finish(later, request, 10)
    assert answer.topics[0].partitions[0].offset == 15


def test_damage_in_the_tier_is_no_answer_to_a_search(tiered: TieredBroker) -> None:
    broken(tiered, ".log", "flipped")
    answer = tiered.client.ask(list_offsets_of([NOW_MS + 25]), 11)
    assert answer.topics[0].partitions[0].error_code == CORRUPT
