"""DescribeLogDirs, 0 to 5: log directories, the space on their disks, and what lies in them.

A partition that moves is reported twice: where it is, and where its copy grows, with how many
offsets that is behind. Kafka's counterpart: `ReplicaManager.describeLogDirs` (KIP-113, KIP-827,
KIP-1066).
"""

from collections.abc import Container, Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, sorted_in_turns
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.server.request_context import RequestContext
from ottla.storage.directory.log_directory import LogDirectory


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    context.may_take_long()
    wanted: Container[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index)
            for topic in in_turns(request.topics)
            for index in in_turns(topic.partitions)
        }
    return DescribeLogDirsResponse(
        results=[_describe(directory, wanted, context) for directory in context.broker.directories]
    )


def _describe(
    directory: LogDirectory, wanted: Container[TopicPartition] | None, context: RequestContext
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(
        log_dir=directory.path, is_cordoned=context.broker.directories.is_cordoned(directory)
    )
    try:
        space = directory.disk_space()
    except StorageError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = space.total, space.usable
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, index), partition in _partitions(directory, context):
        if wanted is None or (name, index) in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(partition)
    result.topics = list(topics.values())
    return result


def _partitions(
    directory: LogDirectory, context: RequestContext
) -> Iterable[tuple[TopicPartition, DescribeLogDirsPartition]]:
    found = [
        (key, DescribeLogDirsPartition(partition_index=key[1], partition_size=log.size))
        for key, log in in_turns(list(directory.logs.items()))
    ]
    for key, future in in_turns(list(directory.futures.items())):
        current = context.broker.topics.partition(*key).log
        described = DescribeLogDirsPartition(
            partition_index=key[1],
            partition_size=future.size,
            offset_lag=max(0, current.log_end_offset - future.log_end_offset),
            is_future_key=True,
        )
        found.append((key, described))
    return sorted_in_turns(found, key=lambda one: one[0])
