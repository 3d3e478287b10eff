"""AlterPartition (56): a leader asks the controller to shrink or expand its ISR (KIP-497).

Version 1 says whether the leader has recovered from an unclean election (KIP-704), 2 names topics
by id, 3 gives the epochs of the brokers in the new ISR (KIP-903; -1 with ZooKeeper).
"""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int8, int16, int32, int64, string, uuid
from ottla.codec.schema import Message, Struct


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlteredPartition(Struct):
    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32("0+")


class AlteredTopic(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: Uuid = uuid("2+", ignorable=True)
    partitions: list[AlteredPartition] = array(AlteredPartition, "0+")


class AlterPartitionRequest(Message, api_key=56, versions="0-3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[AlteredTopic] = array(AlteredTopic, "0+")


class AlteredPartitionResult(Struct):
    """The state of the partition in the controller after the request."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array(int32, "0+")
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32("0+")


class AlteredTopicResult(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: Uuid = uuid("2+", ignorable=True)
    partitions: list[AlteredPartitionResult] = array(AlteredPartitionResult, "0+")


class AlterPartitionResponse(Message, api_key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[AlteredTopicResult] = array(AlteredTopicResult, "0+")
