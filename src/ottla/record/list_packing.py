"""Encodes lists of fields as the records of one v2 batch, in one compiled loop.

The inverse is `field_lists`. This module is only used if compiled: otherwise `packing` is faster if
numpy is installed, and `RecordBatchBuilder` encodes record by record. Format page:
docs/format/record-batch.md.
"""

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from librt.strings import BytesWriter, write_i64_le
    from mypy_extensions import i64

Headers = Sequence[tuple[str, bytes | None]]

NULL: Final = 1
"""-1, the length of a null, in zigzag."""

TWO_BYTES: Final = 0x4000
"""The smallest number whose varint has three bytes."""

WORD_BITS: Final = 0x01FFFFFFFFFFFFFF
"""The lower 57 bits, which are left of 64 after a shift by 7."""

MOST_KEPT: Final = 1 << 21
"""The largest writer in bytes that is reused: new memory costs a page fault for each 4 KiB."""

_writers: "Final[list[BytesWriter]]" = []
"""Writers to reuse; each packing thread takes one and puts it back."""


def pack_lists(
    keys: list[bytes | None],
    values: list[bytes | None],
    times_ms: list[int],
    headers: Mapping[int, Headers],
) -> bytes:
    """The encoded records; timestamp deltas count from the first time.

    `headers` are the headers of records by index.
    """
    try:
        out = _writers.pop()
    except IndexError:
        out = BytesWriter()
    base_ms: i64 = times_ms[0]
    count: i64 = len(values)
    row: i64 = 0
    while row < count:
        key = keys[row]
        value = values[row]
        delta: i64 = times_ms[row]
        delta = (delta - base_ms) << 1 ^ (delta - base_ms) >> 63
        key_size: i64 = NULL if key is None else len(key) << 1
        value_size: i64 = NULL if value is None else len(value) << 1
        tail = packed_headers(headers[row]) if headers and row in headers else b"\0"
        size: i64 = 1 + _size(delta) + _size(row << 1) + _size(key_size) + _size(value_size)
        size = (size + (key_size >> 1) + (value_size >> 1) + len(tail)) << 1
        if size < TWO_BYTES and 0 <= delta < TWO_BYTES and row << 1 < TWO_BYTES:
            _start_small(out, size, delta, row << 1)
        else:
            _number(out, size)
            out.append(0)  # attributes, which are unused
            _number(out, delta)
            _number(out, row << 1)
        _number(out, key_size)
        if key is not None:
            out.write(key)
        _number(out, value_size)
        if value is not None:
            out.write(value)
        out.write(tail)
        row += 1
    packed = out.getvalue()
    if len(packed) <= MOST_KEPT:
        out.truncate(0)
        _writers.append(out)
    return packed


def packed_headers(headers: Headers) -> bytes:
    """The encoded headers of a record: their count, and each name and value."""
    out = BytesWriter()
    _number(out, len(headers) << 1)
    for name, value in headers:
        text = name.encode()
        _number(out, len(text) << 1)
        out.write(text)
        if value is None:
            _number(out, NULL)
        else:
            _number(out, len(value) << 1)
            out.write(value)
    return out.getvalue()


def _start_small(out: "BytesWriter", size: "i64", delta: "i64", offset: "i64") -> None:
    """Writes size, attributes and both deltas, at most seven bytes, in one step."""
    word: i64 = size
    bits: i64 = 16  # the size's byte, and the attributes' byte, which is 0
    if size > 0x7F:
        word = size & 0x7F | 0x80 | size >> 7 << 8
        bits = 24
    if delta > 0x7F:
        word |= (delta & 0x7F | 0x80 | delta >> 7 << 8) << bits
        bits += 16
    else:
        word |= delta << bits
        bits += 8
    if offset > 0x7F:
        word |= (offset & 0x7F | 0x80 | offset >> 7 << 8) << bits
        bits += 16
    else:
        word |= offset << bits
        bits += 8
    filled: i64 = len(out)
    write_i64_le(out, word)
    out.truncate(filled + (bits >> 3))


def _size(number: "i64") -> "i64":
    """The bytes of a number's varint; the number counts as unsigned."""
    if 0 <= number < 0x80:
        return 1
    if 0 <= number < TWO_BYTES:
        return 2
    size: i64 = 1
    while number > 0x7F or number < 0:
        number = number >> 7 & WORD_BITS
        size += 1
    return size


def _number(out: "BytesWriter", number: "i64") -> None:
    while number > 0x7F or number < 0:
        out.append(number & 0x7F | 0x80)
        number = number >> 7 & WORD_BITS
    out.append(number)


IS_COMPILED: Final[bool] = not isinstance(pack_lists, FunctionType)
