"""AlterReplicaLogDirs, 0 to 2: has partitions move to other log directories of this broker.

Answered when the move has begun; DescribeLogDirs tells how far it is. A move to where a partition
lies already gives up the one that is under way. Kafka's counterpart:
`ReplicaManager.alterReplicaLogDirs` (KIP-113, KIP-1066).
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
    try:
        call.broker.moves.request(topic, index, path)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
