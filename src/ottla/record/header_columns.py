"""The headers of many v2 batches as numpy arrays: a region has hundreds of small batches, and a
view of each takes longer than the columns of its records. Imports numpy; `columns` imports it when
it is called.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.crc32c import checksum_function, crc32c
from ottla.record import header_walk
from ottla.record.batch import (
    CODEC_MASK,
    COMPRESSIONS,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    RecordBatch,
)
from ottla.record.layout import (
    ATTRIBUTES_POSITION,
    BASE_OFFSET,
    FIELDS,
    HEADER_SIZE,
    LENGTH_END,
    struct_of,
)

Numbers = NDArray[np.int64]

_LENGTH: Final = struct_of("length")

CODEC_COUNT: Final = len(COMPRESSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeaders:
    """What the columns of records need of the headers of their batches, in order."""

    base_offset: Numbers
    last_offset: Numbers
    base_timestamp_ms: Numbers
    max_timestamp_ms: Numbers
    has_append_time: NDArray[np.bool_]
    record_count: Numbers

    @classmethod
    def of(cls, batches: Sequence[RecordBatch]) -> "BatchHeaders":
        def numbers(name: str) -> Numbers:
            return np.array([getattr(one, name) for one in batches], np.int64)

        return cls(
            base_offset=numbers("base_offset"),
            last_offset=numbers("last_offset"),
            base_timestamp_ms=numbers("base_timestamp_ms"),
            max_timestamp_ms=numbers("max_timestamp_ms"),
            has_append_time=(numbers("attributes") & LOG_APPEND_TIME_BIT) != 0,
            record_count=numbers("record_count"),
        )

    def are_within(self, start_offset: int, end_offset: int) -> bool:
        """Whether no batch has offsets before or after a range."""
        return bool(
            (self.base_offset >= start_offset).all() and (self.last_offset < end_offset).all()
        )

    @property
    def are_dense(self) -> bool:
        """Whether each offset from a batch's first to its last has a record, as in all that is not
        compacted: offsets then follow from headers, and records need not be scanned.
        """
        return bool((self.last_offset - self.base_offset + 1 == self.record_count).all())

    @property
    def have_room(self) -> bool:
        """Whether no batch says that it has more records than offsets, or fewer than none."""
        room = self.last_offset - self.base_offset + 1
        return bool(((self.record_count >= 0) & (self.record_count <= room)).all())

    def of_each_record(self, values: Any) -> Any:
        """Values of the batches, repeated for their records."""
        return np.repeat(values, self.record_count)

    def dense_offsets(self) -> Numbers:
        if (self.base_offset[1:] == self.last_offset[:-1] + 1).all():
            return np.arange(self.base_offset[0], self.last_offset[-1] + 1, dtype=np.int64)
        first = np.cumsum(self.record_count) - self.record_count
        found: Numbers = self.of_each_record(self.base_offset - first)
        found += np.arange(len(found))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainBatches:
    """Uncompressed v2 batches with records, in the order of their offsets in a buffer, and all
    sound: complete, with the right checksum, and no more records than offsets.
    """

    buffer: memoryview
    start: Numbers
    """The position of each batch."""
    end: Numbers
    headers: BatchHeaders

    def pieces(self, max_rows: int, max_size: int) -> "Iterator[PlainBatches]":
        """Consecutive parts of at most so many rows, unless one batch has more, and about so many
        bytes.
        """
        rows = np.cumsum(self.headers.record_count)
        first, count = 0, len(self.start)
        if count and rows[-1] <= max_rows and self.end[-1] - self.start[0] <= max_size:
            yield self
            return
        while first < count:
            before = rows[first - 1] if first else 0
            by_rows = np.searchsorted(rows, before + max_rows, side="right")
            by_size = np.searchsorted(self.end, self.start[first] + max_size) + 1
            until = int(max(first + 1, min(by_rows, by_size)))
            yield self._part(slice(first, until))
            first = until

    def within(self, start_offset: int, end_offset: int) -> "PlainBatches":
        """The batches that overlap with a range of offsets."""
        if self.headers.are_within(start_offset, end_offset):
            return self
        first = int(np.searchsorted(self.headers.last_offset, start_offset))
        until = int(np.searchsorted(self.headers.base_offset, end_offset))
        return self._part(slice(first, max(first, until)))

    def _part(self, which: slice) -> "PlainBatches":
        headers = self.headers
        return PlainBatches(
            buffer=self.buffer,
            start=self.start[which],
            end=self.end[which],
            headers=BatchHeaders(
                base_offset=headers.base_offset[which],
                last_offset=headers.last_offset[which],
                base_timestamp_ms=headers.base_timestamp_ms[which],
                max_timestamp_ms=headers.max_timestamp_ms[which],
                has_append_time=headers.has_append_time[which],
                record_count=headers.record_count[which],
            ),
        )


def plain_batches(buffer: Buffer, *, only_headers: bool = False) -> PlainBatches | None:
    """The batches of a buffer that have records, without control batches; `None` unless all of
    them are as `PlainBatches` says.

    With `only_headers` also batches that are compressed, if a header says as much as the records.
    Whoever gets `None` looks at one batch after the other, and finds what is wrong.
    """
    view = memoryview(buffer)
    whole = view.obj
    if header_walk.IS_COMPILED and isinstance(whole, bytes) and len(view):
        begin = position_in(whole, view)
        found = _walked(whole, begin, begin + len(view))
    else:
        found = _looked_up(view)
    if found is None:
        return None
    found = _only(found, found["attributes"] & CONTROL_BIT == 0)
    is_in_order = (found["base_offset"][1:] > found["last_offset"][:-1]).all()
    found = _only(found, found["record_count"] != 0)
    attributes = found["attributes"]
    columns = BatchHeaders(
        base_offset=found["base_offset"],
        last_offset=found["last_offset"],
        base_timestamp_ms=found["base_timestamp_ms"],
        max_timestamp_ms=found["max_timestamp_ms"],
        has_append_time=attributes & LOG_APPEND_TIME_BIT != 0,
        record_count=found["record_count"],
    )
    codec = attributes & CODEC_MASK
    is_plain = (
        is_in_order
        and columns.have_room
        and (not codec.any() or (only_headers and columns.are_dense and codec.max() < CODEC_COUNT))
    )
    if not is_plain:
        return None
    return PlainBatches(buffer=view, start=found["start"], end=found["end"], headers=columns)


def _only(found: dict[str, Numbers], rows: NDArray[np.bool_]) -> dict[str, Numbers]:
    return found if rows.all() else {name: column[rows] for name, column in found.items()}


def position_in(whole: bytes, view: memoryview) -> int:
    """Where a view of bytes begins in them."""
    here, begin = (np.frombuffer(one, np.uint8).ctypes.data for one in (view, whole))
    return int(here - begin)


def _walked(data: bytes, begin: int, end: int) -> dict[str, Numbers] | None:
    """The columns of `header_walk` of a span's batches; `None` unless all are whole and sound."""
    found = np.frombuffer(
        memoryview(header_walk.find_headers(data, begin, end, checksum_function())), np.int64
    )
    if not len(found):
        return None
    rows = found.reshape(len(header_walk.COLUMNS), -1)
    columns = dict(zip(header_walk.COLUMNS, rows, strict=True))
    if begin:
        columns["start"], columns["end"] = columns["start"] - begin, columns["end"] - begin
    return columns


def _looked_up(view: memoryview) -> dict[str, Numbers] | None:
    """As `_walked`, where nothing is compiled."""
    starts = _starts(view)
    if starts is None:
        return None
    headers = b"".join([view[one : one + HEADER_SIZE] for one in starts[:-1]])
    found = np.frombuffer(headers, _header_type())
    is_sound = (found["magic"] == 2).all() and (found["last_offset_delta"] >= 0).all()
    if not is_sound or _checksums(view, starts) != found["crc"].tolist():
        return None
    base = found["base_offset"].astype(np.int64)
    return {
        "start": np.array(starts[:-1], np.int64),
        "end": np.array(starts[1:], np.int64),
        "base_offset": base,
        "last_offset": base + found["last_offset_delta"],
        "base_timestamp_ms": found["base_timestamp"].astype(np.int64),
        "max_timestamp_ms": found["max_timestamp"].astype(np.int64),
        "attributes": found["attributes"].astype(np.int64),
        "record_count": found["record_count"].astype(np.int64),
    }


def _starts(view: memoryview) -> list[int] | None:
    """The position of each batch, and the end; `None` if they do not fill the buffer."""
    starts, position, size = [0], 0, len(view)
    unpack = _LENGTH.unpack_from
    while position < size:
        if position + HEADER_SIZE > size:
            return None
        length: int = unpack(view, position + BASE_OFFSET.size)[0]
        if length < HEADER_SIZE - LENGTH_END:
            return None
        position += length + LENGTH_END
        starts.append(position)
    return starts if position == size and size else None


def _checksums(view: memoryview, starts: Sequence[int]) -> list[int]:
    begin = ATTRIBUTES_POSITION
    return [crc32c(view[start + begin : end]) for start, end in pairwise(starts)]


@cache
def _header_type() -> Any:
    return np.dtype([(name, f">{code}") for name, code in FIELDS.items()])
