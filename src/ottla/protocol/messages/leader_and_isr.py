"""LeaderAndIsr (4): the controller makes a broker leader or follower of partitions.

Version 2 groups partitions by topic and adds the broker epoch (KIP-380), 3 the replicas that a
reassignment adds and removes (KIP-455), 5 topic ids (KIP-516), 6 the recovery after an unclean
election (KIP-704), 7 whether the controller is a KRaft controller.
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, boolean, int8, int16, int32, int64, string, uuid
from ottla.codec.schema import Message, Struct


class LeaderAndIsrPartitionState(Struct):
    """`partition_epoch` is the version of the partition's node in ZooKeeper.

    A replica with `is_new` may be created; another one that is missing is in an offline directory.
    """

    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array(int32, "0+")
    partition_epoch: int = int32("0+")
    replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "3+", ignorable=True)
    removing_replicas: list[int] = array(int32, "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+", ignorable=True)


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: Uuid = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32("0+")
    host_name: str = string("0+")
    port: int = int32("0+")


class LeaderAndIsrRequest(Message, api_key=4, versions="0-7", flexible="4+"):
    """`type` 1 lists all partitions of the broker, 0 (and every ZooKeeper controller) some."""

    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+", ignorable=True)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+")


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class LeaderAndIsrTopicError(Struct):
    topic_id: Uuid = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Message, api_key=4, versions="0-7", flexible="4+"):
    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")
