"""OffsetDelete, 0: forgets committed offsets of a group (KIP-496).

Kafka's counterpart: `KafkaApis.handleOffsetDeleteRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.server.call import Call


def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    wanted = [
        (topic.name, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
        if call.broker.topics.find(topic.name) is not None
    ]
    answer = call.broker.groups.delete_offsets(request.group_id, wanted, call.at)
    if answer.error:
        return OffsetDeleteResponse(error_code=answer.error)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=answer.partitions.get(
                            (topic.name, one.partition_index), unknown
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
