"""Creates a compaction plan from an open log; carrying it out does not need the log."""

from collections.abc import Collection

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.storage.compaction.cleanable import Cleanable
from ottla.storage.compaction.compaction import CompactionPlan
from ottla.storage.compaction.grouping import GroupLimits, SegmentSource
from ottla.storage.compaction.offset_map import SLOT
from ottla.storage.compaction.verdict import LastRecord
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.segment.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class MapMemory:
    """Memory for the keys of one pass in bytes, and how full the map may get (0 to 1)."""

    size: int
    load_factor: float


def plan_compaction(
    log: PartitionLog,
    range_: Cleanable,
    file_system: FileSystem,
    memory: MapMemory,
    *,
    now_ms: int,
    damaged: Collection[int] = (),
) -> CompactionPlan:
    """Plans a pass; `damaged` are the base offsets of segments that could not be read."""
    segments = [one for one in log.segments.values if one.base_offset < range_.end_offset]
    assert segments, "there is nothing to compact"
    config = log.config
    cleaned = [one for one in segments if one.base_offset < range_.first_dirty_offset]
    old_horizon_ms = 0
    if cleaned:
        old_horizon_ms = _modified_ms(cleaned[-1], file_system) - config.delete_retention_ms
    return CompactionPlan(
        directory=log.directory,
        sources=tuple(_source(one, file_system, one.base_offset in damaged) for one in segments),
        first_dirty_offset=range_.first_dirty_offset,
        end_offset=range_.end_offset,
        limits=GroupLimits(
            segment_bytes=config.segment_bytes, segment_index_bytes=config.segment_index_bytes
        ),
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        old_horizon_ms=old_horizon_ms,
        now_ms=now_ms,
        map_bytes=_map_bytes(memory, range_),
        load_factor=memory.load_factor,
        last_records=last_records(log.producers),
        aborted=tuple(log.reader.aborted_transactions(segments[0].base_offset, range_.end_offset)),
    )


def _map_bytes(memory: MapMemory, range_: Cleanable) -> int:
    """The size of the map in bytes, at most one key for each offset of the dirty range."""
    keys = range_.end_offset - range_.first_dirty_offset
    needed = (int(keys / memory.load_factor) + 1) * SLOT.size if memory.load_factor else 0
    return min(memory.size, needed)


def last_records(producers: ProducerState) -> dict[int, LastRecord]:
    """The last record of each active producer (Kafka: `lastRecordsOfActiveProducers`)."""
    return {
        producer_id: LastRecord(
            data_offset=one.last_offset if (one := entry.last_batch) else None,
            epoch=entry.epoch,
        )
        for producer_id, entry in producers.entries.items()
    }


def _source(segment: Segment, file_system: FileSystem, is_damaged: bool) -> SegmentSource:
    return SegmentSource(
        base_offset=segment.base_offset,
        size=segment.log.written_size,
        offset_index_size=segment.offset_index.size,
        time_index_size=segment.time_index.size,
        modified_ms=_modified_ms(segment, file_system),
        is_damaged=is_damaged,
    )


def _modified_ms(segment: Segment, file_system: FileSystem) -> int:
    status = file_system.status(segment.log.path)
    return status.modified_ms if status else 0
