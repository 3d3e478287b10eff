"""DeleteShareGroupOffsets, 0: has a share group without members forget topics (KIP-932).

Kafka's counterpart: `KafkaApis.handleDeleteShareGroupOffsetsRequest`.
"""

from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.turns import turn_dict
from ottla.broker.groups.share_groups import deletion_error
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.protocol.messages.delete_share_group_offsets import (
    DeletedTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from ottla.server.dispatching.request_context import (
    PendingAnswer,
    PendingResponse,
    RequestContext,
)
from ottla.server.handling.committing import when_committed

NOTHING_THERE = "There is no offset information to delete."


def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> Message | PendingResponse:
    broker, group_id = context.broker, request.group_id
    context.may_take_long()
    ids: dict[str, Uuid] = turn_dict(
        (topic.name, topic.topic_id)
        for one in request.topics
        if (topic := broker.catalog.find(one.topic_name)) is not None
    )
    begun = broker.share_groups.delete_offsets(group_id, frozenset(ids.values()), context.at)
    if not isinstance(begun, Waiting):
        return DeleteShareGroupOffsetsResponse(error_code=begun.error, error_message=begun.message)

    def answer(states: Mapping[TopicIdPartition, ShareStateAnswer]) -> Message | PendingResponse:
        errors: dict[Uuid, ErrorCode] = turn_dict()
        for (topic_id, _), state in states.items():
            errors[topic_id] = errors.get(topic_id) or deletion_error(state)
        response = DeleteShareGroupOffsetsResponse(
            responses=[
                _topic(one.topic_name, ids.get(one.topic_name), errors) for one in request.topics
            ]
        )
        return when_committed(response, [group_id], context)

    return PendingAnswer(begun, answer, takes_long=True)


def _topic(name: str, topic_id: Uuid | None, errors: Mapping[Uuid, ErrorCode]) -> DeletedTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic_id is None:
        return DeletedTopic(topic_name=name, error_code=code, error_message=code.description)
    found = DeletedTopic(topic_name=name, topic_id=topic_id)
    if topic_id not in errors:
        found.error_code, found.error_message = code, NOTHING_THERE
    elif error := errors[topic_id]:
        found.error_code, found.error_message = error, error.description
    return found
