"""Errors that an application must resolve before the consumer can continue."""

from collections.abc import Iterable

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition


class ClosedError(UserError):
    """The consumer is closed.

    >>> consumer.close()
    >>> consumer.poll()
    Traceback (most recent call last):
    ottla.client.consumer.errors.ClosedError: ...
    """


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

    Seek to continue; `end_offset` is where the records that replaced the lost ones begin in the
    `partition`.
    """

    def __init__(self, place: TopicPartition, end_offset: int, position: int) -> None:
        super().__init__(
            f"{place}: the log was truncated to offset {end_offset}, below offset {position} that "
            f"was read, and auto.offset.reset=none; seek to {end_offset} to continue there"
        )
        self.partition = place
        self.end_offset = end_offset


class NoOffsetError(UserError):
    """No offset to begin at in `partitions`, or one out of range, and auto.offset.reset=none.

    >>> settings = {"auto.offset.reset": "none"}
    >>> with ottla.Consumer(log, "tellers", settings=settings) as reader:
    ...     reader.subscribe("orders")
    ...     try:
    ...         reader.consume(1, timeout=10)
    ...     except ottla.NoOffsetError as error:
    ...         reader.seek_to_beginning(*error.partitions)
    """

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = tuple(sorted(partitions))
        super().__init__(
            f"{', '.join(map(str, self.partitions))}: there is no offset to start from, and "
            "auto.offset.reset=none; seek to one, or set it to earliest or latest"
        )
