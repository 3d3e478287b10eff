"""What became of acknowledgements, and the errors of those that failed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition

SHOWN_COUNT = 3


class AcknowledgementResult(NamedTuple):
    """What a broker answered to acknowledgements of one partition; `error` is Kafka's code, NONE if
    they are in effect.

    INVALID_RECORD_STATE: the records were this member's no more, since their locks had expired.

    >>> results = []
    >>> with ottla.ShareConsumer(log, "workers", on_acknowledged=results.append) as consumer:
    ...     consumer.subscribe("jobs")
    ...     consumer.accept(consumer.poll(timeout=10))
    ...     consumer.commit()
    >>> results[0].offsets, results[0].error.name
    ([0], 'NONE')
    """

    partition: TopicPartition
    offsets: list[int]
    error: ErrorCode


class AcknowledgementError(UserError):
    """Acknowledgements that are not in effect: `results` says which, and why. Other members get
    these records, or have got them already.

    >>> try:
    ...     share_consumer.commit()
    ... except ottla.AcknowledgementError as error:
    ...     for result in error.results:
    ...         print(result.partition, result.offsets, result.error.name)
    """

    def __init__(self, results: Iterable[AcknowledgementResult]) -> None:
        self.results = tuple(results)
        shown = [f"{one.partition} {_ranges(one.offsets)}" for one in self.results[:SHOWN_COUNT]]
        more = len(self.results) - len(shown)
        text = ", ".join(shown) + (f" and {more} more" if more else "")
        codes = {one.error for one in self.results}
        super().__init__(f"acknowledgements are not in effect: {text}: {_reasons(codes)}")


class LockLostError(AcknowledgementError):
    """The same where all records were this consumer's no more: their locks had expired, or their
    partition has another leader. They are delivered again, perhaps to another member.

    >>> record = share_consumer.poll(timeout=10)
    >>> share_consumer.accept(record)
    >>> try:
    ...     share_consumer.release(record)
    ... except ottla.LockLostError as error:
    ...     print(error.results[0].offsets)
    [0]
    """


LOST = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.NOT_LEADER_OR_FOLLOWER})


def error_of(results: Sequence[AcknowledgementResult]) -> AcknowledgementError | None:
    """The error of those that are not in effect, if any."""
    failed = [one for one in results if one.error is not ErrorCode.NONE]
    if not failed:
        return None
    is_lost = all(one.error in LOST for one in failed)
    return LockLostError(failed) if is_lost else AcknowledgementError(failed)


def _reasons(codes: set[ErrorCode]) -> str:
    if codes == {ErrorCode.INVALID_RECORD_STATE}:
        return (
            "their locks had expired, or something else was said of them; take fewer records at "
            "once (max.poll.records), renew locks, or raise the group's "
            "share.record.lock.duration.ms"
        )
    return "; ".join(f"{one.name}: {one.description}" for one in sorted(codes))


def _ranges(offsets: Sequence[int]) -> str:
    if len(offsets) == 1:
        return f"offset {offsets[0]}"
    return f"offsets {offsets[0]} to {offsets[-1]}"
