"""DescribeGroups (15): state and members of classic groups."""

from ottla.codec.fields import array, binary, boolean, int16, int32, string
from ottla.codec.schema import Message, Struct


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """Version 3 can request the operations that the client is allowed to do (KIP-430)."""

    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", default=None, nullable="4+", ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")


class DescribedGroup(Struct):
    """One group; the state is a name, such as "Stable".

    A missing group is GROUP_ID_NOT_FOUND with a message in version 6 (KIP-1043), and "Dead" in
    older versions.
    """

    error_code: int = int16("0+")
    error_message: str | None = string("6+", default=None, nullable="6+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
