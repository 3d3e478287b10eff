"""DeleteShareGroupOffsets (92): makes an empty share group forget topics (KIP-932)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, string, uuid
from ottla.codec.schema import Message, Struct


class WantedTopic(Struct):
    topic_name: str = string("0+")


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    group_id: str = string("0+")
    topics: list[WantedTopic] = array(WantedTopic, "0+")


class DeletedTopic(Struct):
    topic_name: str = string("0+")
    topic_id: Uuid = uuid("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    responses: list[DeletedTopic] = array(DeletedTopic, "0+")
