"""The record batches that were read for a share group, by their headers.

They are walked only as far as records are acquired, and sent as they lie in the file.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSlice
from ottla.coordinator.share.records_in_flight import AcquiredRange, Offsets
from ottla.record.batch import InvalidBatchError, batch_at
from ottla.record.layout import HEADER_SIZE, LENGTH_END, MAGIC_END, struct_of
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.index.transaction_index import AbortedTransaction

FIELDS: Final = struct_of(
    "base_offset", "length", "magic", "attributes", "last_offset_delta", "producer_id"
)
IS_TRANSACTIONAL: Final = 1 << 4
IS_CONTROL: Final = 1 << 5

CHUNK_SIZE: Final = 1 << 16
SMALL_SIZE: Final = 1 << 13
"""Smaller batches are read many at a time; of larger ones only the header is read."""


class LogBatches:
    """Yields the first and last offset of each batch, once. `left_out` are the control batches and
    those of aborted transactions among them, which no member is to get.
    """

    def __init__(
        self,
        records: FileSlice,
        offset: int,
        aborted: Sequence[AbortedTransaction] | None,
        until: int | None = None,
    ) -> None:
        """The records were read from `offset` on; those from `until` on are left out."""
        self.left_out: list[Offsets] = []
        self._records = records
        self._next = offset
        self._aborted = aborted or ()
        self._until = MAX_OFFSET + 1 if until is None else until
        self._walked: list[tuple[int, int, int]] = []
        """The last offset of each batch, and where it begins and ends."""

    def __iter__(self) -> Iterator[Offsets]:
        """Raises `CorruptionError`."""
        records, position = self._records, 0
        chunk, chunk_start = b"", 0
        chunk_size = min(CHUNK_SIZE, records.size)
        while position < records.size:
            inside = position - chunk_start
            if inside + HEADER_SIZE > len(chunk):
                size = min(chunk_size, records.size - position)
                chunk = records.file.pread(size, records.position + position)
                chunk_start, inside = position, 0
            if len(chunk) - inside < MAGIC_END:
                return
            first, last, size = self._batch(chunk, inside, position)
            if position + size > records.size:
                return
            self._walked.append((last, position, position + size))
            position += size
            chunk_size = CHUNK_SIZE if size < SMALL_SIZE else HEADER_SIZE
            self._next = last + 1
            if first >= self._until:
                return
            yield first, min(last, self._until - 1)

    def _batch(self, chunk: bytes, inside: int, position: int) -> tuple[int, int, int]:
        """The first and last offset of a batch, and its size."""
        if len(chunk) >= inside + HEADER_SIZE:
            first, length, magic, attributes, delta, producer_id = FIELDS.unpack_from(chunk, inside)
            if magic == 2 and delta >= 0 and length + LENGTH_END >= HEADER_SIZE:
                last = first + delta
                if attributes & IS_CONTROL or (
                    attributes & IS_TRANSACTIONAL and self._is_aborted(producer_id, first)
                ):
                    self.left_out.append((first, last))
                return first, last, length + LENGTH_END
        try:
            batch = batch_at(chunk, inside)
        except InvalidBatchError as error:
            path = self._records.file.path
            raise CorruptionError(path, self._records.position + position, str(error)) from error
        # Of compressed entries of the old formats only the last offset is known.
        return self._next, batch.last_offset, batch.size

    def _is_aborted(self, producer_id: int, offset: int) -> bool:
        return any(
            one.producer_id == producer_id and one.first_offset <= offset <= one.last_offset
            for one in self._aborted
        )

    def around(self, acquired: Sequence[AcquiredRange]) -> FileSlice:
        """The whole batches in which acquired records lie, and those between."""
        first, last = acquired[0].first, acquired[-1].last
        start = next(begin for end, begin, _ in self._walked if end >= first)
        stop = next(stop for end, _, stop in self._walked if end >= last)
        records = self._records
        return FileSlice(records.file, records.position + start, stop - start)
