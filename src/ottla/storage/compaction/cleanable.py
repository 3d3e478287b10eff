"""Decides from values how much of a log can be compacted, and whether a pass is due.

Kafka's counterparts: `LogCleanerManager.cleanableOffsets`, `maxCompactionDelay`, `LogToClean`.
"""

from collections.abc import Sequence
from enum import Enum

from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.segment import Segment


class Bound(Enum):
    """The reason why the uncleanable part begins where it does."""

    LAST_STABLE_OFFSET = "an open transaction holds the last stable offset"
    ACTIVE_SEGMENT = "the active segment is never compacted"
    MIN_COMPACTION_LAG = "min.compaction.lag.ms has not passed"
    NOT_FLUSHED = "the flush of an ended segment is under way"
    DAMAGED = "a segment cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentToClean:
    """The facts about a segment that these decisions need; -1 for no timestamp."""

    base_offset: int
    size: int
    largest_timestamp_ms: int
    first_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """The facts about a log that these decisions need; the active segment is the last of
    `segments`.
    """

    segments: Sequence[SegmentToClean]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    flushed_until: int
    """The recovery point. If an unflushed segment lost its end, the hole would look like a gap of
    compaction."""
    cleaned_until: int | None
    """The checkpointed first dirty offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """Offsets from `first_dirty_offset` to `end_offset` could be compacted now.

    `end_offset` is the base offset of a segment; `bound` is the reason why it is not later. `ratio`
    is the dirty share of the bytes to read. `forced_ms` is the time at which a record has waited
    for `max.compaction.lag.ms`, `None` if no record waits; `overdue_ms` is the time since then.
    `is_checkpoint_wrong` says that the cleaner's checkpoint does not match the log.
    """

    first_dirty_offset: int
    end_offset: int
    bound: Bound
    clean_bytes: int
    cleanable_bytes: int
    forced_ms: int | None
    overdue_ms: int
    is_checkpoint_wrong: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        """Whether the log is worth compacting now."""
        if self.overdue_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > config.min_cleanable_dirty_ratio


def log_to_clean(log: PartitionLog, cleaned_until: int | None) -> LogToClean:
    return LogToClean(
        segments=[_segment_to_clean(one) for one in log.segments.values],
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        flushed_until=log.offsets.recovery_point,
        cleaned_until=cleaned_until,
    )


def _segment_to_clean(segment: Segment) -> SegmentToClean:
    return SegmentToClean(
        base_offset=segment.base_offset,
        size=segment.size,
        largest_timestamp_ms=segment.largest_timestamp_ms(),
        first_timestamp_ms=segment.first_timestamp_ms,
    )


def cleanable(log: LogToClean, config: TopicConfig, now_ms: int) -> Cleanable:
    """Returns the range of offsets that can be compacted now."""
    first_dirty, is_wrong = _first_dirty_offset(log)
    uncleanable, bound = _first_uncleanable_offset(log, config, first_dirty, now_ms)
    # A segment is compacted whole or not at all.
    end = max(
        (one.base_offset for one in log.segments if one.base_offset <= uncleanable),
        default=log.segments[0].base_offset,
    )
    if is_wrong:
        first_dirty = min(first_dirty, end)
    dirty_from = floor_of(log, first_dirty)
    cleanable_from = floor_of(log, min(first_dirty, end))
    forced_ms = _forced_ms(log, config, first_dirty)
    return Cleanable(
        first_dirty_offset=first_dirty,
        end_offset=end,
        bound=bound,
        clean_bytes=sum(one.size for one in log.segments if one.base_offset < dirty_from),
        cleanable_bytes=sum(
            one.size for one in log.segments if cleanable_from <= one.base_offset < end
        ),
        forced_ms=forced_ms,
        overdue_ms=0 if forced_ms is None else max(0, now_ms - forced_ms),
        is_checkpoint_wrong=is_wrong,
    )


def _first_dirty_offset(log: LogToClean) -> tuple[int, bool]:
    """The first dirty offset, and whether the checkpoint does not match the log.

    If it does not, the whole log is dirty.
    """
    cleaned_until = log.cleaned_until
    if cleaned_until is None:
        return log.log_start_offset, False
    if log.log_start_offset <= cleaned_until <= log.log_end_offset:
        return cleaned_until, False
    return log.log_start_offset, True


def _first_uncleanable_offset(
    log: LogToClean, config: TopicConfig, first_dirty: int, now_ms: int
) -> tuple[int, Bound]:
    active = log.segments[-1].base_offset
    offset, bound = active, Bound.ACTIVE_SEGMENT
    if log.last_stable_offset < offset:
        offset, bound = log.last_stable_offset, Bound.LAST_STABLE_OFFSET
    if log.flushed_until < offset:
        offset, bound = log.flushed_until, Bound.NOT_FLUSHED
    lag_ms = config.min_compaction_lag_ms
    if lag_ms > 0:
        dirty_from = floor_of(log, first_dirty)
        for one in log.segments:
            is_dirty = dirty_from <= one.base_offset < active
            if is_dirty and one.largest_timestamp_ms > now_ms - lag_ms:
                if one.base_offset < offset:
                    return one.base_offset, Bound.MIN_COMPACTION_LAG
                break
    return offset, bound


def _forced_ms(log: LogToClean, config: TopicConfig, first_dirty: int) -> int | None:
    dirty_from = floor_of(log, first_dirty)
    times = [
        one.first_timestamp_ms
        for one in log.segments[:-1]
        if one.base_offset >= dirty_from and one.first_timestamp_ms > 0
    ]
    return min(times) + config.max_compaction_lag_ms if times else None


def floor_of(log: LogToClean, offset: int) -> int:
    """The base offset of the segment that covers an offset."""
    found = log.segments[0].base_offset
    for one in log.segments:
        if one.base_offset > offset:
            break
        found = one.base_offset
    return found
