"""AssignReplicasToDirs (73): a broker tells the controller which directories its replicas are in
(KIP-858)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, uuid
from ottla.codec.schema import Message, Struct


class AssignedPartition(Struct):
    partition_index: int = int32("0+")


class AssignedTopic(Struct):
    topic_id: Uuid = uuid("0+")
    partitions: list[AssignedPartition] = array(AssignedPartition, "0+")


class AssignedDirectory(Struct):
    id: Uuid = uuid("0+")
    topics: list[AssignedTopic] = array(AssignedTopic, "0+")


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    directories: list[AssignedDirectory] = array(AssignedDirectory, "0+")


class AssignedPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class AssignedTopicResult(Struct):
    topic_id: Uuid = uuid("0+")
    partitions: list[AssignedPartitionResult] = array(AssignedPartitionResult, "0+")


class AssignedDirectoryResult(Struct):
    id: Uuid = uuid("0+")
    topics: list[AssignedTopicResult] = array(AssignedTopicResult, "0+")


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    directories: list[AssignedDirectoryResult] = array(AssignedDirectoryResult, "0+")
