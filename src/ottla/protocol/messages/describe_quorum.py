"""DescribeQuorum (55): leader, voters and observers of the metadata log, and how far they are
(KIP-595).

Version 1 adds times (KIP-836), 2 messages of errors, directories, and the listeners of nodes
(KIP-853). The tagged fields are Ottla's own: why the leader has stood for election, and who
has answered that does not lead.
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, string, uint16, uuid
from ottla.codec.schema import Message, Struct
from ottla.protocol.own_tags import OWN_TAG


class DescribedPartition(Struct):
    partition_index: int = int32("0+")


class DescribedTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[DescribedPartition] = array(DescribedPartition, "0+")


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    topics: list[DescribedTopic] = array(DescribedTopic, "0+")


class ReplicaState(Struct):
    """A voter, or an observer; the times are of the leader's clock, -1 where unknown."""

    replica_id: int = int32("0+")
    replica_directory_id: Uuid = uuid("2+", ignorable=True)
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class QuorumPartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("2+", default=None, nullable="2+", ignorable=True)
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    high_watermark: int = int64("0+")
    current_voters: list[ReplicaState] = array(ReplicaState, "0+")
    observers: list[ReplicaState] = array(ReplicaState, "0+")
    election_reason: str = string("0+", default="", tag=OWN_TAG, ignorable=True)
    node_id: int = int32("0+", default=-1, tag=OWN_TAG + 1, ignorable=True)
    """Who has answered, if it does not lead."""


class QuorumTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[QuorumPartition] = array(QuorumPartition, "0+")


class Listener(Struct):
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class Node(Struct):
    node_id: int = int32("2+")
    listeners: list[Listener] = array(Listener, "2+")


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16("0+")
    error_message: str | None = string("2+", default=None, nullable="2+", ignorable=True)
    topics: list[QuorumTopic] = array(QuorumTopic, "0+")
    nodes: list[Node] = array(Node, "2+", ignorable=True)
