"""A snapshot of many producers, made a few at a time while the log is written to.

It is of the moment at which it began: a producer that is about to change is packed first. So a roll
with 60,000 producers, whose snapshot takes 0.1 s, holds nobody up.
"""

from collections.abc import Iterable
from itertools import islice

from ottla.storage.index.producer_snapshot import ENTRY, NO_OFFSET, format_rows
from ottla.storage.log.producer_state import ProducerEntry

HASH_TABLE_MIN_SIZE = 16

BUCKETS_PER_PRODUCER = 8
"""To put a producer in order takes an eighth of the time that packing it takes."""


class GradualSnapshot:
    """The producers of a log as of `offset`. Call `advance` until it returns true."""

    __slots__ = ("_buckets", "_entries", "_left", "_mask", "_ordered", "_rows", "_table", "offset")

    def __init__(self, entries: dict[int, ProducerEntry], offset: int) -> None:
        self.offset = offset
        self._entries = dict(entries)
        self._left = iter(self._entries)
        self._rows: dict[int, bytes] = {}
        size = table_size(len(entries))
        self._mask = size - 1
        self._table: list[list[bytes] | None] = [None] * size
        self._buckets = iter(self._table)
        self._ordered = bytearray()

    def keep(self, entry: ProducerEntry) -> None:
        """Packs a producer that is about to change, unless it is new."""
        if self._entries.get(entry.producer_id) is entry:
            self._rows.setdefault(entry.producer_id, packed_row(entry))

    def advance(self, count: int) -> bool:
        """Packs so many producers, or puts as many in order; returns whether all is done."""
        table, mask = self._table, self._mask
        for producer_id in islice(self._left, count):
            row = self._rows.get(producer_id) or packed_row(self._entries[producer_id])
            self._rows[producer_id] = row
            place = bucket(producer_id, mask)
            same = table[place]
            if same is None:
                table[place] = [row]
            else:
                same.append(row)
            count -= 1
        if count <= 0:
            return False
        count *= BUCKETS_PER_PRODUCER
        some = list(islice(self._buckets, count))
        self._ordered += b"".join([row for same in some if same is not None for row in same])
        return len(some) < count

    def content(self) -> bytes:
        """The file, in the order of Java's `HashMap`, which Kafka's snapshots have."""
        return format_rows(bytes(self._ordered))


def table_size(count: int) -> int:
    """The number of buckets of Java's `HashMap` with so many keys."""
    size = HASH_TABLE_MIN_SIZE
    while count > size * 3 // 4:
        size *= 2
    return size


def bucket(producer_id: int, mask: int) -> int:
    """Ids in one bucket keep the order in which they were added."""
    mixed = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 16)) & mask


def hash_table_order(producer_ids: Iterable[int]) -> list[int]:
    """The iteration order of Java's `HashMap`."""
    all_ = list(producer_ids)
    mask = table_size(len(all_)) - 1
    return sorted(all_, key=lambda producer_id: bucket(producer_id, mask))


def packed_row(entry: ProducerEntry) -> bytes:
    """A producer as it is in the file."""
    batches, first_offset = entry.batches, entry.transaction_first_offset
    last_sequence, last_offset, delta, _ = batches[-1] if batches else (-1, -1, 0, -1)
    return ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last_sequence,
        last_offset,
        delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
    )
