"""Truncates the logs of an open log to an offset or a time, for a copy of a directory."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import RefusalError, UnknownNameError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.topics.partition import Partition
from ottla.embedded.live_reading import perform
from ottla.storage.log.offsets import FoundOffset
from ottla.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.embedded.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The result for a partition; `wanted` is the requested end.

    `end` is earlier if a batch, or a transaction, extends beyond it.
    """

    place: TopicPartition
    wanted: int
    end_before: int
    end: int


def offsets_at_time(log: "Log", timestamp_ms: int) -> dict[TopicPartition, int]:
    """The first offset at or after a time, of each partition with one.

    Internal topics are left out.
    """
    with log.looking() as broker:
        partitions = [
            partition
            for topic in broker.topics
            if not topic.is_internal
            for partition in topic.partitions.values()
        ]
    found = {}
    for one in partitions:
        at = _at_time(log, one, timestamp_ms)
        if at is not None:
            found[TopicPartition(one.topic, one.index)] = at.offset
    return found


def _at_time(log: "Log", partition: Partition, timestamp_ms: int) -> FoundOffset | None:
    with log.looking() as broker:
        search = broker.fetches.tier_search(partition, timestamp_ms)
        if search is None:
            return partition.log.reader.find_timestamp(timestamp_ms)
    perform(log, search)
    with log.looking():
        return search.found or partition.log.reader.find_timestamp(timestamp_ms)


def cut_logs(log: "Log", ends: Mapping[TopicPartition, int]) -> list[Cut]:
    """Truncates each log at an offset, or at the beginning of the batch with that offset.

    A transaction that was still open there is removed too, with everything after its first record:
    its marker is cut off, and read_committed consumers would wait for it forever. Raises
    `UnknownNameError`, and `RefusalError` for an offset outside the log.
    """
    logs = {place: _log_at(log, place, end) for place, end in sorted(ends.items())}

    def cut_all(_: Broker, at: Timestamps) -> list[Cut]:
        return [_cut(one, place, ends[place], at.now_ms) for place, one in logs.items()]

    cuts: list[Cut] = log.hold(cut_all)
    return cuts


def _log_at(log: "Log", place: TopicPartition, end: int) -> PartitionLog:
    with log.looking() as broker:
        topic = broker.topics.find(place.topic)
        partition = topic.partitions.get(place.partition) if topic is not None else None
        if partition is None:
            there = [f"{one.name}-{index}" for one in broker.topics for index in one.partitions]
            raise UnknownNameError("partition", f"{place.topic}-{place.partition}", there)
        found = partition.log
    first, last = found.log_start_offset, found.log_end_offset
    if not first <= end <= last:
        raise RefusalError(
            f"{place.topic}-{place.partition} has offsets {first} to {last}, and cannot end at "
            f"{end}; name one of those"
        )
    return found


def _cut(log: PartitionLog, place: TopicPartition, wanted: int, now_ms: int) -> Cut:
    end_before = log.log_end_offset
    end: int | None = wanted
    while end is not None and end < log.log_end_offset:
        log.maintenance.truncate_to(end, now_ms=now_ms)
        end = log.offsets.first_unstable_offset
    return Cut(place=place, wanted=wanted, end_before=end_before, end=log.log_end_offset)
