"""When the active segment is full: a decision on values, without files.

Kafka's counterpart: `LogSegment.shouldRoll` and `RollParams`.
"""

from enum import Enum
from typing import Protocol

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX


class RollReason(Enum):
    SIZE = "segment.bytes would be exceeded"
    TIME = "segment.ms has passed since the first batch"
    OFFSET_INDEX_FULL = "the offset index is full"
    TIME_INDEX_FULL = "the time index is full"
    RELATIVE_OFFSET = "the offset lies too far from the base offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollLimits:
    """What the topic's settings allow; `segment_ms` has its jitter already taken off."""

    segment_bytes: int
    segment_ms: int


class RollCandidate(Protocol):
    """What is asked of the active segment."""

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
    """Why a new segment must be made before this append; `None` when it fits.

    `waited_ms` is the segment's age by `time_waited_ms`.
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
    """A segment's age: by its records' own time where they carry one, else by the clock.

    `first_timestamp_ms` and `append_timestamp_ms` are -1 where there is none. Kafka:
    `LogSegment.timeWaitedForRoll`.
    """
    if first_timestamp_ms >= 0:
        return append_timestamp_ms - first_timestamp_ms
    return now_ms - created_ms
