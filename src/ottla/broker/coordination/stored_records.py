"""The records of an internal topic: of a compacted one the last of each key, of others all.

Kafka's counterpart: `CoordinatorLoaderImpl`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Final, Protocol

from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.control import parse_end_transaction_marker
from ottla.record.record import read_records
from ottla.storage.findings import Finding
from ottla.storage.reading.sound_batches import damage_at

STEP_RECORDS: Final = 256
"""The number of records per step of loading, which takes well under a millisecond."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A current record; `producer_id` is set if its transaction is still open."""

    key: bytes
    value: bytes
    offset: int
    producer_id: int | None = None


STEP_REPLAYED: Final = 32
"""The same where each record is applied to what others have made, over all batches: most have one.
"""


class ReadRecords(Protocol):
    """What was read of a partition."""

    @property
    def damage(self) -> list[Finding]:
        """What could not be read."""

    @property
    def keys(self) -> Iterator[bytes]:
        """The keys of all records that were read, also of deleted ones."""


class EveryRecord:
    """All records in order, each passed on as its key, its value or `None`, and its offset."""

    def __init__(self, take: Callable[[bytes, bytes | None, int], None]) -> None:
        self.damage: list[Finding] = []
        self._take = take
        self._keys: set[bytes] = set()
        self._count = 0

    @property
    def keys(self) -> Iterator[bytes]:
        return iter(self._keys)

    def take_all(self, found: Iterable[Batch | Finding], place: str) -> Iterator[None]:
        """Reads the batches of the log in the directory `place`, in steps."""
        return _read_in_steps(found, place, self._take_batch, self.damage)

    def _take_batch(self, batch: Batch) -> Iterator[None]:
        if batch.is_control:
            return
        for record in read_records(batch):
            if record.key is not None:
                self._keys.add(record.key)
                self._take(record.key, record.value, record.offset)
            self._count += 1
            if not self._count % STEP_REPLAYED:
                yield


def _read_in_steps(
    found: Iterable[Batch | Finding],
    place: str,
    take: Callable[[Batch], Iterator[None]],
    damage: list[Finding],
) -> Iterator[None]:
    for one in found:
        if isinstance(one, Finding):
            damage.append(one)
            continue
        try:
            yield from take(one)
        except InvalidBatchError as error:
            bounds = one.base_offset, one.last_offset + 1
            damage.append(damage_at(place, str(error), bounds))


@dataclass(slots=True)
class LatestRecords:
    """The last value of each key with its offset; records of transactions count once committed.

    A repeated key moves to the end, so that records are in order of their offsets. A tombstone
    removes what open transactions have written for its key before, as it does when it is written
    (`CommittedOffsets`). `open_by_key` are the producers that `open` holds a key of.
    """

    values: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    open: dict[int, dict[bytes, tuple[int, bytes | None]]] = field(default_factory=dict)
    open_by_key: dict[bytes, set[int]] = field(default_factory=dict)
    damage: list[Finding] = field(default_factory=list)
    """What could not be read."""

    def take_all(self, found: Iterable[Batch | Finding], place: str) -> Iterator[None]:
        """Reads the batches of the log in the directory `place`, in steps."""
        return _read_in_steps(found, place, self._take, self.damage)

    def _take(self, batch: Batch) -> Iterator[None]:
        if batch.is_control:
            self._end_transaction(batch)
            return
        is_transactional = isinstance(batch, RecordBatch) and batch.is_transactional
        take = self._stage if is_transactional else self._put
        for number, record in enumerate(read_records(batch), 1):
            if record.key is not None:
                take(batch, record.key, (record.offset, record.value))
            if not number % STEP_RECORDS:
                yield
        yield

    def _put(self, _: Batch, key: bytes, value: tuple[int, bytes | None]) -> None:
        self.values.pop(key, None)
        self.values[key] = value
        if value[1] is None:
            for producer_id in self.open_by_key.pop(key, ()):
                del self.open[producer_id][key]

    def _stage(self, batch: Batch, key: bytes, value: tuple[int, bytes | None]) -> None:
        values = self.open.setdefault(batch.producer_id, {})
        values.pop(key, None)
        values[key] = value
        self.open_by_key.setdefault(key, set()).add(batch.producer_id)

    def _end_transaction(self, batch: Batch) -> None:
        marker = parse_end_transaction_marker(batch)
        if marker is None:
            return
        for key, (offset, value) in self.open.pop(batch.producer_id, {}).items():
            self._close(key, batch.producer_id)
            known = self.values.get(key)
            if marker.is_commit and (known is None or known[0] < offset):
                self.values.pop(key, None)
                self.values[key] = (offset, value)

    def _close(self, key: bytes, producer_id: int) -> None:
        producers = self.open_by_key[key]
        producers.discard(producer_id)
        if not producers:
            del self.open_by_key[key]

    @property
    def keys(self) -> Iterator[bytes]:
        """The keys of all records that were read, also of deleted ones."""
        yield from self.values
        for values in self.open.values():
            yield from values

    def sorted(self) -> Iterator[StoredRecord]:
        """Yields all current records in order of offset."""
        return iter(sorted(self.in_order(), key=lambda one: one.offset))

    def in_order(self) -> Iterator[StoredRecord]:
        """Yields the current records, and then those of open transactions."""
        for key, (offset, value) in self.values.items():
            if value is not None:
                yield StoredRecord(key, value, offset)
        for producer_id, values in self.open.items():
            for key, (offset, value) in values.items():
                if value is not None:
                    yield StoredRecord(key, value, offset, producer_id)


def latest_records(batches: Iterable[Batch], place: str) -> Iterator[StoredRecord]:
    """Yields what compaction would leave of a log, without tombstones, in order of offset.

    Raises `CorruptionError` with `place` and the offset.
    """
    latest = LatestRecords()
    for _ in latest.take_all(batches, place):
        pass
    for damage in latest.damage:
        raise damage.error()
    return latest.sorted()
