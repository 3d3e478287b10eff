"""ListGroups (16): the groups that this broker coordinates."""

from ottla.codec.fields import array, int16, int32, string
from ottla.codec.schema import Message, Struct


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """Filters by state (version 4, KIP-518) and type (5, KIP-848); an empty one matches all."""

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListedGroup(Struct):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")
