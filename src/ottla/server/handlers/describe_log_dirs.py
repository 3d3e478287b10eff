"""DescribeLogDirs, 0 to 5: log directories, the space on their disks, and what lies in them.

Kafka's counterpart: `ReplicaManager.describeLogDirs` (KIP-113, KIP-827).
"""

from collections.abc import Container

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.server.call import Call
from ottla.storage.log_directory import LogDirectory, TopicPartition


def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    wanted: Container[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(directory, wanted) for directory in call.broker.directories]
    )


def _describe(
    directory: LogDirectory, wanted: Container[TopicPartition] | None
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    try:
        space = directory.disk_space()
    except StorageError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = space.total, space.usable
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, index), log in sorted(directory.logs.items()):
        if wanted is None or (name, index) in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=log.size)
            )
    result.topics = list(topics.values())
    return result
