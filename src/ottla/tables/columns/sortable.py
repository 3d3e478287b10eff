"""Values as bytes in the same order, so that keys and versions of any columns compare as bytes.

A value begins with a byte 1, so that bytes `ff` come after all values of a prefix. Numbers are
big-endian with the sign's bit turned, texts end with two zero bytes, and a zero byte in a text is
followed by `ff`. A null stays null.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ABOVE = b"\xff"
"""Bytes that come after all that a value may be followed by."""

_FIRST = b"\x01"
_SIGN = 1 << 63


def is_sortable(kind: "pa.DataType") -> bool:
    """Whether values of the type have an order and a form as bytes."""
    import pyarrow.types as types

    return bool(is_exact(kind) or types.is_floating(kind))


def is_exact(kind: "pa.DataType") -> bool:
    """Whether equal values of the type are always written alike, as those of a key must be."""
    import pyarrow.types as types

    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_decimal128(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
    )


def sortable(columns: "Sequence[pa.Array]") -> "pa.Array":
    """Columns as one column of bytes; null where one of them is, or where it is NaN."""
    import pyarrow.compute as pc

    parts: list[Any] = []
    for column in columns:
        parts += [_FIRST, _bytes_of(column)]
    return pc.binary_join_element_wise(*parts, b"")


def fixed_bytes(values: "np.ndarray[Any, Any]") -> "pa.Array":
    """The items of a contiguous array as bytes of a fixed size each."""
    import pyarrow as pa

    kind = pa.binary(values.dtype.itemsize)
    whole = pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    return whole.cast(pa.binary())


def _bytes_of(column: "pa.Array") -> "pa.Array":
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    kind = column.type
    if types.is_string(kind) or types.is_binary(kind):
        escaped = pc.replace_substring(column.cast(pa.binary()), b"\x00", b"\x00\xff")
        return pc.binary_join_element_wise(escaped, b"\x00\x00", b"")
    if types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
        bits = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        # A zero has one form, whatever its sign.
        numbers = (bits + 0.0).view(np.uint64)
        ordered = np.where(numbers >> np.uint64(63), ~numbers, numbers | np.uint64(_SIGN))
        found = fixed_bytes(ordered.astype(">u8"))
    elif types.is_decimal128(kind):
        found = fixed_bytes(_decimals(column))
    else:
        if types.is_date32(kind) or types.is_boolean(kind):
            column = column.cast(pa.int32())
        whole = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        found = fixed_bytes((whole.view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8"))
    return pc.if_else(column.is_valid(), found, None) if column.null_count else found


def _decimals(column: "pa.Array") -> "np.ndarray[Any, Any]":
    import numpy as np

    _, data = column.buffers()
    halves = np.frombuffer(data, "<u8").reshape(-1, 2)
    halves = halves[column.offset : column.offset + len(column)]
    found = np.empty((len(column), 2), ">u8")
    found[:, 0] = halves[:, 1] ^ np.uint64(_SIGN)
    found[:, 1] = halves[:, 0]
    return found.view("V16").reshape(len(column))
