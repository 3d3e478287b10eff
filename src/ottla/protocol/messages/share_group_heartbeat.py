"""ShareGroupHeartbeat (76): the membership of a share group (KIP-932).

A member joins with epoch 0, leaves with -1, and sends only what changed since its last heartbeat:
null means no change.
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, nested, string, uuid
from ottla.codec.schema import Message, Struct


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="1", flexible="0+"):
    group_id: str = string("1+")
    member_id: str = string("1+")
    member_epoch: int = int32("1+")
    rack_id: str | None = string("1+", default=None, nullable="1+")
    subscribed_topic_names: list[str] | None = array(string, "1+", default=None, nullable="1+")


class TopicPartitions(Struct):
    topic_id: Uuid = uuid("1+")
    partitions: list[int] = array(int32, "1+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "1+")


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="1", flexible="0+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("1+")
    error_message: str | None = string("1+", default=None, nullable="1+")
    member_id: str | None = string("1+", default=None, nullable="1+")
    member_epoch: int = int32("1+")
    heartbeat_interval_ms: int = int32("1+")
    assignment: Assignment | None = nested(Assignment, "1+", nullable="1+")
