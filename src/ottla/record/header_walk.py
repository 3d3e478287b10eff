"""The loops over the headers of v2 batches, without creating an object for each.

Both functions only work if compiled, as setup.py does it in every install with a compiler; without
one `header_columns` and `storage.scan` have loops of their own that come to the same. Bytes that
are not whole v2 batches are left to whoever looks at one batch after the other, and can say what is
wrong. Format page: docs/format/record-batch.md.
"""

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Final

from ottla.record.layout import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_END,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    position_of,
)
from ottla.record.walk import new_columns

if TYPE_CHECKING:
    from librt.strings import read_i16_be, read_i32_be, read_i64_be
    from librt.vecs import vec
    from mypy_extensions import i64

LENGTH_POSITION: Final[int] = position_of("length")
BASE_TIMESTAMP_POSITION: Final[int] = position_of("base_timestamp")
RECORD_COUNT_POSITION: Final[int] = position_of("record_count")

COLUMNS: Final = (
    "start",
    "end",
    "base_offset",
    "last_offset",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "attributes",
    "record_count",
)
"""The columns of `find_headers`, in order; start and end are positions in its bytes."""


def find_headers(
    data: bytes, start: "i64", end: "i64", checksum: Callable[[memoryview], int]
) -> "vec[i64]":
    """The headers of the v2 batches that fill a span of `data`, in `COLUMNS`, one after the other.

    Empty unless the span is whole v2 batches, all with the right checksum.
    """
    count = _count(data, start, end)
    found = new_columns(count, len(COLUMNS))
    view = memoryview(data)
    position = start
    row: i64 = 0
    # Numbers of the layout, which are objects otherwise.
    length_at: i64 = LENGTH_POSITION
    crc_at: i64 = CRC_POSITION
    checked_at: i64 = ATTRIBUTES_POSITION
    delta_at: i64 = LAST_OFFSET_DELTA_POSITION
    base_time_at: i64 = BASE_TIMESTAMP_POSITION
    max_time_at: i64 = MAX_TIMESTAMP_POSITION
    count_at: i64 = RECORD_COUNT_POSITION
    magic_at: i64 = MAGIC_POSITION
    before: i64 = LENGTH_END
    while row < count:
        length: i64 = i64(read_i32_be(data, position + length_at))
        after = position + length + before
        delta: i64 = i64(read_i32_be(data, position + delta_at))
        crc: i64 = i64(read_i32_be(data, position + crc_at)) & 0xFFFFFFFF
        if data[position + magic_at] != 2 or delta < 0:
            return new_columns(0)
        computed: i64 = checksum(view[position + checked_at : after])
        if computed != crc:
            return new_columns(0)
        base: i64 = read_i64_be(data, position)
        found[row] = position
        found[row + count] = after
        found[row + 2 * count] = base
        found[row + 3 * count] = base + delta
        found[row + 4 * count] = read_i64_be(data, position + base_time_at)
        found[row + 5 * count] = read_i64_be(data, position + max_time_at)
        found[row + 6 * count] = i64(read_i16_be(data, position + checked_at))
        found[row + 7 * count] = i64(read_i32_be(data, position + count_at))
        position = after
        row += 1
    return found


def _count(data: bytes, start: "i64", end: "i64") -> "i64":
    """How many batches fill a span of bytes, by their lengths; 0 if they do not fill it."""
    count: i64 = 0
    position = start
    header_size: i64 = HEADER_SIZE
    before: i64 = LENGTH_END
    length_at: i64 = LENGTH_POSITION
    while position + header_size <= end:
        length: i64 = i64(read_i32_be(data, position + length_at))
        if length < header_size - before:
            return 0
        position += length + before
        count += 1
    return count if position == end else 0


def following(data: bytes, due: "i64", until: "i64") -> "tuple[i64, i64]":
    """The size of the v2 batches that `data` begins with, and the offset after them.

    Only batches count that begin at offset `due` and follow each other without a gap, up to the
    first that is not whole, or ends at `until` or later.
    """
    position: i64 = 0
    end: i64 = len(data)
    header_size: i64 = HEADER_SIZE
    before: i64 = LENGTH_END
    length_at: i64 = LENGTH_POSITION
    delta_at: i64 = LAST_OFFSET_DELTA_POSITION
    magic_at: i64 = MAGIC_POSITION
    while position + header_size <= end:
        length: i64 = i64(read_i32_be(data, position + length_at))
        after = position + length + before
        next_offset: i64 = due + i64(read_i32_be(data, position + delta_at)) + 1
        if (
            data[position + magic_at] != 2
            or read_i64_be(data, position) != due
            or not due < next_offset < until
            or not position + header_size <= after <= end
        ):
            break
        position, due = after, next_offset
    return position, due


IS_COMPILED: Final[bool] = not isinstance(find_headers, FunctionType)
