"""The loop over the blocks of an LZ4 frame, which reads their sizes only.

A module of its own, since a wheel compiles it (`setup.py`): a frame may have a block for every few
bytes.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64  # An int that mypyc keeps in a register.

CUT_SHORT: Final = -1
TOO_LARGE: Final = -2


def end_of_blocks(data: bytes, start: "i64", largest: "i64", extra: "i64") -> int:
    """The position after the end mark; `CUT_SHORT`, `TOO_LARGE`, or, negated, the position of
    an unpacked block of nothing, or after a packed one.

    Blocks begin at `start`, have at most `largest` bytes, and each is followed by `extra` bytes.
    """
    size: i64 = len(data)
    position: i64 = start
    while position + 4 <= size:
        # The highest bit says that the block is not compressed.
        high: i64 = data[position + 3] & 0x7F
        length: i64 = (
            data[position] + data[position + 1] * 256 + data[position + 2] * 65536 + high * 16777216
        )
        is_packed = data[position + 3] < 0x80
        if not length and not is_packed:
            return -position
        position += 4
        if not length:
            return position
        if length > largest:
            return TOO_LARGE
        position += length + extra
        if position > size:
            return CUT_SHORT
        if length == 1 and is_packed:
            return -position
    return CUT_SHORT
