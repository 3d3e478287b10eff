"""Heartbeat (12): extends a member's session; the error says whether to rejoin."""

from ottla.codec.fields import int16, int32, string
from ottla.codec.schema import Message


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """Version 3 adds static members (KIP-345)."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
