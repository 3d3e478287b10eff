"""Whether the records of a v2 batch are what its header says, so that every reader can read past.

Nothing is made of the records: their bytes are walked once, in a loop of C where `compiled_check`
was compiled. Kafka's counterpart: `DefaultRecord.readFrom` under `LogValidator`. Stricter than that
where clients read differently what hardly one of them writes: numbers of more than 32 or 64 bits,
sizes below -1, names of headers that are not UTF-8 (at which clients for Python stop), and offsets
that are not one after the other (Kafka numbers the records of a compressed batch anew, and stores
those of a plain one).
"""

from typing import Any, Final

from ottla.base.files import Buffer
from ottla.config.setting import INT32_MAX, INT64_MAX
from ottla.record.batch import NO_TIMESTAMP
from ottla.record.compiled import compiled
from ottla.record.layout import HEADER_SIZE, LENGTH_END, LENGTH_POSITION, struct_of

HAS_NULL_KEY: Final = 1
IS_OUT_OF_RANGE: Final = 2
HAS_OTHER_LARGEST: Final = 4

CUT_SHORT: Final = -1
TOO_LONG: Final = -2
BEYOND_END: Final = -3
NEGATIVE: Final = -4
DISAGREES: Final = -5
WRONG_OFFSET: Final = -6
WRONG_TIMESTAMP: Final = -7
BYTES_LEFT: Final = -8
NOT_TEXT: Final = -9

REASONS: Final = {
    CUT_SHORT: "it is cut short",
    TOO_LONG: "a number in it has too many bits",
    BEYOND_END: "a size in it reaches beyond its end",
    NEGATIVE: "a size or a count in it is negative",
    DISAGREES: "its size and its content disagree",
    WRONG_OFFSET: "its offset does not follow that of the record before",
    WRONG_TIMESTAMP: "its timestamp has more than 64 bits",
    BYTES_LEFT: "bytes follow the last record",
    NOT_TEXT: "a header's name is not UTF-8",
}

INT32_SIZE: Final = 5
INT64_SIZE: Final = 10
TWO_BYTES_MAX: Final = 0x3FFF

NEAR_MS: Final = 1 << 62
"""Times from which a record of a usual batch cannot be out of an int64's range."""

_unpack_header: Final = struct_of(
    "length", "base_timestamp", "max_timestamp", "record_count"
).unpack_from

ANY_TIME: Final = (-INT64_MAX - 1, INT64_MAX)

compiled_check: Any = compiled("ottla.record.compiled_check")

Found = int | tuple[int, int]
"""The flags of what was found; with the largest timestamp where the header has another one; or a
negative reason with the index of the record that is wrong."""


def check_records_plainly(
    buffer: Buffer, position: int, unpacked: Buffer | None, earliest_ms: int, latest_ms: int
) -> Found:
    """Walks the records of the batch at `position`, or those that it was unpacked to."""
    length, base_ms, max_ms, count = _unpack_header(buffer, position + LENGTH_POSITION)
    if unpacked is None:
        start, end = position + HEADER_SIZE, position + LENGTH_END + length
        if end > len(buffer):
            raise IndexError("the batch is not wholly in the buffer")
        data = bytes(buffer[start:end])
    else:
        data = bytes(unpacked)
    walk = _Walk(data, base_ms, earliest_ms, latest_ms)
    index = 0
    try:
        while True:
            index = walk.take_usual(index, count)
            if index >= count:
                break
            walk.take(index)
            index += 1
        if walk.position != len(data):
            raise _WrongRecordError(BYTES_LEFT)
    except _WrongRecordError as error:
        return error.reason, index
    if walk.largest_ms == max_ms:
        return walk.flags
    return walk.flags | HAS_OTHER_LARGEST, walk.largest_ms


AT_ONCE_COUNT: Final = 1000 if compiled_check is None else INT32_MAX
"""How many records are walked in less than 5 ms; in C that depends on the bytes alone."""

check_records: Any = compiled_check.check_records if compiled_check else check_records_plainly


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


class _WrongRecordError(Exception):
    def __init__(self, reason: int) -> None:
        super().__init__(reason)
        self.reason = reason


class _Walk:
    """From record to record; `position` is where the next one begins."""

    __slots__ = ("_base_ms", "_bounds", "_end", "data", "flags", "largest_ms", "position")

    def __init__(self, data: bytes, base_ms: int, earliest_ms: int, latest_ms: int) -> None:
        self.data = data
        self._base_ms = base_ms
        self._bounds = earliest_ms, latest_ms
        self._end = len(data)
        self.position = 0
        self.flags = 0
        self.largest_ms = NO_TIMESTAMP

    def take_usual(self, index: int, count: int) -> int:
        """Goes past records as clients write nearly all of them; returns which is another one.

        These have no headers, and numbers of two bytes at the most. `take` does the same for all,
        and says what is wrong, but takes three times as long.
        """
        data, base_ms, start = self.data, self._base_ms, self.position
        earliest_ms, latest_ms = self._bounds
        largest_ms = self.largest_ms
        if not -NEAR_MS <= base_ms <= NEAR_MS:
            return index
        try:
            while index < count:
                # Numbers in zigzag: twice what they mean, or an odd one below 0. A third byte shows
                # as a number above `TWO_BYTES_MAX`.
                size = data[start]
                position = start + 1
                if size > 0x7F:
                    size += (data[position] << 7) - 0x80
                    position += 1
                end = position + (size >> 1)
                attributes, delta = data[position], data[position + 1]
                position += 2
                if delta > 0x7F:
                    delta += (data[position] << 7) - 0x80
                    position += 1
                offset = data[position]
                position += 1
                if offset > 0x7F:
                    offset += (data[position] << 7) - 0x80
                    position += 1
                key = data[position]
                position += 1
                if key > 0x7F:
                    key += (data[position] << 7) - 0x80
                    position += 1
                position += key >> 1
                value = data[position]
                position += 1
                if value > 0x7F:
                    value += (data[position] << 7) - 0x80
                    position += 1
                position += value >> 1
                # No field reaches beyond the record, since its last byte comes right after them.
                if (
                    position + 1 != end
                    or data[position]
                    or attributes > 0x7F
                    or (size | delta | offset | key | value) > TWO_BYTES_MAX
                    or offset != 2 * index
                    or (size | (key if key != 1 else 0) | (value if value != 1 else 0)) & 1
                ):
                    break
                time_ms = base_ms + ((delta >> 1) ^ -(delta & 1))
                if time_ms > largest_ms:
                    largest_ms = time_ms
                if not earliest_ms <= time_ms <= latest_ms and time_ms != NO_TIMESTAMP:
                    self.flags |= IS_OUT_OF_RANGE
                if key == 1:
                    self.flags |= HAS_NULL_KEY
                index += 1
                start = end
        except IndexError:
            pass  # `take` finds out where
        self.largest_ms = largest_ms
        self.position = start
        return index

    def take(self, index: int) -> None:
        """Goes past one record; raises `_WrongRecordError`."""
        payload_end = self._end
        size = self._number(INT32_SIZE)
        if size < 0:
            raise _WrongRecordError(NEGATIVE)
        end = self._end = self.position + size
        if end > payload_end:
            raise _WrongRecordError(BEYOND_END)
        # No attribute is in use; kafka-python reads them as a varint.
        if size and self.data[self.position] > 0x7F:
            raise _WrongRecordError(TOO_LONG)
        self.position += 1
        time_ms = self._base_ms + self._number(INT64_SIZE)
        if not -INT64_MAX - 1 <= time_ms <= INT64_MAX:
            raise _WrongRecordError(WRONG_TIMESTAMP)
        self.largest_ms = max(self.largest_ms, time_ms)
        if not self._bounds[0] <= time_ms <= self._bounds[1] and time_ms != NO_TIMESTAMP:
            self.flags |= IS_OUT_OF_RANGE
        if self._number(INT32_SIZE) != index:
            raise _WrongRecordError(WRONG_OFFSET)
        if self._skip(-1) < 0:
            self.flags |= HAS_NULL_KEY
        self._skip(-1)
        header_count = self._number(INT32_SIZE)
        if header_count < 0:
            raise _WrongRecordError(NEGATIVE)
        for _ in range(header_count):
            size = self._skip(0)
            name = self.data[self.position - size : self.position]
            if not name.isascii() and not _is_text(name):
                raise _WrongRecordError(NOT_TEXT)
            self._skip(-1)
        if self.position != end:
            raise _WrongRecordError(DISAGREES)
        self._end = payload_end

    def _skip(self, least: int) -> int:
        """Goes past a field, and returns its size, which is `least` or more."""
        size = self._number(INT32_SIZE)
        if size < least:
            raise _WrongRecordError(NEGATIVE)
        if size > self._end - self.position:
            raise _WrongRecordError(BEYOND_END)
        self.position += max(size, 0)
        return size

    def _number(self, max_size: int) -> int:
        """`read_varint`, but for numbers of more bits than they may have."""
        data, position, end = self.data, self.position, self._end
        if position < end and (byte := data[position]) < 0x80:
            self.position = position + 1
            return (byte >> 1) ^ -(byte & 1)
        found = shift = 0
        while position < end:
            byte = data[position]
            position += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if shift == 7 * max_size and byte > (0x0F if max_size == INT32_SIZE else 0x01):
                raise _WrongRecordError(TOO_LONG)
            if byte < 0x80:
                self.position = position
                return (found >> 1) ^ -(found & 1)
        raise _WrongRecordError(CUT_SHORT)
