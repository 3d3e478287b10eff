"""DeleteRecords, 0 to 2: answered when all replicas that are up have deleted the records too.

Followers hear of the leader's log start with what they fetch, and say theirs with the fetch after.
Kafka's counterparts: `ReplicaManager.deleteRecords`, `DelayedDeleteRecords` (KIP-107).
"""

from collections.abc import Hashable, Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import PART_SIZE, in_turns
from ottla.broker.waiting import DelayedOperation
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from ottla.server.cluster.applying import replicas_of
from ottla.server.handlers import delete_records
from ottla.server.request_context import PendingAnswer, PendingResponse, RequestContext

UP_TO_THE_END: Final = -1
NO_LOW_WATERMARK: Final = -1


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | PendingResponse:
    response = delete_records.handle(request, context)
    replicas = replicas_of(context)
    pending = DelayedOperation(context.at.monotonic_ms + request.timeout_ms)
    awaited: list[tuple[Hashable, TopicPartition, DeleteRecordsPartitionResult]] = []
    for asked, topic in in_turns(zip(request.topics, response.topics, strict=True)):
        for wanted, result in in_turns(zip(asked.partitions, topic.partitions, strict=True)):
            if result.error_code == ErrorCode.NONE:
                start = result.low_watermark
                required = start if wanted.offset == UP_TO_THE_END else wanted.offset
                place = TopicPartition(topic.name, result.partition_index)
                result.low_watermark = replicas.low_watermark(place)
                if result.low_watermark < required:
                    key = replicas.await_deletion(place, pending, required)
                    awaited.append((key, place, result))
    if not awaited or pending.all_awaited():
        return response

    def amend(errors: Mapping[Hashable, ErrorCode]) -> DeleteRecordsResponse:
        """After a timeout the low watermark is the initial one, as in Kafka."""
        for key, place, result in in_turns(awaited):
            result.error_code = errors.get(key, ErrorCode.NONE)
            if result.error_code == ErrorCode.NONE:
                result.low_watermark = replicas.low_watermark(place)
            elif result.error_code != ErrorCode.REQUEST_TIMED_OUT:
                result.low_watermark = NO_LOW_WATERMARK
        return response

    return PendingAnswer(pending, amend, takes_long=len(awaited) > PART_SIZE)
