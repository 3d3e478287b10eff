"""ListOffsets, 0 to 11: the offset of a time, or of either end of a partition.

Version 0 asks for a list of offsets before a time, at which segments begin; it gets one. Nothing is
tiered, so the earliest local offset (-4) is the log's start, and there is neither a latest tiered
one (-5) nor an earliest that waits to be (-6).
Kafka's counterpart: `KafkaApis.handleListOffsetRequest`.
"""

from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.storage.log.offsets import LATEST_TIMESTAMP, MAX_TIMESTAMP, Isolation

if TYPE_CHECKING:
    from ottla.broker.topics.partition import Partition

CONSUMER = -1
DEBUGGING = -2
"""With this replica id any replica responds, not only the leader (`DEBUGGING_REPLICA_ID`)."""

READ_COMMITTED = 1
FIRST_EPOCH_VERSION = 4
OFFSET_NOT_AVAILABLE = ErrorCode.OFFSET_NOT_AVAILABLE
FIRST_NOT_AVAILABLE = 5
"""The version from which on clients know that code (KIP-207)."""

FIRST_VERSIONS_OF_SENTINELS = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The versions from which negative times are valid (KIP-734, KIP-405, KIP-1005, KIP-1023)."""


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    is_committed = request.isolation_level == READ_COMMITTED
    isolation = Isolation.LAST_STABLE if is_committed else Isolation.HIGH_WATERMARK
    if request.replica_id != CONSUMER:
        isolation = Isolation.LOG_END
    wanted_times = (one.timestamp for topic in request.topics for one in topic.partitions)
    if any(map(_is_search, wanted_times)):
        context.may_take_long()
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            try:
                if context.api_version == 0:
                    is_anyone = request.replica_id == DEBUGGING
                    answer = _find_old(topic.name, wanted, context, asks_replica=is_anyone)
                elif request.replica_id == DEBUGGING and wanted.timestamp == LATEST_TIMESTAMP:
                    answer = _end_of_replica(topic.name, wanted.partition_index, context)
                else:
                    answer = _find(topic.name, wanted, isolation, context)
            except ApiError as error:
                code = context.broker.fetches.refusal(
                    error, topic.name, wanted.partition_index
                ).code
                if code is OFFSET_NOT_AVAILABLE and context.api_version < FIRST_NOT_AVAILABLE:
                    code = ErrorCode.LEADER_NOT_AVAILABLE
                answer = ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index, error_code=code
                )
            partitions.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _is_search(timestamp_ms: int) -> bool:
    """Whether records must be looked into."""
    return timestamp_ms >= 0 or timestamp_ms == MAX_TIMESTAMP


def _end_of_replica(
    topic: str, index: int, context: RequestContext
) -> ListOffsetsPartitionResponse:
    partition = context.broker.topics.online_partition(topic, index)
    return ListOffsetsPartitionResponse(partition_index=index, offset=partition.log.log_end_offset)


def _find_old(
    topic: str, wanted: ListOffsetsPartition, context: RequestContext, *, asks_replica: bool
) -> ListOffsetsPartitionResponse:
    _check_time(wanted.timestamp, context)
    partition = context.broker.topics.online_partition(topic, wanted.partition_index)
    if not asks_replica:
        partition.check_leader()
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        old_style_offsets=_offsets_before(partition, wanted),
    )


def _check_time(timestamp_ms: int, context: RequestContext) -> None:
    if timestamp_ms < 0:
        first_version = FIRST_VERSIONS_OF_SENTINELS.get(timestamp_ms)
        if first_version is None or context.api_version < first_version:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _find(
    topic: str, wanted: ListOffsetsPartition, isolation: Isolation, context: RequestContext
) -> ListOffsetsPartitionResponse:
    index, timestamp_ms = wanted.partition_index, wanted.timestamp
    answer = ListOffsetsPartitionResponse(partition_index=index)
    _check_time(timestamp_ms, context)
    found = context.broker.topics.online_partition(topic, index).find_offset(
        timestamp_ms, isolation=isolation, leader_epoch=wanted.current_leader_epoch
    )
    if found is not None:
        answer.offset = found.offset
        answer.timestamp = found.timestamp_ms
        if context.api_version >= FIRST_EPOCH_VERSION:
            answer.leader_epoch = found.leader_epoch
    return answer


def _offsets_before(partition: "Partition", wanted: ListOffsetsPartition) -> list[int]:
    """The base offsets of segments that were last written before a time, newest first.

    Kafka: `UnifiedLog.legacyFetchOffsetsBefore`.
    """
    found = partition.log.reader.offsets_before(wanted.timestamp)
    return found[: max(wanted.max_num_offsets, 0)]
