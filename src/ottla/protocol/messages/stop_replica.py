"""StopReplica (5): the controller makes a broker stop replicas, and optionally delete them.

Version 1 groups by topic and adds the broker epoch (KIP-380), 3 the leader epoch of each partition
(KIP-570), which is -2 if the topic is deleted.
"""

from ottla.codec.fields import array, boolean, int16, int32, int64, string
from ottla.codec.schema import Message, Struct


class StopReplicaPartition(Struct):
    """Kafka's `StopReplicaPartitionV0`."""

    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopic(Struct):
    """Kafka's `StopReplicaTopicV1`."""

    name: str = string("1-2")
    partition_indexes: list[int] = array(int32, "1-2")


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Message, api_key=5, versions="0-4", flexible="2+"):
    """Below version 3 `delete_partitions` applies to all partitions of the request."""

    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartition] = array(StopReplicaPartition, "0")
    topics: list[StopReplicaTopic] = array(StopReplicaTopic, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class StopReplicaResponse(Message, api_key=5, versions="0-4", flexible="2+"):
    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")
