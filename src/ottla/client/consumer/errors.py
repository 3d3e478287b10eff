"""What an application must decide, and cannot go on without."""

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition


class ClosedError(UserError):
    """The consumer is closed."""


class CommitFailedError(UserError):
    """The partitions are another member's by now, which reads their records once more."""


class LogTruncatedError(UserError):
    """A new leader's log was cut below what has been read, and auto.offset.reset=none.

    Continue with a seek, at `end_offset` for all records that have taken their places.
    """

    def __init__(self, place: TopicPartition, end_offset: int, position: int) -> None:
        super().__init__(
            f"{place}: the log was truncated to offset {end_offset}, below offset {position} that "
            f"was read, and auto.offset.reset=none; seek to {end_offset} to continue there"
        )
        self.partition = place
        self.end_offset = end_offset


class NoOffsetError(UserError):
    """A partition has no committed offset, and auto.offset.reset=none."""
