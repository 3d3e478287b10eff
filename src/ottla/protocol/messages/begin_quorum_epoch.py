"""BeginQuorumEpoch (53): a new leader of the metadata quorum announces itself (KIP-595).

Version 1 identifies the voter by its directory too, and tells the leader's listeners (KIP-853).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, string, uint16, uuid
from ottla.codec.schema import Message, Struct


class BegunPartition(Struct):
    partition_index: int = int32("0+")
    voter_directory_id: Uuid = uuid("1+", ignorable=True)
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class BegunTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[BegunPartition] = array(BegunPartition, "0+")


class LeaderEndpoint(Struct):
    """A listener of the leader."""

    name: str = string("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    """`voter_id` is the voter that is told."""

    cluster_id: str | None = string("0+", default=None, nullable="0+")
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[BegunTopic] = array(BegunTopic, "0+")
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class BegunPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class BegunTopicResult(Struct):
    topic_name: str = string("0+")
    partitions: list[BegunPartitionResult] = array(BegunPartitionResult, "0+")


class NodeEndpoint(Struct):
    """A leader that a partition names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    error_code: int = int16("0+")
    topics: list[BegunTopicResult] = array(BegunTopicResult, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, ignorable=True)
