"""RemoveRaftVoter (81): a voter of the metadata log becomes an observer (KIP-853)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import int16, int32, string, uuid
from ottla.codec.schema import Message


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: Uuid = uuid("0+")


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
