"""Variable-length integers: seven bits per byte, lowest first, and zig-zag if signed.

Kafka's counterpart: `ByteUtils`. The scheme is Protocol Buffers'.
"""

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10


class VarintError(OttlaError, ValueError):
    """A varint that is cut short or longer than its type allows."""


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 32-bit number and the position after it; raises `VarintError`."""
    return _read(buffer, position, MAX_VARINT_SIZE, 0xFFFFFFFF)


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 32-bit number and the position after it; raises `VarintError`."""
    try:
        # Most numbers have one or two bytes, for which a loop takes twice as long.
        byte = buffer[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        second = buffer[position + 1]
    except IndexError as error:
        raise VarintError("a varint is cut short") from error
    if second < 0x80:
        value = (byte & 0x7F) | (second << 7)
        return (value >> 1) ^ -(value & 1), position + 2
    value, position = _read(buffer, position, MAX_VARINT_SIZE, 0xFFFFFFFF)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 64-bit number and the position after it; raises `VarintError`."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        second = buffer[position + 1]
    except IndexError as error:
        raise VarintError("a varint is cut short") from error
    if second < 0x80:
        value = (byte & 0x7F) | (second << 7)
        return (value >> 1) ^ -(value & 1), position + 2
    value, position = _read(buffer, position, MAX_VARLONG_SIZE, 0xFFFFFFFFFFFFFFFF)
    return (value >> 1) ^ -(value & 1), position


def _read(buffer: Buffer, position: int, max_size: int, mask: int) -> tuple[int, int]:
    value = shift = 0
    end = min(position + max_size, len(buffer))
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # As in Java, bits that exceed the type's width are dropped.
            return value & mask, position
        shift += 7
    raise VarintError("a varint is cut short" if shift < 7 * max_size else "a varint is too long")


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Appends an unsigned number of 32 bits, or a zig-zag number of 64."""
    assert value >= 0
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_varint(out: bytearray, value: int) -> None:
    """Appends a signed number of 32 bits."""
    assert -0x80000000 <= value <= 0x7FFFFFFF
    write_unsigned_varint(out, (value << 1) ^ (value >> 31))


def write_varlong(out: bytearray, value: int) -> None:
    """Appends a signed number of 64 bits."""
    assert -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF
    write_unsigned_varint(out, (value << 1) ^ (value >> 63))
