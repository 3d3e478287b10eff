"""AlterShareGroupOffsets (91): moves an empty share group to other offsets (KIP-932)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, string, uuid
from ottla.codec.schema import Message, Struct


class WantedPartition(Struct):
    partition_index: int = int32("0+")
    start_offset: int = int64("0+")


class WantedTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[WantedPartition] = array(WantedPartition, "0+")


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    group_id: str = string("0+")
    topics: list[WantedTopic] = array(WantedTopic, "0+")


class AlteredPartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class AlteredTopic(Struct):
    topic_name: str = string("0+")
    topic_id: Uuid = uuid("0+")
    partitions: list[AlteredPartition] = array(AlteredPartition, "0+")


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    responses: list[AlteredTopic] = array(AlteredTopic, "0+")
