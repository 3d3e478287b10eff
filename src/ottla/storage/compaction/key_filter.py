"""Decides which records compaction retains.

These are the last record of each key, tombstones until their delete horizon, and all records after
the end of the map. `PlainKeyFilter` decides record by record, `vector_key_filter` uses numpy, and
`compiled_key_filter` is compiled. Kafka's counterpart: `Cleaner.shouldRetainRecord`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Protocol

from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.record import Record, read_records, unpacked_payload
from ottla.record.walk import record_ends
from ottla.storage.compaction.offset_map import OffsetMap


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Stored records of a v2 batch: `places` are their start and end positions in `data`."""

    data: bytes
    places: list[tuple[int, int]]


@dataclass(slots=True, kw_only=True)
class Retained:
    """The retained records of one batch: `count` of them, all records if `is_whole`.

    `records` returns `StoredRecords` for v2, and decoded records for the old formats; it may raise
    `InvalidBatchError`.
    """

    records: Callable[[], StoredRecords | list[Record]]
    count: int
    is_whole: bool
    has_tombstone: bool
    keyless_count: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A batch to filter; `keeps_tombstones` says that its delete horizon has not passed."""

    batch: Batch
    keeps_tombstones: bool


class KeyFilter(Protocol):
    """Learns offsets in ascending order, then says which records are retained.

    All methods may raise `InvalidBatchError`.
    """

    @property
    def size(self) -> int:
        """The number of learnt keys."""

    @property
    def capacity(self) -> int:
        """The largest number of keys."""

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        """Learns the keys of the records from `start_offset`; there must be room for all."""

    def retain(self, candidates: Sequence[Candidate], end_offset: int) -> list[Retained]:
        """The retained records of each batch; records from `end_offset` on are all retained."""


def new_key_filter(memory_bytes: int, load_factor: float) -> KeyFilter:
    """The fastest available key filter (compiled, numpy, plain); all retain the same records."""
    from ottla.storage.compaction import compiled_key_filter

    if compiled_key_filter.IS_COMPILED:
        return compiled_key_filter.CompiledKeyFilter(memory_bytes, load_factor)
    if find_spec("numpy") is None:
        return PlainKeyFilter(memory_bytes, load_factor)
    from ottla.storage.compaction.vector_key_filter import VectorKeyFilter

    return VectorKeyFilter(memory_bytes, load_factor)


class PlainKeyFilter:
    """The key filter in plain Python, record by record."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self._map = OffsetMap(memory_bytes, load_factor)

    @property
    def size(self) -> int:
        return self._map.size

    @property
    def capacity(self) -> int:
        return self._map.capacity

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        for batch in batches:
            for record in read_records(batch):
                if record.key is not None and record.offset >= start_offset:
                    self._map.put(record.key, record.offset)

    def retain(self, candidates: Sequence[Candidate], end_offset: int) -> list[Retained]:
        return [self._retain(one, end_offset) for one in candidates]

    def _retain(self, candidate: Candidate, end_offset: int) -> Retained:
        retained: list[Record] = []
        indexes: list[int] = []
        total = keyless = 0
        for record in read_records(candidate.batch):
            total += 1
            if record.offset < end_offset:
                if record.key is None:
                    keyless += 1
                    continue
                if record.offset < self._map.get(record.key):
                    continue
                if record.value is None and not candidate.keeps_tombstones:
                    continue
            retained.append(record)
            indexes.append(total - 1)
        batch = candidate.batch
        return Retained(
            records=(
                partial(stored_records, batch, indexes)
                if isinstance(batch, RecordBatch)
                else lambda: retained
            ),
            count=len(retained),
            is_whole=len(retained) == total,
            has_tombstone=any(one.value is None for one in retained),
            keyless_count=keyless,
        )


def stored_records(batch: RecordBatch, indexes: Sequence[int] | None = None) -> StoredRecords:
    """Locates records of a batch, some of them or all."""
    data = bytes(unpacked_payload(batch))
    try:
        ends = record_ends(data, 0, batch.record_count)
    except (IndexError, ValueError) as error:
        raise InvalidBatchError("a record is cut short") from error
    places = list(zip([0, *ends], ends, strict=False))
    return StoredRecords(data, places if indexes is None else [places[one] for one in indexes])
