"""ListOffsets, 0 to 11: the offset of a time, or of either end of a partition.

Version 0 asks for a list of offsets before a time, at which segments begin; it gets one, of the
local segments. A time is looked up in the remote tier first, by threads that may wait for its store
(KIP-1075: version 10 has a time-out); a log without one has neither a latest tiered offset (-5) nor
an earliest that waits to be (-6).
Kafka's counterparts: `KafkaApis.handleListOffsetRequest`, `DelayedRemoteListOffsets`.
"""

from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.codec.schema import Message
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.server.dispatching.request_context import (
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.storage.log.offsets import LATEST_TIMESTAMP, MAX_TIMESTAMP, Isolation

if TYPE_CHECKING:
    from ottla.broker.records.tier_reads import TierSearch
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


def handle(request: ListOffsetsRequest, context: RequestContext) -> Message | PendingResponse:
    wanted_times = (one.timestamp for topic in request.topics for one in topic.partitions)
    if any(map(_is_search, wanted_times)):
        context.may_take_long()
    return _Answering(request, context).answer(context.at)


class _Answering:
    """A request, and the searches of the remote tier that it has begun."""

    __slots__ = ("_context", "_deadline_ms", "_is_late", "_isolation", "_request", "_searches")

    def __init__(self, request: ListOffsetsRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        is_committed = request.isolation_level == READ_COMMITTED
        self._isolation = Isolation.LAST_STABLE if is_committed else Isolation.HIGH_WATERMARK
        if request.replica_id != CONSUMER:
            self._isolation = Isolation.LOG_END
        wait_ms = context.broker.settings.config.remote_list_offsets_request_timeout_ms
        if request.timeout_ms > 0:
            wait_ms = request.timeout_ms
        self._deadline_ms = context.at.monotonic_ms + wait_ms
        self._is_late = False
        self._searches: dict[tuple[str, int, int], TierSearch] = {}

    def answer(self, at: Timestamps) -> Message | PendingResponse:
        """Answers once all searches are done, or have taken too long."""
        self._is_late = at.monotonic_ms >= self._deadline_ms
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[self._answer(topic.name, one) for one in topic.partitions],
            )
            for topic in self._request.topics
        ]
        awaited = [one for one in self._searches.values() if not one.is_done]
        if awaited and not self._is_late:
            waiting = self._context.broker.fetches.await_tier(awaited, self._deadline_ms)
            return LongPendingAnswer(waiting, self.answer)
        return ListOffsetsResponse(topics=topics)

    def _answer(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        request, context = self._request, self._context
        try:
            if context.api_version == 0:
                is_anyone = request.replica_id == DEBUGGING
                return _find_old(topic, wanted, context, asks_replica=is_anyone)
            if request.replica_id == DEBUGGING and wanted.timestamp == LATEST_TIMESTAMP:
                return _end_of_replica(topic, wanted.partition_index, context)
            return self._find(topic, wanted)
        except ApiError as error:
            code = context.broker.fetches.refusal(error, topic, wanted.partition_index).code
            if code is OFFSET_NOT_AVAILABLE and context.api_version < FIRST_NOT_AVAILABLE:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return ListOffsetsPartitionResponse(
                partition_index=wanted.partition_index, error_code=code
            )

    def _find(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        index, timestamp_ms = wanted.partition_index, wanted.timestamp
        answer = ListOffsetsPartitionResponse(partition_index=index)
        _check_time(timestamp_ms, self._context)
        partition = self._context.broker.topics.online_partition(topic, index)
        in_tier = None
        if timestamp_ms >= 0:
            search = self._search(topic, wanted, partition)
            if search is not None:
                if not search.is_done:
                    return answer  # Not sent: the request waits.
                if search.error is not None:
                    raise search.error
                in_tier = search.found
        found = partition.find_offset(
            timestamp_ms,
            isolation=self._isolation,
            leader_epoch=wanted.current_leader_epoch,
            in_tier=in_tier,
        )
        if found is not None:
            answer.offset = found.offset
            answer.timestamp = found.timestamp_ms
            if self._context.api_version >= FIRST_EPOCH_VERSION:
                answer.leader_epoch = found.leader_epoch
        return answer

    def _search(
        self, topic: str, wanted: ListOffsetsPartition, partition: "Partition"
    ) -> "TierSearch | None":
        """The search of the part of a log that is in the tier; `None` if there is none, or nothing
        more. Raises `ApiError` if it takes too long.
        """
        key = topic, wanted.partition_index, wanted.timestamp
        search = self._searches.get(key)
        if search is None or (search.is_done and search.is_behind):
            search = self._context.broker.fetches.search_tier(
                partition, wanted.timestamp, wanted.current_leader_epoch
            )
            if search is None:
                return None
            self._searches[key] = search
        if self._is_late and not search.is_done:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        return search


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


def _offsets_before(partition: "Partition", wanted: ListOffsetsPartition) -> list[int]:
    """The base offsets of segments that were last written before a time, newest first.

    Kafka: `UnifiedLog.legacyFetchOffsetsBefore`.
    """
    found = partition.log.reader.offsets_before(wanted.timestamp)
    return found[: max(wanted.max_num_offsets, 0)]
