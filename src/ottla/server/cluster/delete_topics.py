"""DeleteTopics, 0 to 6: the controller deletes topics, by name or by id, on all brokers; answered
when this broker has removed them.

Kafka's counterpart: `KafkaApis.handleDeleteTopicsRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import in_turns
from ottla.broker.replication.metadata_cache import MetadataCache
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.codec.schema import Message
from ottla.controller.events import Answer, DeleteTopic
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.server.cluster.applying import Hearing, membership_of, replicas_of
from ottla.server.handlers.delete_topics import refuse, wanted_topics
from ottla.server.request_context import PendingAnswer, PendingResponse, RequestContext


def handle(
    request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse | PendingAnswer:
    context.may_take_long()
    cache = replicas_of(context).metadata
    results: list[DeletableTopicResult] = []
    going: dict[str, DeletableTopicResult] = {}
    for one in in_turns(wanted_topics(request)):
        result = DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_message=None)
        results.append(result)
        try:
            if not membership_of(context).is_controller:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            name = _name(one, cache)
            result.name, result.topic_id = name, cache.topic_ids.get(name, ZERO_UUID)
            if name in going:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            going[name] = result
        except ApiError as error:
            refuse(result, error, context)
    response = DeleteTopicsResponse(responses=results)
    if not going:
        return response

    def answered(answers: list[Answer]) -> Message | PendingResponse:
        left = []
        for (name, result), answer in in_turns(zip(going.items(), answers, strict=True)):
            if answer.error is ErrorCode.NONE:
                left.append(name)
            else:
                refuse(result, ApiError(answer.error), context)

        def is_gone(name: str) -> bool:
            return name not in replicas_of(context).metadata.topics

        def is_late(name: str) -> None:
            refuse(going[name], ApiError(ErrorCode.REQUEST_TIMED_OUT), context)

        return Hearing(left, is_gone, is_late).respond(response, context, request.timeout_ms)

    events = [DeleteTopic(pending_id=None, topic=name) for name in in_turns(going)]
    return PendingAnswer(membership_of(context).ask(events), answered, takes_long=True)


def _name(wanted: DeleteTopicState, cache: MetadataCache) -> str:
    """Raises `ApiError`."""
    name = wanted.name
    if name is None:
        name = cache.topic_names.get(wanted.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    elif wanted.topic_id != ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Name a topic or give its id, not both.")
    if name not in cache.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{name}' is internal.")
    return name
