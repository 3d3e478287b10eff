"""A fingerprint of the batches in an offset range, to compare two logs or find changes.

It is the CRC-32C of the base offsets and CRCs of all batches, in order: a batch's own CRC covers
its records, but not its offset. A batch that overlaps with two ranges counts fully in both. So the
result depends only on the log and the range, not on how many tasks read it. Kafka has no
counterpart.
"""

import struct
from collections.abc import Iterable, Iterator

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.codec.crc32c import crc32c
from ottla.record.batch import Batch, RecordBatch
from ottla.record.record import read_records

ONE_BATCH = struct.Struct(
    ">q"  # base offset, which the CRC does not cover
    "I"  # the CRC in the batch's header
)
assert ONE_BATCH.size == 12

NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRollUp:
    """The fingerprint of the batches that overlap with a range."""

    batch_count: int
    crc: int
    leader_epoch: int
    """The leader epoch of the last batch; -1 without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The record count and fingerprint of a range."""

    record_count: int
    batches: BatchRollUp


def survey(batches: Iterable[tuple[Batch, bool]], wanted: OffsetRange) -> Survey:
    """The survey of a range; `batches` overlap with it, each with whether its records count."""
    counts: list[int] = []

    def counted() -> Iterator[Batch]:
        for batch, is_seen in batches:
            counts.append(count_in(batch, wanted) if is_seen else 0)
            yield batch

    rolled_up = roll_up(counted())
    return Survey(record_count=sum(counts), batches=rolled_up)


def count_in(batch: Batch, wanted: OffsetRange) -> int:
    """The number of a batch's records in a range; reads the records only at the range's ends."""
    is_inside = batch.base_offset >= wanted.from_offset and batch.last_offset < wanted.until_offset
    if is_inside and isinstance(batch, RecordBatch):
        return batch.record_count
    return sum(
        wanted.from_offset <= record.offset < wanted.until_offset for record in read_records(batch)
    )


def roll_up(batches: Iterable[Batch]) -> BatchRollUp:
    """The fingerprint of batches in offset order, with control and aborted batches."""
    packed = bytearray()
    leader_epoch = NO_LEADER_EPOCH
    for batch in batches:
        packed += ONE_BATCH.pack(batch.base_offset, batch.crc)
        leader_epoch = batch.partition_leader_epoch
    return BatchRollUp(
        batch_count=len(packed) // ONE_BATCH.size, crc=crc32c(packed), leader_epoch=leader_epoch
    )
