"""The batches of an offset range in three numbers: another log's, or changed ones, differ.

Each batch's offset and CRC are taken in order into one CRC-32C. A batch's own CRC covers its
records, but neither its offset nor its place among the others. A batch that a range cuts counts
with all of it, on both sides of the cut: its CRC cannot be cut, and so the roll-up depends on the
log and the range alone, not on how many tasks read it. Kafka has no counterpart.
"""

import struct
from collections.abc import Iterable, Iterator

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.codec.crc32c import crc32c
from ottla.record.batch import Batch, RecordBatch
from ottla.record.record import read_records

_ONE_BATCH = struct.Struct(
    ">q"  # base offset, which the CRC does not cover
    "I"  # the CRC as the batch states it
)
assert _ONE_BATCH.size == 12

NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRollUp:
    """The batches that overlap with a range, boiled down."""

    batch_count: int
    crc: int
    leader_epoch: int
    """The epoch of the last batch's leader; -1 when it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A range by its batches."""

    record_count: int
    batches: BatchRollUp


def survey(batches: Iterable[tuple[Batch, bool]], wanted: OffsetRange) -> Survey:
    """Of all batches that overlap with a range, each with whether its records are seen."""
    counts: list[int] = []

    def counted() -> Iterator[Batch]:
        for batch, is_seen in batches:
            counts.append(count_in(batch, wanted) if is_seen else 0)
            yield batch

    rolled_up = roll_up(counted())
    return Survey(record_count=sum(counts), batches=rolled_up)


def count_in(batch: Batch, wanted: OffsetRange) -> int:
    """The records of a batch that lie in a range; only where it is cut are they looked at."""
    is_inside = batch.base_offset >= wanted.from_offset and batch.last_offset < wanted.until_offset
    if is_inside and isinstance(batch, RecordBatch):
        return batch.record_count
    return sum(
        wanted.from_offset <= record.offset < wanted.until_offset for record in read_records(batch)
    )


def roll_up(batches: Iterable[Batch]) -> BatchRollUp:
    """Of batches in the order of their offsets: data, control and aborted ones alike."""
    packed = bytearray()
    leader_epoch = NO_LEADER_EPOCH
    for batch in batches:
        packed += _ONE_BATCH.pack(batch.base_offset, batch.crc)
        leader_epoch = batch.partition_leader_epoch
    return BatchRollUp(
        batch_count=len(packed) // _ONE_BATCH.size, crc=crc32c(packed), leader_epoch=leader_epoch
    )
