"""The last offset of each key, in a fixed amount of memory.

A key is represented by its MD5 digest of 16 bytes, as in Kafka. Two keys with the same digest would
count as one key, which is as unlikely as a flipped bit in memory. Kafka's counterpart:
`SkimpyOffsetMap`.
"""

from hashlib import md5
from struct import Struct

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer

SLOT = Struct(
    ">"
    "16s"  # digest of the key
    "q"  # offset + 1; 0 in an empty slot
)
assert SLOT.size == 24

DIGEST_SIZE = 16
OFFSET = Struct(">q")


class OffsetMapTooSmallError(OttlaError):
    """The map is too small for the keys of the first batch."""

    def __init__(self, record_count: int, capacity: int) -> None:
        self.record_count = record_count
        self.capacity = capacity
        super().__init__(
            f"a batch has {record_count} records, but the cleaner's map has room for {capacity} "
            "keys; raise log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads"
        )


def capacity_of(memory_bytes: int, load_factor: float) -> int:
    """The number of keys that a map of a given size in bytes can hold."""
    return int(memory_bytes // SLOT.size * load_factor)


class OffsetMap:
    """Open addressing over slots of 24 bytes; entries are never removed."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.slot_count = max(1, memory_bytes // SLOT.size)
        self.capacity = capacity_of(memory_bytes, load_factor)
        self.size = 0
        self._slots = bytearray(self.slot_count * SLOT.size)

    def put(self, key: Buffer, offset: int) -> None:
        """Stores the last offset of a key, which must not be before the stored one."""
        assert self.size < self.slot_count
        digest = md5(key, usedforsecurity=False).digest()
        position = self._find(digest)
        if not self._is_taken(position):
            self.size += 1
        SLOT.pack_into(self._slots, position, digest, offset + 1)

    def get(self, key: Buffer) -> int:
        """The last offset of a key; -1 for an unknown key."""
        position = self._find(md5(key, usedforsecurity=False).digest())
        found: int = OFFSET.unpack_from(self._slots, position + DIGEST_SIZE)[0]
        return found - 1

    def _find(self, digest: bytes) -> int:
        """The position of the slot that holds a digest, or of the free slot for it."""
        slots = self._slots
        slot = int.from_bytes(digest[:8], "big") % self.slot_count
        while True:
            position = slot * SLOT.size
            if slots[position : position + DIGEST_SIZE] == digest or not self._is_taken(position):
                return position
            slot = slot + 1 if slot + 1 < self.slot_count else 0

    def _is_taken(self, position: int) -> bool:
        end = position + SLOT.size
        return any(self._slots[position + DIGEST_SIZE : end])
