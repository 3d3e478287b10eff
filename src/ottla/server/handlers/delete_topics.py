"""DeleteTopics, 0 to 6: removes topics with their records, by name or by id.

Kafka's counterparts: `ControllerApis.deleteTopics`, `KafkaApis.handleDeleteTopicsRequest`.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import turn_dict, turn_list
from ottla.codec.schema import Message
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond

FIRST_DISABLED_VERSION = 3
"""Clients of earlier versions do not know TOPIC_DELETION_DISABLED."""


def handle(request: DeleteTopicsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    results: list[DeletableTopicResult] = []
    going: dict[str, DeletableTopicResult] = turn_dict()
    for one in _wanted_topics(request):
        result = DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_message=None)
        results.append(result)
        try:
            name = _take(one, result, context)
            if name in going:
                raise _unknown(one)  # it is gone when that comes to be answered
            going[name] = result
        except ApiError as error:
            _refuse(result, error, context)

    def answer(outcomes: Sequence[ApiError | None]) -> DeleteTopicsResponse:
        for result, refusal in zip(going.values(), outcomes, strict=True):
            if refusal is not None:
                _refuse(result, refusal, context)
        return DeleteTopicsResponse(responses=results)

    if not going:
        return answer(())
    return respond(
        context.broker.controller.delete_topics(
            turn_list(going), context.at, deadline_ms=context.at.monotonic_ms + request.timeout_ms
        ),
        answer,
    )


def _wanted_topics(request: DeleteTopicsRequest) -> Iterator[DeleteTopicState]:
    """The topics of a request in any version; older versions have names only."""
    return chain((DeleteTopicState(name=name) for name in request.topic_names), request.topics)


def _refuse(result: DeletableTopicResult, error: ApiError, context: RequestContext) -> None:
    result.error_code, result.error_message = error.code, error.message
    is_disabled = error.code is ErrorCode.TOPIC_DELETION_DISABLED
    if is_disabled and context.api_version < FIRST_DISABLED_VERSION:
        result.error_code = ErrorCode.INVALID_REQUEST


def _take(wanted: DeleteTopicState, result: DeletableTopicResult, context: RequestContext) -> str:
    """Adds the topic's name and id to the result; raises `ApiError` if it may not be deleted."""
    catalog, name = context.broker.catalog, wanted.name
    if name is None:
        name = catalog.name_by_id(wanted.topic_id)
    elif wanted.topic_id != ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Name a topic or give its id, not both.")
    topic = None if name is None else catalog.find(name)
    if topic is None:
        raise _unknown(wanted)
    result.name, result.topic_id = topic.name, topic.topic_id
    context.broker.admin.check_deletion(topic.name)
    return topic.name


def _unknown(wanted: DeleteTopicState) -> ApiError:
    by_id = wanted.name is None
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
