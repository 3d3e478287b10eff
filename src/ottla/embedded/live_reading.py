"""Reads of a log that this process has open, holding its lock as briefly as possible.

The lock is held only to find a slice of a file; the slice is read, checked and decoded afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.base.arguments import (
    check_partition_offsets,
    check_partitions,
    check_place,
    check_seconds,
)
from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSlice
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.broker.waiting.rooms import Waiting
from ottla.embedded.scanning import READ_SIZE, Region, sound_start
from ottla.record.batch import Batch
from ottla.storage.log.offsets import Isolation, OffsetInTierError
from ottla.storage.log.segment_run import SegmentRun
from ottla.storage.reading.checked_batches import checked_batches, damage_in
from ottla.storage.segment.aborted_ranges import AbortedRanges

if TYPE_CHECKING:
    from ottla.broker.records.tier_reads import TierRead, TierWork
    from ottla.embedded.log import Log

TIER_SETTINGS: Final = "remote.log.storage.system.enable=true and what belongs to it"


def regions(log: "Log", place: TopicPartition, offset: int, end: int) -> Iterator[Region]:
    """The batches of a partition from an offset up to another. If retention deleted the start, or
    the next offset meanwhile, continues at the log start offset. Raises `CorruptionError`, and
    `UserError` if the topic is deleted meanwhile.
    """
    place = check_place(place)
    topic_id: Uuid | None = None
    one_by_one_until = offset
    while offset < end:
        in_tier = None
        with log.looking() as broker:
            # As after a fetch: a read may open more segments than a process may have open files.
            if broker.open_files.is_over:
                broker.open_files.give_back()
            partition = log.find_partition(*place)
            topic_id = _same_topic(log.find_topic(place.topic), topic_id)
            state = partition.log
            # Of a log that another broker has written: searched for aborted transactions in slices.
            state.maintenance.check_aborts()
            if state.abort_check is not None:
                continue
            begin = max(offset, state.log_start_offset)
            if begin >= end:
                return
            run = state.reader.run_at(begin, READ_SIZE) if begin >= one_by_one_until else None
            found = None
            try:
                if run is None:
                    data = state.reader.read(begin, READ_SIZE, Isolation.LAST_STABLE)
                    found, aborted = data.records, data.aborted
                    found = None if found is None else found.duplicate()
            except OffsetInTierError:
                in_tier = _read_in_tier(broker, partition, begin)
        if run is not None:
            region = _region_of(run, begin, end)
            if region is None:
                one_by_one_until = run.next_offset
            else:
                offset = run.next_offset
                yield region
            continue
        if in_tier is not None:
            perform(log, in_tier)
            if in_tier.region is None:
                offset = max(begin, in_tier.next_offset)
                continue
            found, aborted = in_tier.records(), in_tier.aborted
        whole = found.read() if found is not None else b""
        if found is None or not whole:
            return
        ranges = AbortedRanges(aborted or [])
        batches, damage = sound_start(checked_batches(found, whole))
        if batches:
            offset = batches[-1].next_offset
            yield Region(whole, batches, ranges, begin, end, partial(_damage_in, found))
        if damage is not None:
            raise damage
        if not batches:
            return


def _same_topic(topic: Topic, topic_id: Uuid | None) -> Uuid:
    if topic_id not in (None, topic.topic_id):
        raise UserError(f"topic {topic.name} was created again while it was read; read it again")
    return topic.topic_id


def _region_of(run: SegmentRun, begin: int, end: int) -> Region | None:
    read = run.read()
    if read is None:
        return None
    ranges = AbortedRanges(run.aborted)
    return Region(
        *read, ranges, begin, end, lambda batch, reason: damage_in(run.file_of(batch), reason)
    )


def _damage_in(found: FileSlice, batch: Batch, reason: str) -> CorruptionError:
    return damage_in(found, reason)


def _read_in_tier(broker: Broker, partition: Partition, offset: int) -> "TierRead":
    """Under the log's lock: a read to be performed without it."""
    read = broker.fetches.tier_read(partition, offset)
    if read is None:
        raise UserError(
            f"{partition.topic}-{partition.index}: offset {offset} is in a remote tier; open the "
            f"log with the settings of the tier, {TIER_SETTINGS}"
        )
    read.max_size = READ_SIZE
    return read


def perform(log: "Log", read: "TierWork") -> None:
    """Reads the tier in this thread. Raises as `TierWork.perform` does."""
    from ottla.broker.records.tier_reads import TierNotReadyError

    try:
        read.perform(log.looking)
    except TierNotReadyError:
        # The ticker reads the list of uploads, which this thread would wait for.
        while log.hold(_read_metadata):
            pass
        read.perform(log.looking)


def _read_metadata(broker: Broker, at: Timestamps) -> bool:
    return broker.remote_logs is not None and broker.remote_logs.metadata.advance(at)


def stable_ends(log: "Log", topic: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
    """By partition the last stable offset."""
    with log.looking():
        there = log.find_topic(topic).partitions
        wanted = sorted(there) if partitions is None else check_partitions(partitions)
        return {index: log.find_partition(topic, index).log.last_stable_offset for index in wanted}


def wait_for_records(log: "Log", topic: str, offsets: Mapping[int, int], seconds: float) -> bool:
    """Whether something was committed at or after offsets, or is within `seconds`."""
    offsets = check_partition_offsets(offsets)
    with log.looking():
        for index in offsets:
            log.find_partition(topic, index)
    query = FetchQuery(
        [PartitionQuery(topic, index, offset, 1) for index, offset in offsets.items()],
        1,
        isolation=Isolation.LAST_STABLE,
    )
    until_ms = log.environment.clock.monotonic_ms() + 1000 * check_seconds(seconds)

    def ask(broker: Broker, at: Timestamps) -> tuple[Broker, Any]:
        query.begun_ms, query.tier = at.monotonic_ms, None
        found = broker.fetches.fetch_or_wait(query, until_ms)
        if isinstance(found, Waiting):
            log.pending.enter(found)
        return broker, found

    while True:
        broker, found = log.hold(ask)
        if isinstance(found, Waiting):
            log.wait_for(found, broker)
            found = found.result
        if found is not None:  # Otherwise an interrupted call replaced the broker.
            return bool(found.answers(query))
