"""JoinGroup (11): joins a group, and waits until all members have joined.

From version 4 on a new member first gets MEMBER_ID_REQUIRED with its id (KIP-394), so that a client
that retries leaves no stale member. Version 5 adds static members (KIP-345).
"""

from ottla.codec.fields import array, binary, boolean, int16, int32, string
from ottla.codec.schema import Message, Struct


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member supports, with its subscription."""

    name: str = string("0+")
    metadata: bytes = binary("0+")


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """In version 0 the session timeout is also the rebalance timeout; 8 adds a reason (KIP-800)."""

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", default=None, nullable="5+")
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", default=None, nullable="8+", ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member and its subscription, sent to the leader only."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    metadata: bytes = binary("0+")


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """With `skip_assignment` a rejoined static leader must not assign (version 9, KIP-814)."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", default=None, nullable="7+", ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")
