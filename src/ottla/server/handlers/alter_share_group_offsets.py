"""AlterShareGroupOffsets, 0: has a share group without members begin elsewhere (KIP-932).

There need be no group yet. Kafka's counterpart: `KafkaApis.handleAlterShareGroupOffsetsRequest`.
"""

from collections.abc import Mapping
from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import turn_dict
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.coordinator.catalog import CatalogTopic
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.protocol.messages.alter_share_group_offsets import (
    AlteredPartition,
    AlteredTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    WantedTopic,
)
from ottla.server.dispatching.request_context import (
    PendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.handling.committing import when_committed

UNKNOWN = ShareStateAnswer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def handle(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> Message | PendingResponse:
    broker, group_id = context.broker, request.group_id
    context.may_take_long()
    broker.groups.prepare(lambda: None)
    topics: dict[str, CatalogTopic] = turn_dict()
    starts: dict[str, dict[int, int]] = turn_dict()
    for wanted in request.topics:
        topic = broker.catalog.find(wanted.topic_name)
        if topic is None:
            continue
        topics[topic.name] = topic
        its = starts.setdefault(topic.name, turn_dict())
        for one in wanted.partitions:
            if 0 <= one.partition_index < topic.partition_count:
                its[one.partition_index] = one.start_offset
    places = [(topic, starts[name]) for name, topic in topics.items() if starts[name]]
    begun = broker.share_groups.begin_again(group_id, places, context.at)
    if not isinstance(begun, Waiting):
        return AlterShareGroupOffsetsResponse(error_code=begun.error, error_message=begun.message)

    def answer(states: Mapping[TopicIdPartition, ShareStateAnswer]) -> Message | PendingResponse:
        response = AlterShareGroupOffsetsResponse(
            responses=[_topic(one, topics.get(one.topic_name), states) for one in request.topics]
        )
        return when_committed(response, [group_id], context)

    return PendingAnswer(begun, answer, takes_long=True)


def _topic(
    wanted: WantedTopic,
    topic: CatalogTopic | None,
    states: Mapping[TopicIdPartition, ShareStateAnswer],
) -> AlteredTopic:
    if topic is None:
        find = partial(_partition, UNKNOWN)
        return AlteredTopic(
            topic_name=wanted.topic_name,
            partitions=[find(one.partition_index) for one in wanted.partitions],
        )
    topic_id = topic.topic_id
    return AlteredTopic(
        topic_name=topic.name,
        topic_id=topic_id,
        partitions=[
            _partition(states.get((topic_id, one.partition_index), UNKNOWN), one.partition_index)
            for one in wanted.partitions
        ],
    )


def _partition(answer: ShareStateAnswer, index: int) -> AlteredPartition:
    message = answer.message or (answer.error.description if answer.error else None)
    return AlteredPartition(partition_index=index, error_code=answer.error, error_message=message)
