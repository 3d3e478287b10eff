"""DescribeShareGroupOffsets (90): where a share group is in partitions (KIP-932).

Topics are null for all of them. Version 1 adds the lag (KIP-1226).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, string, uuid
from ottla.codec.schema import Message, Struct


class WantedTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class WantedGroup(Struct):
    group_id: str = string("0+")
    topics: list[WantedTopic] | None = array(WantedTopic, "0+", nullable="0+")


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    groups: list[WantedGroup] = array(WantedGroup, "0+")


class DescribedPartition(Struct):
    partition_index: int = int32("0+")
    start_offset: int = int64("0+")
    leader_epoch: int = int32("0+")
    lag: int = int64("1+", default=-1)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class DescribedTopic(Struct):
    topic_name: str = string("0+")
    topic_id: Uuid = uuid("0+")
    partitions: list[DescribedPartition] = array(DescribedPartition, "0+")


class DescribedGroup(Struct):
    group_id: str = string("0+")
    topics: list[DescribedTopic] = array(DescribedTopic, "0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
