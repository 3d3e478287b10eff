"""Decides when the active segment is full, from values alone.

Kafka's counterpart: `LogSegment.shouldRoll` and `RollParams`.
"""

from enum import Enum
from typing import Protocol

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX


class RollReason(Enum):
    """Why a new segment is needed."""

    SIZE = "segment.bytes would be exceeded"
    TIME = "segment.ms has passed since the first batch"
    OFFSET_INDEX_FULL = "the offset index is full"
    TIME_INDEX_FULL = "the time index is full"
    RELATIVE_OFFSET = "the offset is too far from the base offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollLimits:
    """The limits in the topic's settings; `segment_ms` has its jitter subtracted."""

    segment_bytes: int
    segment_ms: int


class RollCandidate(Protocol):
    """The facts needed about the active segment."""

    base_offset: int

    @property
    def size(self) -> int: ...

    @property
    def is_offset_index_full(self) -> bool: ...

    @property
    def is_time_index_full(self) -> bool: ...


def roll_reason(
    active: RollCandidate,
    limits: RollLimits,
    waited_ms: int,
    append_size: int,
    append_last_offset: int,
) -> RollReason | None:
    """Why this append needs a new segment; `None` if it fits into the active one.

    `waited_ms` is the segment's age by `time_waited_ms`, `append_size` is in bytes.
    """
    size = active.size
    if size > limits.segment_bytes - append_size:
        return RollReason.SIZE
    if size > 0 and waited_ms > limits.segment_ms:
        return RollReason.TIME
    if active.is_offset_index_full:
        return RollReason.OFFSET_INDEX_FULL
    if active.is_time_index_full:
        return RollReason.TIME_INDEX_FULL
    if not 0 <= append_last_offset - active.base_offset <= INT32_MAX:
        return RollReason.RELATIVE_OFFSET
    return None


def time_waited_ms(
    now_ms: int, created_ms: int, first_timestamp_ms: int, append_timestamp_ms: int
) -> int:
    """A segment's age by its records' timestamps, or by the clock if its first batch has none.

    `first_timestamp_ms` and `append_timestamp_ms` are -1 without a timestamp. Kafka:
    `LogSegment.timeWaitedForRoll`.
    """
    if first_timestamp_ms >= 0:
        return append_timestamp_ms - first_timestamp_ms
    return now_ms - created_ms
