"""Vote (52): a voter of the metadata quorum asks another for its vote (KIP-595).

Version 1 identifies voters by their directories too (KIP-853), 2 asks whether a vote would be given
before an epoch is begun (KIP-996).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class VoteRequestPartition(Struct):
    """`replica_epoch` is the candidate's epoch; the candidate's log ends at `last_offset`."""

    partition_index: int = int32("0+")
    replica_epoch: int = int32("0+")
    replica_id: int = int32("0+")
    replica_directory_id: Uuid = uuid("1+", ignorable=True)
    voter_directory_id: Uuid = uuid("1+", ignorable=True)
    last_offset_epoch: int = int32("0+")
    last_offset: int = int64("0+")
    pre_vote: bool = boolean("2+")


class VoteRequestTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[VoteRequestPartition] = array(VoteRequestPartition, "0+")


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    """`voter_id` is the voter that is asked."""

    cluster_id: str | None = string("0+", default=None, nullable="0+")
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopic] = array(VoteRequestTopic, "0+")


class VoteResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    vote_granted: bool = boolean("0+")


class VoteResponseTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[VoteResponsePartition] = array(VoteResponsePartition, "0+")


class NodeEndpoint(Struct):
    """A leader that a partition names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    error_code: int = int16("0+")
    topics: list[VoteResponseTopic] = array(VoteResponseTopic, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, ignorable=True)
