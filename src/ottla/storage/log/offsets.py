"""The offsets of a log, the order that they keep, and what is searched for by a timestamp.

Kafka's counterpart: the fields of `UnifiedLog` and `LocalLog`.
"""

from enum import Enum
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.values import dataclass

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_TIMESTAMP: Final = -6

KNOWN_WITHOUT_TIMES: Final = (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    EARLIEST_PENDING_TIMESTAMP,
)


class Isolation(Enum):
    """The offset up to which a reader may read (Kafka: `FetchIsolation`)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE = "last stable offset"


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The result of a search by timestamp; a field is -1 where Kafka has none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class OffsetInTierError(ApiError):
    """An offset that a log has, but no longer its local segments: it is in the tier."""


class LogOffsets:
    """`log_start_offset <= local_start_offset <= high_watermark <= log_end_offset`, always.

    `log_start_offset` is the first readable offset and `log_end_offset` the next offset to be
    written. The local segments have the offsets from `local_start_offset` on; in a log without a
    tier it is the log start. Consumers read up to `high_watermark`, with `read_committed` up to
    `last_stable_offset`, where the first undecided transaction begins. `recovery_point` is the
    first offset that may not be durable.
    """

    __slots__ = (
        "cut_count",
        "first_unstable_offset",
        "high_watermark",
        "highest_remote_offset",
        "is_front_unsynced",
        "local_start_offset",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
    )

    def __init__(
        self,
        *,
        log_start_offset: int,
        local_start_offset: int | None = None,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.log_start_offset = log_start_offset
        self.local_start_offset = (
            log_start_offset if local_start_offset is None else local_start_offset
        )
        self.log_end_offset = log_end_offset
        # Only committed records go to the tier, and only what is there leaves the local segments.
        self.high_watermark = self.local_start_offset
        self.highest_remote_offset = -1
        """The last offset that is known to be in the tier; -1 if none is known."""
        self.first_unstable_offset: int | None = None
        self.recovery_point = recovery_point
        self.cut_count = 0
        """How often the log was truncated at its end, which makes earlier knowledge of it void."""
        self.is_front_unsynced = False
        """Whether a crash could bring back segments that were deleted before the log start."""
        self.check()

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def check(self) -> None:
        """Asserts the order; called after every change."""
        # `last_stable_offset` is in order by its definition.
        assert 0 <= self.log_start_offset <= self.local_start_offset
        assert self.local_start_offset <= self.high_watermark <= self.log_end_offset

    def appended(self, log_end_offset: int) -> None:
        assert log_end_offset >= self.log_end_offset
        self.log_end_offset = log_end_offset

    def move_high_watermark(self, offset: int) -> None:
        """Moves the high watermark forward, at most to the log's end; never back."""
        end = self.log_end_offset
        clipped = offset if offset < end else end
        if clipped > self.high_watermark:
            self.high_watermark = clipped
        self.check()

    def move_log_start(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.high_watermark
        self.log_start_offset = offset
        self.local_start_offset = max(self.local_start_offset, offset)
        self.recovery_point = max(self.recovery_point, offset)
        self.check()

    def move_local_start(self, offset: int) -> None:
        """Moves the start of the local segments forward; what is before it is in the tier."""
        # No checkpoint has this start: a crash may bring segments before it back. So the recovery
        # point stays, and a start after a crash checks them.
        assert self.local_start_offset <= offset <= self.high_watermark
        self.local_start_offset = offset
        self.check()

    def begin_in_tier(self, log_start_offset: int) -> None:
        """Moves the log start back, if it is later: the tier has what is before the segments."""
        self.log_start_offset = min(self.log_start_offset, log_start_offset)
        self.check()

    def flushed(self, offset: int) -> None:
        """Moves the recovery point forward; call it only after a successful fsync."""
        assert offset <= self.log_end_offset
        self.recovery_point = max(self.recovery_point, offset)

    def truncated(self, log_end_offset: int) -> None:
        """Moves all offsets back to the log's new end after a truncation."""
        self.cut_count += 1
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.log_start_offset = min(self.log_start_offset, log_end_offset)
        self.local_start_offset = min(self.local_start_offset, log_end_offset)
        self._forget_remote(log_end_offset)
        self.check()

    def restarted(self, offset: int, log_start_offset: int | None = None) -> None:
        """Sets all offsets after the log was emptied and continues at `offset`.

        With `log_start_offset`, what is between the two is in the tier.
        """
        self.cut_count += 1
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self.local_start_offset = self.high_watermark = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._forget_remote(offset)
        self.first_unstable_offset = None
        self.check()

    def _forget_remote(self, log_end_offset: int) -> None:
        # The tier's later offsets are of another history: new records there are not in the tier.
        self.highest_remote_offset = min(self.highest_remote_offset, log_end_offset - 1)
