"""Notes what a roll-up needs of batches while they are read: no file is opened again for it.

Parts of a range may be read by several tasks, in any order, and read again. Kafka has no
counterpart.
"""

import struct
from collections.abc import Iterable

from ottla.base.files import Buffer
from ottla.base.partitions import OffsetRange
from ottla.codec.crc32c import crc32c
from ottla.record.batch_roll_up import NO_LEADER_EPOCH, ONE_BATCH, BatchRollUp
from ottla.record.layout import LENGTH_END, struct_of

_HEADER = struct_of("base_offset", "length", "leader_epoch", "magic", "crc", "last_offset_delta")
_BASE_OFFSET = struct.Struct(">q")


class RangeNotes:
    """The batches of one range, in offset order: those that `take` is given and that overlap with
    it."""

    __slots__ = ("_from", "_until", "is_known", "leader_epoch", "packed")

    def __init__(self, offsets: OffsetRange) -> None:
        self._from = offsets.from_offset
        self._until = offsets.until_offset
        self.packed = bytearray()
        self.leader_epoch = NO_LEADER_EPOCH
        self.is_known = True
        """Whether no batch was of an old format, whose checksums are elsewhere."""

    def take(self, buffers: Iterable[Buffer]) -> None:
        """Buffers of whole batches, whose headers were checked."""
        begin, until, unpack = self._from, self._until, _HEADER.unpack_from
        found: list[bytes] = []
        for data in buffers:
            position, end = 0, len(data)
            while position < end:
                base_offset, length, epoch, magic, crc, delta = unpack(data, position)
                if magic != 2:
                    self.is_known = False
                    return
                if base_offset < until and base_offset + delta >= begin:
                    found.append(ONE_BATCH.pack(base_offset, crc))
                    self.leader_epoch = epoch
                position += length + LENGTH_END
        self.packed += b"".join(found)


class BatchNotes:
    """The ranges of one partition that were read to their ends; safe in several threads."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[int, RangeNotes]] = {}

    def add(self, offsets: OffsetRange, notes: RangeNotes) -> None:
        self._ranges[offsets.from_offset] = offsets.until_offset, notes

    def take_roll_up(self, wanted: OffsetRange) -> BatchRollUp | None:
        """The roll-up of a range, and forgets all ranges; `None` unless they make up `wanted`."""
        ranges, self._ranges = self._ranges, {}
        packed, epoch, offset = bytearray(), NO_LEADER_EPOCH, wanted.from_offset
        while offset < wanted.until_offset and offset in ranges:
            offset, notes = ranges.pop(offset)
            if not notes.is_known:
                return None
            packed += notes.packed[_shared_size(packed, notes.packed) :]
            epoch = notes.leader_epoch if notes.packed else epoch
        if offset != wanted.until_offset:
            return None
        count = len(packed) // ONE_BATCH.size
        return BatchRollUp(batch_count=count, crc=crc32c(packed), leader_epoch=epoch)


def _shared_size(before: bytearray, after: bytearray) -> int:
    """The size of the batch at the front of `after` that two ranges share; 0 without one."""
    size = ONE_BATCH.size
    if not before or not after:
        return 0
    last, first = (_BASE_OFFSET.unpack_from(one, at) for one, at in ((before, -size), (after, 0)))
    return size if last == first else 0
