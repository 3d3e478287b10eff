"""Where the batches of a compacted segment lie, and what was aborted in it: for the second time.

No checksum covers a batch's base offset and leader epoch. Where compaction has left gaps no other
batch contradicts a wrong one, and from such a log a transaction index cannot be made anew. So
compaction leaves a sum over each few batches' heads, and a copy of the aborted transactions.

Format page: docs/format/ottla-witness.md. Kafka removes what ends with `.deleted` whenever it loads
a log. A crash leaves none while segments are being replaced: `replacement` takes the old ones away
first, and `recovery` those of whatever it puts in place.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct

from ottla.base.errors import CorruptionError
from ottla.base.files import (
    Buffer,
    FileSystem,
    read_file,
    remove_if_present,
    replace_file,
    sync_file,
)
from ottla.codec.crc32c import crc32c
from ottla.record.batch import InvalidBatchError
from ottla.record.layout import (
    LAST_OFFSET_DELTA,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_END,
    struct_of,
)
from ottla.storage.files.checksummed import read_checksummed, with_checksum
from ottla.storage.index.transaction_index import ENTRY, TransactionIndex

logger = logging.getLogger(__name__)

HEADER = Struct(
    ">"
    "H"  # version: 0
    "I"  # blocks
)
assert HEADER.size == 6

BLOCK = Struct(
    ">"
    "I"  # position behind the block's last batch
    "I"  # CRC-32C of the heads of its batches, one behind the other
)
assert BLOCK.size == 8

HEAD = struct_of("base_offset", "length", "leader_epoch", "magic")
"""In the old formats the checksum has the leader epoch's place."""

VERSION = 0
BLOCK_SIZE = 1 << 15
"""A block ends with the batch that fills so many bytes."""
CHUNK_SIZE = 1 << 16

Read = Callable[[int, int], bytes]
"""The bytes at a position of a log, so many."""


@dataclass(frozen=True, slots=True)
class Block:
    end: int
    checksum: int


class BlockSums:
    """Takes the batches of a segment in their order."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._heads = bytearray()
        self._start = self._end = 0

    def take(self, batch: Buffer) -> None:
        """A whole batch."""
        self._heads += batch[: HEAD.size]
        self._end += len(batch)
        if self._end - self._start >= BLOCK_SIZE:
            self.finish()

    def finish(self) -> None:
        """Ends the block that has begun, if one has."""
        if self._heads:
            self.blocks.append(Block(self._end, crc32c(self._heads)))
            self._heads.clear()
            self._start = self._end


@dataclass(frozen=True)
class SegmentWitness:
    """`blocks` are empty for a segment that has no gaps; `aborted` is how its index begins."""

    blocks: Sequence[Block]
    aborted: bytes
    judged: dict[int, "WrongPlace | None"] = field(default_factory=dict, compare=False)
    """By where they begin, blocks that have been looked at."""

    @cached_property
    def _ends(self) -> list[int]:
        return [one.end for one in self.blocks]

    def between(self, start: int, end: int) -> Iterator[tuple[int, Block]]:
        """The blocks that a range of positions touches, each with where it begins."""
        for number in range(bisect_right(self._ends, start), len(self.blocks)):
            begin = self._ends[number - 1] if number else 0
            if begin >= end:
                return
            yield begin, self.blocks[number]


class BlockComparison(BlockSums):
    """Takes batches whose witness there may be; raises `InvalidBatchError` for a wrong block."""

    def __init__(self, witness: SegmentWitness | None) -> None:
        super().__init__()
        self._wanted = iter(witness.blocks if witness else ())
        self._is_witnessed = witness is not None and bool(witness.blocks)

    def take(self, batch: Buffer) -> None:
        if self._is_witnessed:
            super().take(batch)

    def finish(self) -> None:
        super().finish()
        if self.blocks and self.blocks.pop() != next(self._wanted, None):
            raise InvalidBatchError(f"a batch before byte {self._end} has changed its place")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongPlace:
    """A batch that is not where it was, or a block of which one is not: then nothing else is known.

    `base_offset` and `epoch` are what the header said.
    """

    position: int
    end: int
    base_offset: int | None = None
    epoch: int | None = None
    offset_count: int = 0

    def hides(self, offset: int) -> bool:
        """Whether a search for an offset that has passed over it should have ended here."""
        return self.base_offset is None or self.base_offset + self.offset_count > offset

    @property
    def reason(self) -> str:
        if self.base_offset is None:
            return f"a batch before byte {self.end} has changed its place on the disk"
        return (
            f"a batch has changed on the disk: it had base offset {self.base_offset} and "
            f"leader epoch {self.epoch}"
        )

    def error(self, path: str) -> CorruptionError:
        return CorruptionError(path, self.position, f"{self.reason}; see ottla log repair")


def wrong_places(witness: SegmentWitness, read: Read, start: int, end: int) -> Iterator[WrongPlace]:
    """What has changed in the blocks that a range of positions touches.

    Where a length has changed there is no way from batch to batch: `header_check` tells of that.
    """
    for begin, block in witness.between(start, end):
        if begin not in witness.judged:
            witness.judged[begin] = _judge(read, begin, block)
        wrong = witness.judged[begin]
        if wrong is not None:
            yield wrong


def _judge(read: Read, begin: int, block: Block) -> WrongPlace | None:
    heads = _heads(read, begin, block.end)
    if heads is None or crc32c(b"".join(heads.values())) == block.checksum:
        return None
    return _wrong_place(read, begin, block, heads)


def _heads(read: Read, start: int, end: int) -> dict[int, bytes] | None:
    """The heads of a block's batches by position."""
    heads: dict[int, bytes] = {}
    chunk, chunk_start = b"", start
    position = start
    while position < end:
        inside = position - chunk_start
        if inside + HEAD.size > len(chunk):
            chunk, chunk_start, inside = (
                read(position, min(CHUNK_SIZE, end - position)),
                position,
                0,
            )
        head = chunk[inside : inside + HEAD.size]
        if len(head) < HEAD.size:
            return None
        size = HEAD.unpack(head)[1] + LENGTH_END
        if size < HEAD.size:
            return None
        heads[position] = head
        position += size
    return heads if position == end else None


def _wrong_place(read: Read, begin: int, block: Block, heads: dict[int, bytes]) -> WrongPlace:
    """Finds the one bit that makes the sum right."""
    joined = bytearray(b"".join(heads.values()))
    for number, position in enumerate(heads):
        for bit in range(8 * HEAD.size):
            at, mask = number * HEAD.size + bit // 8, 1 << bit % 8
            joined[at] ^= mask
            if crc32c(joined) == block.checksum:
                return _mended(read, position, bytes(joined[number * HEAD.size :][: HEAD.size]))
            joined[at] ^= mask
    return WrongPlace(position=begin, end=block.end)


def _mended(read: Read, position: int, head: bytes) -> WrongPlace:
    base_offset, length, epoch, _ = HEAD.unpack(head)
    delta = read(position + LAST_OFFSET_DELTA_POSITION, LAST_OFFSET_DELTA.size)
    return WrongPlace(
        position=position,
        end=position + length + LENGTH_END,
        base_offset=base_offset,
        epoch=epoch,
        offset_count=LAST_OFFSET_DELTA.unpack(delta)[0] + 1,
    )


def segment_witness_text(witness: SegmentWitness) -> bytes:
    blocks = b"".join(BLOCK.pack(one.end, one.checksum) for one in witness.blocks)
    return with_checksum(HEADER.pack(VERSION, len(witness.blocks)) + blocks + witness.aborted)


def parse_segment_witness(path: str, content: bytes) -> SegmentWitness:
    """What the checksum covered; raises `CorruptionError`."""
    if len(content) < HEADER.size or HEADER.unpack_from(content)[0] != VERSION:
        raise CorruptionError(path, 0, "its version is not known")
    end = HEADER.size + HEADER.unpack_from(content)[1] * BLOCK.size
    if end > len(content):
        raise CorruptionError(path, 0, "it is too short")
    blocks = [Block(*fields) for fields in BLOCK.iter_unpack(content[HEADER.size : end])]
    return SegmentWitness(blocks, content[end:])


class WitnessOfSegment:
    """The file of one segment, read when it is first asked for."""

    __slots__ = ("_file_system", "_found", "_is_read", "_is_unsynced", "path")

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self.path = path
        self._found: SegmentWitness | None = None
        self._is_read = False
        self._is_unsynced = False

    @property
    def found(self) -> SegmentWitness | None:
        """`None` without one that is whole."""
        if not self._is_read:
            self._found = read_checksummed(self._file_system, self.path, parse_segment_witness)
            self._is_read = True
        return self._found

    def keep_aborted(self, index: TransactionIndex, *, durably: bool) -> None:
        """Writes down what was aborted; the sums of a pass that has been over it stay."""
        if not index.is_empty:
            blocks = self.found.blocks if self.found else ()
            witness = SegmentWitness(blocks, read_file(self._file_system, index.path))
            content = segment_witness_text(witness)
            replace_file(self._file_system, self.path, content, durably=durably)
            self._is_read = False
            self._is_unsynced = not durably

    def sync(self) -> None:
        """Before a clean stop, after which a torn file would count as damage."""
        if self._is_unsynced:
            sync_file(self._file_system, self.path)
            self._is_unsynced = False

    def mend_aborted(self, index: TransactionIndex, end_offset: int) -> None:
        """Makes an index begin as it did: of a compacted log it cannot be made anew.

        Where the segment ends at `end_offset` before the marker of a transaction, a crash has taken
        it, and its offset may be another record's soon: such a file is dismissed.
        """
        found = self.found
        if found is None or not found.aborted:
            return
        entries = list(ENTRY.iter_unpack(found.aborted))
        ended = sum(last_offset < end_offset for _, _, _, last_offset, _ in entries)
        if ended < len(entries):
            self.dismiss()
            if not ended:
                return
        aborted = found.aborted[: ended * ENTRY.size]
        index.close()
        mended = self._mended(index.path, aborted)
        if mended is not None:
            logger.warning("%s has changed on the disk; %s knows better", index.path, self.path)
            replace_file(self._file_system, index.path, mended)

    def mended(self, index_path: str) -> bytes | None:
        """What an index must hold that does not begin as it did; `None` of one that does."""
        found = self.found
        return self._mended(index_path, found.aborted) if found and found.aborted else None

    def _mended(self, index_path: str, aborted: bytes) -> bytes | None:
        try:
            content = read_file(self._file_system, index_path)
        except FileNotFoundError:
            content = b""
        if content.startswith(aborted):
            return None
        return aborted + content[len(aborted) :]

    def renamed(self, path: str) -> None:
        """Takes note that the log's directory was renamed."""
        self.path = path

    def dismiss(self) -> None:
        """Before the segment is cut; the caller makes it durable."""
        remove_if_present(self._file_system, self.path)
        self._found, self._is_read = None, True
        self._is_unsynced = False
