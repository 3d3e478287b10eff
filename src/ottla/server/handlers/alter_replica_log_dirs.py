"""AlterReplicaLogDirs, 0 to 2: says where partitions are, and that they cannot be moved yet.

A partition that lies in the directory already is answered with success. Left out: the move itself,
which is refused with UNSUPPORTED_VERSION. Kafka's counterpart: `ReplicaManager.alterReplicaLogDirs`
(KIP-113).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.server.call import Call


def handle(request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for wanted in request.dirs:
        for topic in wanted.topics:
            result = topics.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_move(wanted.path, topic.name, index, call)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _move(path: str, topic: str, index: int, call: Call) -> ErrorCode:
    broker = call.broker
    directory = next((one for one in broker.directories if one.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        partition = broker.topics.partition(topic, index)
    except ApiError as error:
        return error.code
    if directory.is_offline or partition.directory.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    is_there = partition.directory is directory
    return ErrorCode.NONE if is_there else ErrorCode.UNSUPPORTED_VERSION
