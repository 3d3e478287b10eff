"""EndQuorumEpoch (54): the leader of the metadata quorum resigns, and names successors (KIP-595).

Version 1 identifies successors by their directories too, and tells the leader's listeners
(KIP-853).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class ReplicaInfo(Struct):
    candidate_id: int = int32("1+")
    candidate_directory_id: Uuid = uuid("1+")


class EndedPartition(Struct):
    """Successors are ordered: the one whose log is longest is first."""

    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    preferred_successors: list[int] = array(int32, "0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", ignorable=True)


class EndedTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[EndedPartition] = array(EndedPartition, "0+")


class LeaderEndpoint(Struct):
    """A listener of the leader."""

    name: str = string("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    cluster_id: str | None = string("0+", default=None, nullable="0+")
    topics: list[EndedTopic] = array(EndedTopic, "0+")
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class EndedPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class EndedTopicResult(Struct):
    topic_name: str = string("0+")
    partitions: list[EndedPartitionResult] = array(EndedPartitionResult, "0+")


class NodeEndpoint(Struct):
    """A leader that a partition names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    error_code: int = int16("0+")
    topics: list[EndedTopicResult] = array(EndedTopicResult, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, ignorable=True)
