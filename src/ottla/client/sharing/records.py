"""`ShareRecord`, and what was acquired of fetched batches.

A broker sends whole record batches, and says which of their offsets it has locked for this member:
the other records are left out, and locked offsets without a record are gaps, which the client
acknowledges itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.bulk.reading import Fetched
from ottla.client.consumer.records import (
    ConsumerRecord,
    CorruptBatchError,
    Decoding,
    DeserializationError,
)
from ottla.coordinator.share.records_in_flight import AcquiredRange
from ottla.record.batch import TimestampType
from ottla.record.record import Headers


class ShareRecord(NamedTuple):
    """A record that is locked for this member of a share group: a `ConsumerRecord` that knows how
    often it was delivered, this time included.

    >>> record = share_consumer.poll(timeout=10)
    >>> record.topic, record.partition, record.offset, record.value, record.delivery_count
    ('jobs', 0, 0, b'cut', 1)
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970; -1 if there is none."""
    timestamp_type: TimestampType | None
    key: Any
    """Bytes, or the result of the key's deserializer; `None` for null."""
    value: Any
    """Likewise for the value; `None` is a tombstone."""
    headers: Headers
    leader_epoch: int
    delivery_count: int
    """1 for the first delivery. Brokers count up to the group's `share.delivery.count.limit`."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's partition.

        >>> share_consumer.poll(timeout=10).topic_partition
        TopicPartition(topic='jobs', partition=0)
        """
        return TopicPartition(self.topic, self.partition)


_new: Callable[[tuple[Any, ...]], ShareRecord] = partial(tuple.__new__, ShareRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Offsets whose records cannot be returned, and the error that says why."""

    offsets: Sequence[int]
    error: UserError
    is_damaged: bool
    """Whether the batch is damaged, which no other member reads either."""


class Decoded(NamedTuple):
    """What was acquired, in order; `gaps` are offsets that have no record."""

    parts: list[list[ShareRecord] | Unreadable]
    gaps: list[int]


def decode(
    decoding: Decoding,
    place: TopicPartition,
    records: memoryview,
    acquired: Sequence[AcquiredRange],
) -> Decoded:
    """Records of acquired offsets only; errors are parts of the result."""
    counts = {
        offset: one.delivery_count for one in acquired for offset in range(one.first, one.last + 1)
    }
    parts = list(_parts(decoding, place, records, counts))
    for part in parts:
        offsets = part.offsets if isinstance(part, Unreadable) else [one.offset for one in part]
        for one in offsets:
            del counts[one]
    return Decoded(parts, list(counts))


def _parts(
    decoding: Decoding, place: TopicPartition, records: memoryview, counts: Mapping[int, int]
) -> Iterator[list[ShareRecord] | Unreadable]:
    fetched = Fetched(
        records=records, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1
    )
    offset: int | None = min(counts, default=0)
    while offset is not None:
        try:
            for some in decoding.records(place, fetched, offset):
                if acquired := list(_acquired(some, counts)):
                    yield acquired
                offset = some[-1].offset + 1
            return
        except DeserializationError as error:
            offset = error.offset + 1
            if error.offset in counts:
                yield Unreadable(offsets=[error.offset], error=error, is_damaged=False)
        except CorruptBatchError as error:
            end = error.next_offset
            lost = [one for one in counts if one >= offset and (end is None or one < end)]
            offset = end
            if lost:
                yield Unreadable(offsets=lost, error=error, is_damaged=True)


def _acquired(some: Iterable[ConsumerRecord], counts: Mapping[int, int]) -> Iterator[ShareRecord]:
    for one in some:
        count = counts.get(one.offset)
        if count is not None:
            yield _new((*one, count))
