"""DeleteTopics, 0 to 6: removes topics with their files, by name or by id.

Kafka's counterpart: `ControllerApis.deleteTopics`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.broker.topics import Topic
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.server.call import Call

FIRST_DISABLED_VERSION = 3
"""Before it, a client does not know TOPIC_DELETION_DISABLED."""


def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    wanted = [
        *(DeleteTopicState(name=name) for name in request.topic_names),
        *request.topics,
    ]
    return DeleteTopicsResponse(responses=[_delete(one, call) for one in wanted])


def _delete(wanted: DeleteTopicState, call: Call) -> DeletableTopicResult:
    name, topic_id = wanted.name, wanted.topic_id
    code, message = ErrorCode.NONE, None
    try:
        topic = _find(wanted, call)
        name, topic_id = topic.name, topic.topic_id
        call.broker.delete_topic(topic)
    except ApiError as error:
        code, message = error.code, error.message
        if code is ErrorCode.TOPIC_DELETION_DISABLED and call.api_version < FIRST_DISABLED_VERSION:
            code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=message
    )


def _find(wanted: DeleteTopicState, call: Call) -> Topic:
    topics = call.broker.topics
    if wanted.name is None:
        topic = topics.find_by_id(wanted.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
    if wanted.topic_id != ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Name a topic or give its id, not both.")
    return topics.get(wanted.name)
