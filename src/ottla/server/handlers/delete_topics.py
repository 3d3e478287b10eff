"""DeleteTopics, 0 to 6: removes topics with their files, by name or by id.

Kafka's counterpart: `ControllerApis.deleteTopics`.
"""

from collections.abc import Iterator
from itertools import chain

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import freed_in_turns, in_turns, yield_turn
from ottla.broker.topics.topics import Topic
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.server.request_context import RequestContext

FIRST_DISABLED_VERSION = 3
"""Clients of earlier versions do not know TOPIC_DELETION_DISABLED."""


def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    context.may_take_long()
    results: list[DeletableTopicResult] = []
    topics: dict[str, Topic] = freed_in_turns({})
    going: list[DeletableTopicResult] = freed_in_turns([])
    for one in in_turns(wanted_topics(request)):
        result = DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_message=None)
        results.append(result)
        try:
            topic = _find(one, context)
            result.name, result.topic_id = topic.name, topic.topic_id
            if topic.name in topics:
                raise _unknown(one)  # it is gone when that comes to be answered
            context.broker.check_deletion(topic)
        except ApiError as error:
            refuse(result, error, context)
        else:
            topics[topic.name] = topic
            going.append(result)
    try:
        if topics:
            context.broker.delete_topics(list(topics.values()))
            while context.broker.groups.forget_some(context.at):
                yield_turn()
    except ApiError as error:
        for result in going:
            refuse(result, error, context)
    return DeleteTopicsResponse(responses=results)


def wanted_topics(request: DeleteTopicsRequest) -> Iterator[DeleteTopicState]:
    """The topics of a request in any version; older versions have names only."""
    return chain((DeleteTopicState(name=name) for name in request.topic_names), request.topics)


def refuse(result: DeletableTopicResult, error: ApiError, context: RequestContext) -> None:
    result.error_code, result.error_message = error.code, error.message
    is_disabled = error.code is ErrorCode.TOPIC_DELETION_DISABLED
    if is_disabled and context.api_version < FIRST_DISABLED_VERSION:
        result.error_code = ErrorCode.INVALID_REQUEST


def _find(wanted: DeleteTopicState, context: RequestContext) -> Topic:
    topics = context.broker.topics
    if wanted.name is None:
        topic = topics.find_by_id(wanted.topic_id)
        if topic is None:
            raise _unknown(wanted)
        return topic
    if wanted.topic_id != ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Name a topic or give its id, not both.")
    return topics.get(wanted.name)


def _unknown(wanted: DeleteTopicState) -> ApiError:
    by_id = wanted.name is None
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
