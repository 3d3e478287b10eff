"""UpdateRaftVoter (82): a voter tells the leader its listeners, and which versions of KRaft it
supports (KIP-853)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, nested, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class Listener(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class UpdateRaftVoterRequest(Message, api_key=82, versions="0", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+")
    current_leader_epoch: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: Uuid = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature, "0+")


class CurrentLeader(Struct):
    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)
    host: str = string("0+")
    port: int = int32("0+")


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    current_leader: CurrentLeader | None = nested(CurrentLeader, "0+", tag=0)
