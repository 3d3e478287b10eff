"""`ConsumerRecord`, and batches as lists of them."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.bulk.fetching import aborted_in
from ottla.client.bulk.reading import Fetched
from ottla.client.consumer.deserializers import Deserialize
from ottla.record.batch import Batch, InvalidBatchError, TimestampType, iter_batches
from ottla.record.field_lists import FieldLists, field_lists
from ottla.record.record import Headers


class ConsumerRecord(NamedTuple):
    """A record with its topic, partition and offset. `timestamp` is in milliseconds, -1 if there is
    none.

    >>> consumer.assign({("orders", 0): 0})
    >>> record = consumer.poll(timeout=10)
    >>> record.topic, record.partition, record.offset, record.key, record.value
    ('orders', 0, 0, b'table 1', b'tea')
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType | None
    key: Any
    """Bytes, or the result of the key's deserializer; `None` for null."""
    value: Any
    """Likewise for the value; `None` is a tombstone."""
    headers: Headers
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's partition.

        >>> consumer.assign({("orders", 0): 0})
        >>> consumer.poll(timeout=10).topic_partition
        TopicPartition(topic='orders', partition=0)
        """
        return TopicPartition(self.topic, self.partition)


_new: Callable[[tuple[Any, ...]], ConsumerRecord] = partial(tuple.__new__, ConsumerRecord)


class CorruptBatchError(UserError):
    """A batch does not match its checksum, or its records are invalid.

    `next_offset` is where to seek to read what follows in the `partition`; `None` if that is
    unknown.
    """

    def __init__(self, place: TopicPartition, batch: Batch | None, reason: str) -> None:
        where = f" in the batch at offset {batch.base_offset}" if batch is not None else ""
        fix = f"; seek to {batch.next_offset} to read what follows" if batch is not None else ""
        super().__init__(f"{place}{where}: {reason}{fix}")
        self.partition = place
        self.next_offset = batch.next_offset if batch is not None else None


class DeserializationError(UserError):
    """The deserializer cannot read a key or a value: that of the record at `offset` of `partition`.

    Every call raises it again until the consumer seeks elsewhere; records of other partitions wait.
    The deserializer's own error is its `__cause__`. To skip the record:

    >>> with ottla.Consumer(log, value_deserializer="json") as reader:
    ...     reader.assign({("orders", 1): 0})
    ...     try:
    ...         reader.poll(timeout=10)
    ...     except ottla.DeserializationError as error:
    ...         reader.seek(error.partition, error.offset + 1)
    ...         print(error.partition, error.offset)
    orders-1 0
    """

    def __init__(self, place: TopicPartition, offset: int, what: str, reason: Exception) -> None:
        super().__init__(
            f"{place}: the {what} of the record at offset {offset} is not readable: "
            f"{_words(reason)}; "
            f"seek to {offset + 1} to skip it"
        )
        self.partition = place
        self.offset = offset


def _words(reason: Exception) -> str:
    """Its text in one line; of a missing key that is the key alone, and others may have none."""
    text = " ".join(str(reason).split())
    is_text = text and not isinstance(reason, LookupError)
    return text if is_text else f"{type(reason).__name__}: {text}".removesuffix(": ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Decodes batches into records."""

    key: Deserialize | None = None
    value: Deserialize | None = None
    check_crcs: bool = True

    def records(
        self, place: TopicPartition, fetched: Fetched, from_offset: int
    ) -> Iterator[list[ConsumerRecord]]:
        """The records from an offset on, in lists, without control records and aborted ones.

        Raises `CorruptBatchError` and `DeserializationError`.
        """
        failed: list[tuple[Batch | None, InvalidBatchError]] = []
        try:
            for lists in field_lists(self._batches(fetched, from_offset, failed)):
                first, end = bisect_left(lists.offsets, from_offset), len(lists.offsets)
                if first < end:
                    wanted = lists.part(first, end) if first else lists
                    yield from self._up_to_failure(place, wanted)
        except InvalidBatchError as error:
            raise CorruptBatchError(place, None, str(error)) from error
        if failed:
            batch, reason = failed[0]
            raise CorruptBatchError(place, batch, str(reason)) from reason

    def _batches(
        self,
        fetched: Fetched,
        from_offset: int,
        failed: list[tuple[Batch | None, InvalidBatchError]],
    ) -> Iterator[Batch]:
        """Yields batches up to the first damaged one, which is then in `failed`."""
        is_aborted = aborted_in(fetched) if fetched.aborted else None
        batch: Batch | None = None
        try:
            for batch in iter_batches(fetched.records):
                # An aborted transaction may begin in a batch before the offset.
                if is_aborted is not None and is_aborted(batch):
                    continue
                if batch.is_control or batch.last_offset < from_offset:
                    continue
                if self.check_crcs:
                    batch.check()
                yield batch
        except InvalidBatchError as error:
            failed.append((batch, error))

    def _up_to_failure(
        self, place: TopicPartition, lists: FieldLists
    ) -> Iterator[list[ConsumerRecord]]:
        """Yields also what precedes a record that cannot be deserialized, and then raises."""
        try:
            made = self._made(place, lists)
        except DeserializationError as error:
            if end := bisect_left(lists.offsets, error.offset):
                yield from self._up_to_failure(place, lists.part(0, end))
            raise
        yield made

    def _made(self, place: TopicPartition, lists: FieldLists) -> list[ConsumerRecord]:
        keys, values = lists.keys, lists.values
        if self.key is not None:
            keys = _deserialized(self.key, keys, "key", place, lists.offsets)
        if self.value is not None:
            values = _deserialized(self.value, values, "value", place, lists.offsets)
        rows = zip(
            repeat(place.topic),
            repeat(place.partition),
            lists.offsets,
            lists.timestamps_ms,
            lists.timestamp_types,
            keys,
            values,
            lists.headers,
            lists.leader_epochs,
            strict=False,
        )
        return list(map(_new, rows))


def _deserialized(
    deserialize: Deserialize,
    fields: list[bytes | None],
    what: str,
    place: TopicPartition,
    offsets: list[int],
) -> list[Any]:
    found: list[Any] = []
    try:
        for one in fields:
            found.append(None if one is None else deserialize(one))
    except Exception as error:
        raise DeserializationError(place, offsets[len(found)], what, error) from error
    return found
