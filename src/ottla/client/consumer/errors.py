"""Errors that an application must resolve before the consumer can continue."""

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition


class ClosedError(UserError):
    """The consumer is closed."""


class CommitFailedError(UserError):
    """The partitions were assigned to another member, which reads their records again.

    >>> with ottla.Consumer(log, group="cooks") as consumer:
    ...     consumer.subscribe(["orders"])
    ...     records = consumer.consume(4, timeout=1.0)
    ...     try:
    ...         consumer.commit()
    ...     except ottla.CommitFailedError:
    ...         records = []  # What they led to is taken back.
    """


class LogTruncatedError(UserError):
    """A new leader's log was truncated below what has been read, and auto.offset.reset=none.

    Seek to continue; `end_offset` is where the records that replaced the lost ones begin.
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
