"""The current records of an internal topic: the last of each key, as compaction would leave it.

Kafka's counterpart: `CoordinatorLoaderImpl`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.control import parse_end_transaction_marker
from ottla.record.record import read_records

STEP_RECORDS: Final = 256
"""How many records a step of a loading takes in, which is well under a millisecond's work."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record that counts: `producer_id` is there if its transaction is still open."""

    key: bytes
    value: bytes
    offset: int
    producer_id: int | None = None


@dataclass(slots=True)
class LatestRecords:
    """The last value of each key with its offset; a transaction's count when it is committed.

    A key that comes again goes to the end, so that what is read out in steps has an order.
    """

    values: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    open: dict[int, dict[bytes, tuple[int, bytes | None]]] = field(default_factory=dict)

    def take_all(self, batches: Iterable[Batch], place: str) -> Iterator[None]:
        """In steps; raises `CorruptionError`, which names the place and the offset."""
        offset = 0
        try:
            for batch in batches:
                offset = batch.base_offset
                yield from self._take(batch)
        except InvalidBatchError as error:
            raise CorruptionError(f"{place} at offset {offset}", 0, str(error)) from error

    def _take(self, batch: Batch) -> Iterator[None]:
        if batch.is_control:
            self._end_transaction(batch)
            return
        values = self.values
        if isinstance(batch, RecordBatch) and batch.is_transactional:
            values = self.open.setdefault(batch.producer_id, {})
        for number, record in enumerate(read_records(batch), 1):
            if record.key is not None:
                values.pop(record.key, None)
                values[record.key] = (record.offset, record.value)
            if not number % STEP_RECORDS:
                yield
        yield

    def _end_transaction(self, batch: Batch) -> None:
        marker = parse_end_transaction_marker(batch)
        values = None if marker is None else self.open.pop(batch.producer_id, None)
        if values is None or marker is None or not marker.is_commit:
            return
        for key, (offset, value) in values.items():
            known = self.values.get(key)
            if known is None or known[0] < offset:
                self.values.pop(key, None)
                self.values[key] = (offset, value)

    def in_order(self) -> Iterator[StoredRecord]:
        """Those that count, and after them those of open transactions."""
        for key, (offset, value) in self.values.items():
            if value is not None:
                yield StoredRecord(key, value, offset)
        for producer_id, values in self.open.items():
            for key, (offset, value) in values.items():
                if value is not None:
                    yield StoredRecord(key, value, offset, producer_id)


def latest_records(batches: Iterable[Batch], place: str) -> Iterator[StoredRecord]:
    """What compaction would leave of a log, without the tombstones, in order of offset.

    Raises `CorruptionError`, which names the place and the offset.
    """
    latest = LatestRecords()
    for _ in latest.take_all(batches, place):
        pass
    return iter(sorted(latest.in_order(), key=lambda one: one.offset))
