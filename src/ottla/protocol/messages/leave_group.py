"""LeaveGroup (13): a member leaves, or from version 3 several members are removed (KIP-345)."""

from ottla.codec.fields import array, int16, int32, string
from ottla.codec.schema import Message, Struct


class MemberIdentity(Struct):
    """A member that leaves; a static member may be identified by its instance id alone."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    reason: str | None = string("5+", default=None, nullable="5+", ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """One member in versions 0 to 2, several from 3 on, with a reason from 5 on (KIP-800)."""

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")
