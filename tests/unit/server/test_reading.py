"""Fetch and ListOffsets: what a reader is told, in every version."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.broker.broker import Broker
from ottla.codec.compression import Compression
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.record import read_records
from ottla.server.dispatching.apis import APIS
from ottla.storage.log.producer_state import AppendOrigin
from tests.support.asking import Asker
from tests.support.brokers import batch, disk, open_broker

UNKNOWN_ID = Uuid(bytes(range(16)))
FETCH_VERSIONS = range(4, APIS[1].newest + 1)
LIST_OFFSETS_VERSIONS = range(1, APIS[2].newest + 1)


@pytest.fixture
def broker() -> Broker:
    """Topic t with batches of two records at 1000, 2000 and 3000 ms in partition 0."""
    broker = open_broker(disk("/d"))
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    for timestamp_ms in (1000, 2000, 3000):
        append(broker, timestamp_ms=timestamp_ms)
    return broker


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


def append(broker: Broker, index: int = 0, timestamp_ms: int = 4000) -> None:
    records = batch(b"a", b"b", timestamp_ms=timestamp_ms)
    broker.appends.append(broker.topics.partition("t", index), records, now_ms=timestamp_ms)
    broker.appends.write_out()


def fetch(broker: Broker, *offsets: int, topic: str = "t", **settings: Any) -> FetchRequest:
    """Partition i from the i-th offset; the topic by name and by id."""
    known = broker.topics.find(topic)
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in enumerate(offsets)
    ]
    topic_id = known.topic_id if known else UNKNOWN_ID
    values: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, **settings}
    return FetchRequest(
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)], **values
    )


def partitions_of(response: Any) -> Any:
    assert response.error_code == 0
    assert response.session_id == 0
    return response.responses[0].partitions


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_records_come_in_every_version(asker: Asker, broker: Broker, version: int) -> None:
    (data,) = partitions_of(asker.ask(fetch(broker, 2), version))
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 6, 6)
    assert data.aborted_transactions is None
    assert [
        RecordBatch(data.records, place).base_offset for place in (0, len(data.records) // 2)
    ] == [
        2,
        4,
    ]


@pytest.mark.parametrize("version", range(4))
def test_old_versions_get_the_format_that_they_know(
    asker: Asker, broker: Broker, version: int
) -> None:
    (data,) = partitions_of(asker.ask(fetch(broker, 3), version))
    assert (data.error_code, data.high_watermark) == (0, 6)
    batches = list(iter_batches(data.records))
    assert {one.magic for one in batches} == {version // 2}
    records = [record for one in batches for record in read_records(one)]
    assert [record.offset for record in records] == [3, 4, 5]
    assert [record.value for record in records] == [b"b", b"a", b"b"]


def test_old_versions_are_told_that_they_cannot_read_zstd(asker: Asker, broker: Broker) -> None:
    builder = RecordBatchBuilder(compression=Compression.ZSTD)
    builder.append(None, b"v" * 100, 1000)
    broker.appends.append(broker.topics.partition("t", 1), bytearray(builder.build()), now_ms=1)
    broker.appends.write_out()
    first, second = partitions_of(asker.ask(fetch(broker, 6, 0), 2))
    assert first.error_code == 0
    assert second.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_before_version_3_a_limit_too_small_brings_a_batch_cut_short(
    asker: Asker, broker: Broker
) -> None:
    request = fetch(broker, 0)
    request.topics[0].partitions[0].partition_max_bytes = 30
    (data,) = partitions_of(asker.ask(request, 2))
    assert len(data.records) == 30
    (data,) = partitions_of(asker.ask(request, 3))
    assert len(list(iter_batches(data.records))) == 2


def test_an_old_consumer_is_led_past_markers(asker: Asker, broker: Broker) -> None:
    log = broker.topics.partition("t", 1).log
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=0),
        producer_id=1,
        producer_epoch=0,
        timestamp_ms=1,
    )
    log.writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=1, origin=AppendOrigin.COORDINATOR
    )
    append(broker, index=1)
    request = fetch(broker, 6, 0)
    for partition in request.topics[0].partitions:
        partition.partition_max_bytes = 1
    _, data = partitions_of(asker.ask(request, 3))
    first = next(iter_batches(data.records))
    assert next(read_records(first)).offset == 1


def test_read_committed_gets_a_list_of_aborted_transactions(asker: Asker, broker: Broker) -> None:
    (data,) = partitions_of(asker.ask(fetch(broker, 0, isolation_level=1), 11))
    assert data.aborted_transactions == []
    assert len(data.records) > 0


def test_a_long_poll_is_promised_and_kept(asker: Asker, broker: Broker) -> None:
    request = fetch(broker, 6, 0)
    later, output = asker.send(request, 12)
    assert later is not None
    assert output.size == 0
    append(broker, index=1)
    assert broker.answers.take_answered(0) == [later.pending_id]
    first, second = partitions_of(asker.finish(later, request, 12))
    assert bytes(first.records) == b""
    assert RecordBatch(second.records).base_offset == 0


def test_a_long_poll_times_out_empty(asker: Asker, broker: Broker) -> None:
    request = fetch(broker, 6)
    asker.monotonic_ms = 1000.0
    later, _ = asker.send(request, 12)
    assert later is not None
    assert broker.answers.take_answered(1499) == []
    assert broker.answers.take_answered(1500) == [later.pending_id]
    (data,) = partitions_of(asker.finish(later, request, 12))
    assert (data.error_code, bytes(data.records)) == (0, b"")


@pytest.mark.parametrize("settings", [{"max_wait_ms": 0}, {"min_bytes": 0}])
def test_who_does_not_want_to_wait_does_not(asker: Asker, broker: Broker, settings: Any) -> None:
    (data,) = partitions_of(asker.ask(fetch(broker, 6, **settings), 12))
    assert bytes(data.records) == b""


def test_min_bytes_beyond_max_bytes_does_not_wait_forever(asker: Asker, broker: Broker) -> None:
    request = fetch(broker, 0, min_bytes=1 << 30, max_bytes=50)
    (data,) = partitions_of(asker.ask(request, 12))
    assert len(data.records) > 50


@pytest.mark.parametrize(
    ("offset", "topic", "version", "code"),
    [
        (99, "t", 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, "u", 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, "u", 13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_refused_fetch_is_answered_at_once(
    asker: Asker, broker: Broker, offset: int, topic: str, version: int, code: ErrorCode
) -> None:
    (data,) = partitions_of(asker.ask(fetch(broker, offset, topic=topic), version))
    assert ErrorCode(data.error_code) is code
    assert data.high_watermark == -1


def list_offset(
    asker: Asker,
    timestamp_ms: int,
    version: int = 11,
    topic: str = "t",
    replica_id: int = -1,
    **fields: Any,
) -> Any:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms, **fields)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    return asker.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", LIST_OFFSETS_VERSIONS)
@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (-1, (6, -1)),
        (-2, (0, -1)),
        (0, (0, 1000)),
        (1001, (1, 1001)),
        (2500, (4, 3000)),
        (9999, (-1, -1)),
    ],
)
def test_offsets_are_found_by_time(
    asker: Asker, version: int, timestamp_ms: int, expected: tuple[int, int]
) -> None:
    answer = list_offset(asker, timestamp_ms, version)
    assert answer.error_code == 0
    assert (answer.offset, answer.timestamp) == expected
    assert answer.leader_epoch == (0 if version >= 4 and expected[0] >= 0 else -1)


@pytest.mark.parametrize(
    ("timestamp_ms", "first_version", "expected"),
    [(-3, 7, (5, 3001)), (-4, 8, (0, -1)), (-5, 9, (-1, -1)), (-6, 11, (-1, -1))],
)
def test_a_sentinel_has_its_meaning_from_its_version_on(
    asker: Asker, timestamp_ms: int, first_version: int, expected: tuple[int, int]
) -> None:
    before = list_offset(asker, timestamp_ms, first_version - 1)
    assert ErrorCode(before.error_code) is ErrorCode.UNSUPPORTED_VERSION
    answer = list_offset(asker, timestamp_ms, first_version)
    assert answer.error_code == 0
    assert (answer.offset, answer.timestamp) == expected


def test_other_times_below_zero_mean_nothing(asker: Asker) -> None:
    assert list_offset(asker, -9).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("timestamp_ms", "count", "expected"),
    [(-1, 1, [6]), (-1, 9, [6, 0]), (-2, 1, [0]), (5000, 9, [0]), (10, 9, []), (-1, 0, [])],
)
def test_version_zero_lists_where_segments_begin(
    asker: Asker, timestamp_ms: int, count: int, expected: list[int]
) -> None:
    for replica_id in (-1, -2, 1):
        answer = list_offset(asker, timestamp_ms, 0, max_num_offsets=count, replica_id=replica_id)
        assert answer.old_style_offsets == expected


def test_unknown_partitions_and_epochs_have_their_codes(asker: Asker) -> None:
    unknown = list_offset(asker, -1, topic="u")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ahead = list_offset(asker, -1, current_leader_epoch=3)
    assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
