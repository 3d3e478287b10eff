"""AddRaftVoter (80): an observer of the metadata log becomes a voter (KIP-853).

Version 1 may be answered before the change is committed (KIP-1186).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int16, int32, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class Listener(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")


class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+")
    timeout_ms: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: Uuid = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
