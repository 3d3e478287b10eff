"""A partition read through its leader: its bounds, and its batches as bytes, control batches too.

Kafka's counterparts: `OffsetFetcher`, `Fetcher`. Nothing is decompressed or checked here.
"""

from dataclasses import dataclass

from ottla.base.errors import ProtocolError
from ottla.client.cluster import check
from ottla.client.connection import Connection
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

EARLIEST = -2
LATEST = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1

LAST_VERSION_WITH_NAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one fetch found; `records` may end in a batch that is cut short.

    `aborted` are producer ids with first offsets, and there only when committed records were asked
    for. `throttle_ms` is how long the broker wants not to be asked.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()
    throttle_ms: int = 0
    is_answered: bool = True
    """Not when a quota had the broker answer with nothing at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """Where to read, and at most how much; a larger first batch comes whole all the same."""

    topic: str
    partition: int
    offset: int
    max_size: int
    isolation_level: int = READ_UNCOMMITTED
    max_wait_ms: int = 500


def fetch(connection: Connection, wanted: FetchFrom) -> Fetched:
    """Batches from the one that holds an offset. Raises `ApiError` with the partition's code."""
    partition = FetchPartition(
        partition=wanted.partition,
        fetch_offset=wanted.offset,
        partition_max_bytes=wanted.max_size,
    )
    request = FetchRequest(
        max_wait_ms=wanted.max_wait_ms,
        min_bytes=1,
        max_bytes=wanted.max_size,
        isolation_level=wanted.isolation_level,
        topics=[FetchTopic(topic=wanted.topic, partitions=[partition])],
    )
    answer = connection.ask(request, newest=LAST_VERSION_WITH_NAMES)
    check(answer.error_code)
    for topic in answer.responses:
        for data in topic.partitions:
            check(data.error_code)
            return Fetched(
                records=memoryview(bytes(data.records or b"")),
                high_watermark=data.high_watermark,
                last_stable_offset=data.last_stable_offset,
                log_start_offset=data.log_start_offset,
                aborted=tuple(
                    (one.producer_id, one.first_offset) for one in data.aborted_transactions or ()
                ),
                throttle_ms=answer.throttle_time_ms,
            )
    return Fetched(
        records=memoryview(b""),
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        throttle_ms=answer.throttle_time_ms,
        is_answered=False,
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
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    answer = connection.ask(request)
    for told in answer.topics:
        for one in told.partitions:
            check(one.error_code)
            return int(one.offset)
    raise ProtocolError("an answer without the partition that was asked for")
