"""Decodes the records of a v2 batch to lists of fields, in one compiled loop.

The inverse is `list_packing`. Uncompiled the result is the same, but slower. Format page:
docs/format/record-batch.md.
"""

from typing import TYPE_CHECKING, Final

from ottla.base.files import Buffer
from ottla.record.batch import InvalidBatchError, RecordBatch
from ottla.record.record import Headers, read_headers

if TYPE_CHECKING:
    from mypy_extensions import i64  # An int that mypyc keeps in a register.

INT32_BITS: Final = 35
INT64_BITS: Final = 70
"""The bits in the bytes of the longest varints, seven per byte."""


class ListCutter:
    """Decodes the records of one batch, some at a time; `data` are its decompressed records."""

    def __init__(self, batch: RecordBatch, data: Buffer) -> None:
        self.data = bytes(data)
        self.left = batch.record_count
        self._position = 0
        self._base_offset = batch.base_offset
        self._base_ms = batch.base_timestamp_ms

    def cut(
        self,
        count: int,
        offsets: list[int],
        timestamps_ms: list[int],
        fields: tuple[list[bytes | None], list[bytes | None]],
        headers: list[Headers],
    ) -> int:
        """Appends the fields of up to `count` records to the lists; returns the number of records.

        `fields` are the lists of keys and values. Raises `InvalidBatchError`.
        """
        count = min(count, self.left)
        try:
            self._cut(count, offsets, timestamps_ms, fields, headers)
        except (IndexError, ValueError) as error:
            raise InvalidBatchError(f"a record is garbled: {error}") from error
        self.left -= count
        if not self.left and self._position != len(self.data):
            raise InvalidBatchError("a batch's size and the size of its records disagree")
        return count

    def _cut(
        self,
        count: "i64",
        offsets: list[int],
        timestamps_ms: list[int],
        fields: tuple[list[bytes | None], list[bytes | None]],
        headers: list[Headers],
    ) -> None:
        data = self.data
        stop: i64 = len(data)
        position: i64 = self._position
        base_offset: i64 = self._base_offset
        base_ms = self._base_ms
        while count > 0:
            size: i64 = data[position]
            position += 1
            if size > 0x7F:  # Two bytes are read here: uncompiled, a call takes longer.
                if data[position] < 0x80:
                    size = size & 0x7F | data[position] << 7
                    position += 1
                else:
                    size, position = _read_on(data, position, size, INT32_BITS)
            end = position + (size >> 1)
            if size & 1 or end > stop:
                raise ValueError("its size is negative, or larger than the batch")
            delta: i64 = data[position + 1]  # after the attributes, which are unused
            position += 2
            if delta > 0x7F:
                if data[position] < 0x80:
                    delta = delta & 0x7F | data[position] << 7
                    position += 1
                else:
                    delta, position = _read_on(data, position, delta, INT64_BITS)
            delta = ((delta >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(delta & 1)
            timestamps_ms.append(base_ms + int(delta))  # the sum may have more than 64 bits
            offset: i64 = data[position]
            position += 1
            if offset > 0x7F:
                if data[position] < 0x80:
                    offset = offset & 0x7F | data[position] << 7
                    position += 1
                else:
                    offset, position = _read_on(data, position, offset, INT32_BITS)
            offsets.append(base_offset + ((offset >> 1) ^ -(offset & 1)))
            for field in fields:
                size = data[position]
                position += 1
                if size > 0x7F:
                    if data[position] < 0x80:
                        size = size & 0x7F | data[position] << 7
                        position += 1
                    else:
                        size, position = _read_on(data, position, size, INT32_BITS)
                if size & 1:
                    field.append(None)
                else:
                    field.append(data[position : position + (size >> 1)])
                    position += size >> 1
            if position >= end:
                raise ValueError("its fields are larger than it is")
            if end == position + 1:
                headers.append(())  # only the header count is left
            else:
                some, position = read_headers(data, position)
                headers.append(some)
                if position != end:
                    raise ValueError("its size and its content disagree")
            position = end
            count -= 1
        self._position = position


def _read_on(data: bytes, position: "i64", number: "i64", max_bits: "i64") -> "tuple[i64, i64]":
    """The rest of a varint whose first byte is `number`, still in zigzag, and its end position."""
    number &= 0x7F
    shift: i64 = 7
    byte: i64 = 0x80
    while byte > 0x7F:
        if shift == max_bits:
            raise ValueError("a varint is too long")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return number & 0xFFFFFFFF if max_bits == INT32_BITS else number, position
