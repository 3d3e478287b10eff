"""The header of a v2 record batch, field by field; every struct and every position follows from it.

Format page: docs/format/record-batch.md. Kafka's counterpart: the constants of
`DefaultRecordBatch`.
"""

from struct import Struct, calcsize
from typing import Final

FIELDS: Final = {
    "base_offset": "q",
    "length": "i",  # bytes after this field
    "leader_epoch": "i",
    "magic": "b",
    "crc": "I",  # CRC-32C of all that follows
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",  # or the delete horizon
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "record_count": "i",
}
"""The names of the fields in their order, and the letters that `struct` has for their types."""


def position_of(name: str) -> int:
    """How many bytes of the header come before a field."""
    names = list(FIELDS)
    return calcsize(">" + "".join(FIELDS[one] for one in names[: names.index(name)]))


def struct_of(*names: str) -> Struct:
    """Reads some fields, given in their order, from the position of the first one.

    What lies between them is skipped, so only neighbours may be written with it.
    """
    fields = list(FIELDS.items())
    span = fields[list(FIELDS).index(names[0]) : list(FIELDS).index(names[-1]) + 1]
    letters = [one if name in names else f"{calcsize('>' + one)}x" for name, one in span]
    return Struct(">" + "".join(letters))


HEADER: Final = struct_of(*FIELDS)
HEADER_SIZE: Final[int] = HEADER.size
assert HEADER_SIZE == 61

BEFORE_CHECKED: Final = struct_of("base_offset", "length", "leader_epoch", "magic", "crc")
CHECKED: Final = struct_of(*list(FIELDS)[5:])
"""What of the header the checksum covers."""

PLACE: Final = struct_of("base_offset", "length", "leader_epoch")

BASE_OFFSET: Final = struct_of("base_offset")
OFFSET_AND_LENGTH: Final = struct_of("base_offset", "length")
LEADER_EPOCH: Final = struct_of("leader_epoch")
CRC: Final = struct_of("crc")
ATTRIBUTES: Final = struct_of("attributes")
LAST_OFFSET_DELTA: Final = struct_of("last_offset_delta")
TIMESTAMP: Final = struct_of("max_timestamp")

LENGTH_END: Final[int] = OFFSET_AND_LENGTH.size
"""How many bytes of a batch, or of an older log entry, its length does not count."""

LEADER_EPOCH_POSITION: Final[int] = position_of("leader_epoch")
MAGIC_POSITION: Final[int] = position_of("magic")
MAGIC_END: Final[int] = MAGIC_POSITION + 1
"""So many bytes show a batch's size and format, whatever the format is."""

CRC_POSITION: Final[int] = position_of("crc")
ATTRIBUTES_POSITION: Final[int] = position_of("attributes")
LAST_OFFSET_DELTA_POSITION: Final[int] = position_of("last_offset_delta")
MAX_TIMESTAMP_POSITION: Final[int] = position_of("max_timestamp")
