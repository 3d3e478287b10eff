"""The fields of a v2 record batch's header; all structs and positions are derived from them.

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
    "crc": "I",  # CRC-32C of everything after this field
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",  # or the delete horizon
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "record_count": "i",
}
"""The names of the fields in order, with their format characters of `struct`."""


def position_of(name: str) -> int:
    """The position of a field in the header."""
    names = list(FIELDS)
    return calcsize(">" + "".join(FIELDS[one] for one in names[: names.index(name)]))


def struct_of(*names: str) -> Struct:
    """A struct of some fields, given in order, that begins at the first one.

    It skips the fields between them, so only adjacent fields may be written with it.
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
"""The fields that the CRC covers."""

PLACE: Final = struct_of("base_offset", "length", "leader_epoch")

BASE_OFFSET: Final = struct_of("base_offset")
OFFSET_AND_LENGTH: Final = struct_of("base_offset", "length")
LEADER_EPOCH: Final = struct_of("leader_epoch")
CRC: Final = struct_of("crc")
ATTRIBUTES: Final = struct_of("attributes")
LAST_OFFSET_DELTA: Final = struct_of("last_offset_delta")
TIMESTAMP: Final = struct_of("max_timestamp")

LENGTH_END: Final[int] = OFFSET_AND_LENGTH.size
"""The bytes of a batch, or of an entry of an old format, that its length does not include."""

LEADER_EPOCH_POSITION: Final[int] = position_of("leader_epoch")
MAGIC_POSITION: Final[int] = position_of("magic")
MAGIC_END: Final[int] = MAGIC_POSITION + 1
"""The number of bytes that show a batch's size and format, in all formats."""

CRC_POSITION: Final[int] = position_of("crc")
ATTRIBUTES_POSITION: Final[int] = position_of("attributes")
LAST_OFFSET_DELTA_POSITION: Final[int] = position_of("last_offset_delta")
MAX_TIMESTAMP_POSITION: Final[int] = position_of("max_timestamp")
