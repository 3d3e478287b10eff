"""Reads a partition from its leader: its bounds, and its batches as bytes, including control
batches.

Kafka's counterparts: `OffsetFetcher`, `Fetcher`. Nothing is decompressed or checked here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError, UserError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import check
from ottla.client.connecting.connection import Connection
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

EARLIEST = -2
LATEST = -1
EARLIEST_LOCAL, LATEST_TIERED = -4, -5
"""The special timestamps of the first offset on local disks (KIP-405), and of the last one in the
tier (KIP-1005).
"""
READ_UNCOMMITTED = 0
READ_COMMITTED = 1

CONSUMER = -1
"""The `replica_id` of consumers."""

LAST_VERSION_WITH_NAMES = 12
FIRST_VERSION_FOR_CONSUMERS = 3
"""Version of OffsetForLeaderEpoch; older ones are for followers only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of one fetch; `records` may end in a truncated batch.

    `aborted` are producer ids with first offsets, only if committed records were requested.
    `throttle_ms` is how long the broker asks the client to pause.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()
    throttle_ms: int = 0
    is_answered: bool = True
    """False if a quota made the broker return nothing."""
    next_offset: int = -1
    """Offset after the last whole batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """Where to read, and at most how much; a larger first batch is returned whole."""

    topic: str
    partition: int
    offset: int
    max_size: int
    isolation_level: int = READ_UNCOMMITTED
    min_size: int = 1
    max_wait_ms: int = 500
    """How long the broker may wait for `min_size` bytes."""
    leader_epoch: int = -1
    """Epoch of the expected leader; another one refuses (KIP-320)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFetch:
    """The partitions that one request of a fetch session lists, out of all wanted (KIP-227)."""

    session_id: int
    epoch: int
    named: Sequence[FetchFrom]
    forgotten: Sequence[TopicPartition] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset with its leader epoch (KIP-320), `None` from brokers that do not report it."""

    offset: int
    leader_epoch: int | None


def fetch(connection: Connection, wanted: FetchFrom) -> Fetched:
    """Fetches from the batch that contains an offset. Raises the partition's `ApiError`."""
    return send_fetch(connection, wanted)()


def send_fetch(connection: Connection, wanted: FetchFrom) -> Callable[[], Fetched]:
    """Sends the request, and returns a function that waits for the response."""
    answer = send_fetches(connection, [wanted], wanted.max_size)
    return lambda: _fetched(answer(), wanted)


def _fetched(answer: "FetchedPartitions", wanted: FetchFrom) -> Fetched:
    found = answer.partitions.get(TopicPartition(wanted.topic, wanted.partition))
    if isinstance(found, ApiError):
        raise found
    return found or Fetched(
        records=memoryview(b""),
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        throttle_ms=answer.throttle_ms,
        is_answered=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartitions:
    """The content of one response; a partition that was refused has its error."""

    partitions: Mapping[TopicPartition, Fetched | ApiError]
    throttle_ms: int = 0
    session_id: int = 0


def send_fetches(
    connection: Connection,
    wanted: Sequence[FetchFrom],
    max_size: int,
    rack: str = "",
    session: SessionFetch | None = None,
) -> Callable[[], FetchedPartitions]:
    """Sends one fetch for partitions that a broker leads; returns a function that waits for the
    response.

    The first partition's maximum wait and minimum size apply to all. Waiting raises `ApiError` if
    the broker refuses the whole request. In a session, partitions without news are not in the
    response.
    """
    topics: dict[str, list[FetchPartition]] = {}
    for one in wanted if session is None else session.named:
        partition = FetchPartition(
            partition=one.partition,
            current_leader_epoch=one.leader_epoch,
            fetch_offset=one.offset,
            partition_max_bytes=one.max_size,
        )
        topics.setdefault(one.topic, []).append(partition)
    forgotten = by_topic(() if session is None else session.forgotten)
    request = FetchRequest(
        max_wait_ms=wanted[0].max_wait_ms,
        min_bytes=wanted[0].min_size,
        max_bytes=max_size,
        isolation_level=wanted[0].isolation_level,
        session_id=0 if session is None else session.session_id,
        session_epoch=-1 if session is None else session.epoch,
        topics=[FetchTopic(topic=name, partitions=several) for name, several in topics.items()],
        forgotten_topics_data=[
            ForgottenTopic(topic=name, partitions=several) for name, several in forgotten.items()
        ],
        rack_id=rack,
    )
    answer = connection.send(request, newest=LAST_VERSION_WITH_NAMES)
    return lambda: _fetched_partitions(answer())


def _fetched_partitions(answer: Any) -> FetchedPartitions:
    check(answer.error_code)
    return FetchedPartitions(
        partitions={
            TopicPartition(topic.topic, data.partition_index): _fetched_one(
                data, answer.throttle_time_ms
            )
            for topic in answer.responses
            for data in topic.partitions
        },
        throttle_ms=answer.throttle_time_ms,
        session_id=answer.session_id,
    )


def _fetched_one(data: Any, throttle_ms: int) -> Fetched | ApiError:
    if data.error_code != ErrorCode.NONE:
        return ApiError(ErrorCode(data.error_code))
    return Fetched(
        records=memoryview(data.records or b""),
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted=tuple(
            (one.producer_id, one.first_offset) for one in data.aborted_transactions or ()
        ),
        throttle_ms=throttle_ms,
    )


def list_offset(
    connection: Connection,
    topic: str,
    partition: int,
    timestamp: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> int:
    """The offset at a time, or at `EARLIEST` or `LATEST`; raises `ApiError`."""
    place = TopicPartition(topic, partition)
    asked = {place: timestamp}
    return list_offsets(connection, asked, isolation_level=isolation_level)[place].offset


def list_offsets(
    connection: Connection,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """The same for partitions that one broker leads; raises `ApiError` if any is refused.

    The offset is -1 if no record is as late as a time.
    """
    request = offsets_request(wanted, isolation_level=isolation_level)
    found = {}
    for place, one in by_partition(connection.ask(request).topics).items():
        _check_partition(one.error_code, *place)
        epoch = None if one.leader_epoch < 0 else one.leader_epoch
        found[place] = ListedOffset(offset=int(one.offset), leader_epoch=epoch)
    if found.keys() != wanted.keys():
        raise ProtocolError("a response to another request")
    return found


def offsets_request(
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
    replica_id: int = CONSUMER,
) -> ListOffsetsRequest:
    """For the offset of each partition at a time, or at an end."""
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(
                    partition_index=number, timestamp=wanted[TopicPartition(name, number)]
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(wanted).items()
    ]
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)


def by_partition(topics: Iterable[Any]) -> dict[TopicPartition, Any]:
    """The results by partition of a response that is grouped by topic."""
    return {
        TopicPartition(topic.name, one.partition_index): one
        for topic in topics
        for one in topic.partitions
    }


def segment_offsets(
    connection: Connection, place: TopicPartition, timestamp: int, max_count: int
) -> list[int] | None:
    """Base offsets of segments written before a time, the latest first; raises `ApiError`.

    Returns `None` for brokers that no longer support version 0 of ListOffsets.
    """
    try:
        version = connection.version_of(ApiKey.LIST_OFFSETS, newest=0)
    except UserError:
        return None
    asked = ListOffsetsPartition(
        partition_index=place.partition, timestamp=timestamp, max_num_offsets=max_count
    )
    topic = ListOffsetsTopic(name=place.topic, partitions=[asked])
    answer = connection.ask(ListOffsetsRequest(replica_id=CONSUMER, topics=[topic]), newest=version)
    (found,) = answer.topics[0].partitions
    _check_partition(found.error_code, *place)
    return [int(one) for one in found.old_style_offsets]


def epoch_end_offset(connection: Connection, topic: str, partition: int, epoch: int) -> int | None:
    """Where the last leader epoch up to the given one ended; raises `ApiError`.

    Returns `None` if the log has no epoch that late, or the broker reports none (KIP-101, KIP-320).
    """
    api = ApiKey.OFFSET_FOR_LEADER_EPOCH
    if not connection.answers(api) or connection.version_of(api) < FIRST_VERSION_FOR_CONSUMERS:
        return None
    asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    )
    for answered in connection.ask(request).topics:
        for one in answered.partitions:
            _check_partition(one.error_code, topic, partition)
            return None if one.end_offset < 0 else int(one.end_offset)
    raise ProtocolError("a response without the requested partition")


def _check_partition(code: int, topic: str, partition: int) -> None:
    if code != ErrorCode.NONE:
        raise ApiError(ErrorCode(code), f"{topic}-{partition}: {ErrorCode(code).description}")
