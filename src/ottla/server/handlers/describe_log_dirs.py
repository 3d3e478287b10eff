"""DescribeLogDirs, 0 to 5: log directories, the space on their disks, and their partitions. A
partition that is being moved is reported twice: where it is, and where its copy is, with the copy's
lag. Kafka's counterpart: `ReplicaManager.describeLogDirs` (KIP-113, KIP-827, KIP-1066).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.base.turns import in_turns, parts_in_turns, turn_dict
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.server.dispatching.request_context import RequestContext

if TYPE_CHECKING:
    from ottla.storage.directory.log_directory import LogDirectory

Wanted = Mapping[str, Collection[int]]
"""The partitions that are asked for, by topic."""


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    context.may_take_long()
    wanted = None if request.topics is None else _wanted(request.topics)
    return DescribeLogDirsResponse(
        results=[_describe(directory, wanted, context) for directory in context.broker.directories]
    )


def _wanted(topics: Iterable[DescribableLogDirTopic]) -> Wanted:
    found: dict[str, set[int]] = turn_dict()
    for topic in topics:
        found.setdefault(topic.topic, set()).update(topic.partitions)
    return found


def _describe(
    directory: "LogDirectory", wanted: Wanted | None, context: RequestContext
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
    result.topics = _topics(directory, wanted, context)
    return result


def _topics(
    directory: "LogDirectory", wanted: Wanted | None, context: RequestContext
) -> list[DescribeLogDirsTopic]:
    """Written for 10,000 partitions: the console's list of topics asks for the sizes of as many."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for part in parts_in_turns(list(directory.logs.items())):
        for (name, index), log in part:
            if wanted is not None and index not in wanted.get(name, ()):
                continue
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = DescribeLogDirsTopic(name=name)
            topic.partitions.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=log.size)
            )
    for (name, index), future in in_turns(list(directory.futures.items())):
        if wanted is not None and index not in wanted.get(name, ()):
            continue
        current = context.broker.topics.partition(name, index).log
        described = DescribeLogDirsPartition(
            partition_index=index,
            partition_size=future.size,
            offset_lag=max(0, current.log_end_offset - future.log_end_offset),
            is_future_key=True,
        )
        topics.setdefault(name, DescribeLogDirsTopic(name=name)).partitions.append(described)
    return list(topics.values())
