"""Explains what the cleaner would do with a log, segment by segment, and what prevents it.

`cleanable` decides; this module only reports its decision. `read_view` reads the facts from a
directory's files without its lock, also while a broker is running. Kafka has no counterpart.
"""

from enum import Enum

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.compaction.cleanable import (
    Bound,
    Cleanable,
    LogToClean,
    SegmentToClean,
    cleanable,
    floor_of,
)
from ottla.storage.diagnosis.retention_explanation import SegmentOnDisk
from ottla.storage.reading.read_only_log import ReadOnlyLog


class SegmentState(Enum):
    """The state of a segment for the cleaner; the value is the name in `--json`."""

    CLEAN = "clean"
    DIRTY = "dirty"
    """A pass that begins now would compact the segment."""
    UNCLEANABLE = "uncleanable"
    """The segment is after the end of the cleanable range."""
    ACTIVE = "active"


class Waits(Enum):
    """Why no pass begins now."""

    POLICY = "policy"
    """`cleanup.policy` is without `compact`."""
    NOTHING_DIRTY = "nothing_dirty"
    """Everything that may be compacted is already compacted."""
    RATIO = "ratio"
    """The dirty ratio is too low, and no record has waited longer than `max.compaction.lag.ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSegment:
    """A segment with its state.

    `next_offset` is the segment's end. `waits_until_ms` is the time at which
    `min.compaction.lag.ms` has passed, if only that prevents compaction.
    """

    view: SegmentToClean
    next_offset: int
    state: SegmentState
    waits_until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionExplanation:
    """`waits` is `None` when a pass is due."""

    log: LogToClean
    config: TopicConfig
    range: Cleanable
    waits: Waits | None
    segments: list[ExplainedSegment]

    @property
    def bytes_missing(self) -> int:
        """The bytes that must still become cleanable until the dirty ratio starts a pass."""
        wanted = self.config.min_cleanable_dirty_ratio
        clean, dirty = self.range.clean_bytes, self.range.cleanable_bytes
        if wanted >= 1 or not clean:
            return 0 if dirty else 1
        return max(0, int(wanted * clean / (1 - wanted)) + 1 - dirty)


def explain(log: LogToClean, config: TopicConfig, now_ms: int) -> CompactionExplanation:
    """Explains what the cleaner would do with a log now."""
    range_ = cleanable(log, config, now_ms)
    ends = [*(one.base_offset for one in log.segments[1:]), log.log_end_offset]
    first_dirty = floor_of(log, min(range_.first_dirty_offset, range_.end_offset))
    return CompactionExplanation(
        log=log,
        config=config,
        range=range_,
        waits=_waits(range_, config),
        segments=[
            ExplainedSegment(
                view=one,
                next_offset=end,
                state=_state(one, log, range_, first_dirty),
                waits_until_ms=_waits_until_ms(one, log, range_, config),
            )
            for one, end in zip(log.segments, ends, strict=True)
        ],
    )


def _waits(range_: Cleanable, config: TopicConfig) -> Waits | None:
    if not config.is_compacted:
        return Waits.POLICY
    if range_.is_due(config):
        return None
    return Waits.RATIO if range_.cleanable_bytes else Waits.NOTHING_DIRTY


def _state(
    segment: SegmentToClean, log: LogToClean, range_: Cleanable, first_dirty: int
) -> SegmentState:
    if segment is log.segments[-1]:
        return SegmentState.ACTIVE
    if segment.base_offset < first_dirty:
        return SegmentState.CLEAN
    is_inside = segment.base_offset < range_.end_offset
    return SegmentState.DIRTY if is_inside else SegmentState.UNCLEANABLE


def _waits_until_ms(
    segment: SegmentToClean, log: LogToClean, range_: Cleanable, config: TopicConfig
) -> int | None:
    is_bound = range_.bound is Bound.MIN_COMPACTION_LAG and segment.base_offset >= range_.end_offset
    if not is_bound or segment is log.segments[-1]:
        return None
    return segment.largest_timestamp_ms + config.min_compaction_lag_ms


# From files


def read_view(log: ReadOnlyLog, cleaned_until: int | None, file_system: FileSystem) -> LogToClean:
    """The facts about a log; a replicated log is stable at most up to its high watermark.

    Raises `OSError` and `UserError`.
    """
    stable = log.transactions.last_stable_offset
    if log.directory.is_replicated:
        stable = min(stable, log.offsets.high_watermark)
    return LogToClean(
        segments=[
            _segment(SegmentOnDisk(file_system, files, is_active=files == log.segments[-1]))
            for files in log.segments
        ],
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=stable,
        # Not the recovery point, whose checkpoint lags: a running broker flushes a rolled segment
        # within seconds.
        flushed_until=log.log_end_offset,
        cleaned_until=cleaned_until,
    )


def _segment(segment: SegmentOnDisk) -> SegmentToClean:
    return SegmentToClean(
        base_offset=segment.base_offset,
        size=segment.size,
        largest_timestamp_ms=segment.time().timestamp_ms,
        first_timestamp_ms=segment.first_timestamp_ms(),
    )
