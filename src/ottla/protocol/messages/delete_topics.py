"""DeleteTopics (20): removes topics, by name, or from version 6 by id (KIP-516)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, string, uuid
from ottla.codec.schema import Message, Struct


class DeleteTopicState(Struct):
    """A topic by name, or by id with a null name."""

    name: str | None = string("6+", default=None, nullable="6+")
    topic_id: Uuid = uuid("6+")


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


class DeletableTopicResult(Struct):
    """Version 5 adds a message; the name is null if the requested id is unknown."""

    name: str | None = string("0+", nullable="6+")
    topic_id: Uuid = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", default=None, nullable="5+", ignorable=True)


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
