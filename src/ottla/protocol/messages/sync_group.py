"""SyncGroup (14): the leader sends the assignment; each member waits for its part."""

from ottla.codec.fields import array, binary, int16, int32, string
from ottla.codec.schema import Message, Struct


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member, as `ConsumerProtocolAssignment` bytes."""

    member_id: str = string("0+")
    assignment: bytes = binary("0+")


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """Only the leader sets `assignments`.

    Version 3 adds static members (KIP-345), version 5 a check of the protocol (KIP-559).
    """

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    protocol_type: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    assignment: bytes = binary("0+")
