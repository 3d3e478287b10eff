"""ShareGroupDescribe (77): share groups with their members and assignments (KIP-932)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int16, int32, nested, string, uuid
from ottla.codec.schema import Message, Struct


class ShareGroupDescribeRequest(Message, api_key=77, versions="1", flexible="0+"):
    group_ids: list[str] = array(string, "1+")
    include_authorized_operations: bool = boolean("1+")


class TopicPartitions(Struct):
    topic_id: Uuid = uuid("1+")
    topic_name: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "1+")


class Member(Struct):
    member_id: str = string("1+")
    rack_id: str | None = string("1+", default=None, nullable="1+")
    member_epoch: int = int32("1+")
    client_id: str = string("1+")
    client_host: str = string("1+")
    subscribed_topic_names: list[str] = array(string, "1+")
    assignment: Assignment = nested(Assignment, "1+")


class DescribedGroup(Struct):
    error_code: int = int16("1+")
    error_message: str | None = string("1+", default=None, nullable="1+")
    group_id: str = string("1+")
    group_state: str = string("1+")
    group_epoch: int = int32("1+")
    assignment_epoch: int = int32("1+")
    assignor_name: str = string("1+")
    members: list[Member] = array(Member, "1+")
    authorized_operations: int = int32("1+", default=-2147483648)


class ShareGroupDescribeResponse(Message, api_key=77, versions="1", flexible="0+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup, "1+")
