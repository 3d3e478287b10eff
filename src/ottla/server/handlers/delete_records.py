"""DeleteRecords, 0 to 2: moves the log start offset of partitions forward; readers see it at once.

The new offsets are on disk when the response is sent, whereas Kafka writes them within a minute.
Where a partition has other replicas, the response waits until all that are up have deleted the
records too: followers hear of the leader's log start with what they fetch, and say theirs with the
fetch after. Kafka's counterparts: `ReplicaManager.deleteRecords`, `DelayedDeleteRecords` (KIP-107).
"""

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.turns import PART_SIZE, parts_in_turns, turn_dict, turn_list
from ottla.broker.topics.partition import Replication
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.server.dispatching.request_context import PendingAnswer, PendingResponse, RequestContext

PARTITIONS_AT_ONCE = 128
"""Their new starts are written down together, with those of all others of their directory."""

UP_TO_THE_END: Final = -1
NO_LOW_WATERMARK: Final = -1


class _Awaited(NamedTuple):
    key: Hashable
    replication: Replication
    result: DeleteRecordsPartitionResult


class _Deletion:
    """The partitions of a request whose other replicas have records left to delete."""

    def __init__(self, request: DeleteRecordsRequest, context: RequestContext) -> None:
        self._topics = context.broker.topics
        self._pending = DelayedOperation(context.at.monotonic_ms + request.timeout_ms)
        self._awaited: list[_Awaited] = turn_list()

    def add(self, place: TopicPartition, offset: int, result: DeleteRecordsPartitionResult) -> None:
        replication = self._topics.partition(*place).replication
        if replication is None:
            return
        required = result.low_watermark if offset == UP_TO_THE_END else offset
        result.low_watermark = replication.low_watermark
        if result.low_watermark < required:
            key = replication.await_deletion(self._pending, required)
            self._awaited.append(_Awaited(key, replication, result))

    def answer(self, response: DeleteRecordsResponse) -> DeleteRecordsResponse | PendingResponse:
        if not self._awaited or self._pending.all_awaited():
            return response

        def amend(errors: Mapping[Hashable, ErrorCode]) -> DeleteRecordsResponse:
            """After a timeout the low watermark is the initial one, as in Kafka."""
            for key, replication, result in self._awaited:
                result.error_code = errors.get(key, ErrorCode.NONE)
                if result.error_code == ErrorCode.NONE:
                    result.low_watermark = replication.low_watermark
                elif result.error_code != ErrorCode.REQUEST_TIMED_OUT:
                    result.low_watermark = NO_LOW_WATERMARK
            return response

        return PendingAnswer(self._pending, amend, takes_long=len(self._awaited) > PART_SIZE)


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | PendingResponse:
    wanted = turn_dict(
        (TopicPartition(topic.name, one.partition_index), one.offset)
        for topic in request.topics
        for one in topic.partitions
    )
    starts: dict[TopicPartition, int | ApiError] = turn_dict()
    for part in parts_in_turns(wanted.items(), PARTITIONS_AT_ONCE):
        starts |= context.broker.admin.delete_records(dict(part))
    deletion, topics = _Deletion(request, context), []
    for topic in request.topics:
        results = []
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.partition_index)
            result = _result(place, starts[place], context)
            if result.error_code == ErrorCode.NONE:
                deletion.add(place, one.offset, result)
            results.append(result)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return deletion.answer(DeleteRecordsResponse(topics=topics))


def _result(
    place: TopicPartition, start: int | ApiError, context: RequestContext
) -> DeleteRecordsPartitionResult:
    index = place.partition
    if isinstance(start, ApiError):
        code = context.broker.fetches.refusal(start, place.topic, index).code
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start)
