"""OffsetForLeaderEpoch, 0 to 4: an epoch's end offset, so that a consumer detects truncation.

Kafka's counterpart: `Partition.lastOffsetForLeaderEpoch` (KIP-101, KIP-320).
"""

from ottla.base.errors import ApiError
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_find(topic.topic, wanted, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _find(topic: str, wanted: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.broker.topics.online_partition(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
    except ApiError as error:
        answer.error_code = context.broker.fetches.refusal(error, topic, wanted.partition).code
        return answer
    log = partition.log
    found = log.epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)
    if found is not None:
        answer.leader_epoch, answer.end_offset = found
    return answer
