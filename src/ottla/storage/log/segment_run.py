"""Rolled segments that follow each other, each read whole: of ten thousand, a search, a check and a
descriptor that is kept for each would cost most of a scan.

`SegmentRun` is found under the log's lock, without reading, and read without it. A run in which
anything is unusual is left to `LogReader.read`, which says what is wrong. Kafka has no counterpart:
it reads one segment at a time.
"""

from collections.abc import Iterator, Sequence

from ottla.base.files import FileSlice
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, batch_at
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.segment.segment import Segment

MAX_COUNT = 32
"""Segments of one run: each has a descriptor until it is read, and is opened under the lock."""


@dataclass(frozen=True, slots=True)
class WholeSegment:
    """All batches of a rolled segment, in a file opened for this one read."""

    found: FileSlice
    base_offset: int
    next_offset: int
    """The base offset of the segment after it."""
    epoch: int | None
    """The leader epoch of all its batches, if it is known."""
    is_checked: bool
    """Whether its headers were checked before, so that gaps between them are known to be right."""

    def batches(self, data: bytes, position: int) -> Iterator[Batch]:
        """Its batches, which are at a position of `data`; raises `InvalidBatchError`."""
        end, due = position + self.found.size, self.base_offset
        while position < end:
            batch = batch_at(data, position)
            batch.check()
            first = batch.base_offset
            is_due = first == due or (self.is_checked and first > due)
            if batch.magic != 2 or not is_due:
                raise InvalidBatchError("it is not the batch that is due")
            if self.epoch is not None and batch.partition_leader_epoch != self.epoch:
                raise InvalidBatchError("it is of another epoch")
            yield batch
            position, due = position + batch.size, batch.next_offset
        is_whole = due == self.next_offset or (self.is_checked and due < self.next_offset)
        if position != end or not is_whole:
            raise InvalidBatchError("the segment does not end where the next one begins")


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """One or more segments, without a gap between their offsets."""

    segments: Sequence[WholeSegment]
    aborted: Sequence[AbortedTransaction]

    @property
    def next_offset(self) -> int:
        return self.segments[-1].next_offset

    def read(self) -> tuple[bytes, list[Batch]] | None:
        """The bytes of all segments and their checked batches, and closes the files; `None` if
        anything is unusual. Raises `OSError`.
        """
        try:
            data = b"".join([one.found.read() for one in self.segments])
        finally:
            self.close()
        batches: list[Batch] = []
        position = 0
        try:
            for one in self.segments:
                batches.extend(one.batches(data, position))
                position += one.found.size
        except InvalidBatchError:
            return None
        return data, batches

    def close(self) -> None:
        for one in self.segments:
            one.found.file.close()

    def file_of(self, batch: Batch) -> FileSlice:
        """The slice that has a batch, by its offset; its file is closed."""
        return next(one.found for one in self.segments if batch.base_offset < one.next_offset)


def whole_segments(
    there: Iterator[Segment], epochs: LeaderEpochs, until_offset: int, max_size: int
) -> Iterator[WholeSegment]:
    """The segments at the start of `there` that are rolled, end at or before an offset, and
    together have at most so many bytes. Ends before a file that cannot be opened.
    """
    segment = next(there, None)
    epoch, epoch_until = None, 0
    for _ in range(MAX_COUNT):
        following = next(there, None)
        if segment is None or following is None or following.base_offset > until_offset:
            return
        size = segment.log.written_size
        if not 0 < size <= max_size or size != segment.log.size:
            return
        if following.base_offset > epoch_until:
            epoch, _, epoch_until = epochs.range_of(segment.base_offset)
        if following.base_offset > epoch_until:
            return  # it has batches of several epochs
        try:
            found = segment.log.lend()
        except OSError:
            return
        yield WholeSegment(
            found,
            segment.base_offset,
            following.base_offset,
            epoch,
            not segment.unchecked_size,
        )
        max_size -= size
        segment = following
