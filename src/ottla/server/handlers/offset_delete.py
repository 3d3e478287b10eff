"""OffsetDelete, 0: forgets committed offsets of a group (KIP-496).

Kafka's counterpart: `KafkaApis.handleOffsetDeleteRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import parts_in_turns, turn_dict, turn_list
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    wanted = turn_list(
        [
            TopicPartition(topic.name, one.partition_index)
            for topic in request.topics
            for one in topic.partitions
            if context.broker.catalog.find(topic.name) is not None
        ]
    )
    groups, at = context.broker.groups, context.at
    errors: dict[TopicPartition, ErrorCode] = turn_dict()
    for part in parts_in_turns(wanted) if wanted else [wanted]:
        decision = groups.machine_of(request.group_id, at).delete_offsets(
            request.group_id, part, at
        )
        answer = groups.carry_out(decision, at)
        if answer.error:
            return OffsetDeleteResponse(error_code=answer.error)
        errors |= answer.partitions
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get(
                            TopicPartition(topic.name, one.partition_index), unknown
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
