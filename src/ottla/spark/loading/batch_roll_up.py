"""The batches of an offset range in three numbers: another log's, or changed ones, differ.

Each batch's offset and CRC are taken in order into one CRC-32C. A batch's own CRC covers its
records, but neither its offset nor its place among the others. A batch that a range cuts counts
with all of it, on both sides of the cut: its CRC cannot be cut, and so the roll-up depends on the
log and the range alone, not on how many tasks read it. Kafka has no counterpart.
"""

import struct
from collections.abc import Iterable

from ottla.codec.crc32c import crc32c
from ottla.record.batch import Batch
from ottla.spark.tables.manifest import BatchRollUp

_ONE_BATCH = struct.Struct(
    ">q"  # base offset, which the CRC does not cover
    "I"  # the CRC as the batch states it
)
assert _ONE_BATCH.size == 12

NO_LEADER_EPOCH = -1


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
