"""AlterReplicaLogDirs, 0 to 2: moves partitions to other log directories of this broker. Answered
once the move has begun; DescribeLogDirs reports its progress. A move to the partition's current
directory cancels the one under way. Kafka's counterpart: `ReplicaManager.alterReplicaLogDirs`
(KIP-113, KIP-1066).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.storage.directory.log_directory import LogDirectory


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    context.may_take_long()
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for wanted in request.dirs:
        target = context.broker.log_jobs.moves.directory_at(wanted.path)
        for topic in wanted.topics:
            result = topics.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_move(target, topic.name, index, context)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _move(
    target: LogDirectory | None, topic: str, index: int, context: RequestContext
) -> ErrorCode:
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        context.broker.log_jobs.moves.request_to(target, topic, index)
    except ApiError as error:
        code = context.broker.fetches.refusal(error, topic, index).code
        # As in Kafka, of a partition that only other brokers have.
        is_elsewhere = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else code
    return ErrorCode.NONE
