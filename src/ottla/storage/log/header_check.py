"""Checks that the headers of stored batches are consistent, before the batches are read.

The CRC of a batch does not cover its base offset, length, leader epoch and magic. But offsets
ascend, batches fill their file, and the epochs are also in a file of their own, so a damaged header
contradicts its neighbours. Each batch that this process has found on the disk is checked once, when
it is first read; batches that it has written or recovered are not checked. Kafka serves such
batches unchecked. docs/durability.md lists what cannot be detected.
"""

import logging
from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSlice
from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.record.batch import Batch, InvalidBatchError
from ottla.storage import scan
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.files.log_file import LogFile
from ottla.storage.log.gap_entries import GapEntries
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.offsets import LogOffsets
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """The position, offsets and epoch in the header of a batch."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int | None
    """`None` in the old formats, which have no epochs."""

    @property
    def end(self) -> int:
        return self.position + self.size


class HeaderCheck:
    """The header check of one log; each call uses the log's current segments and epochs."""

    __slots__ = ("_epochs", "_offsets", "_segments")

    def __init__(self, segments: Segments, epochs: LeaderEpochs, offsets: LogOffsets) -> None:
        self._offsets = offsets
        self._segments = segments
        self._epochs = epochs

    def sound_part(
        self, found: FileSlice | None, segment: Segment, offset: int
    ) -> FileSlice | None:
        """The slice found for an offset, cut before the first damaged header.

        Raises `CorruptionError` if the first header is damaged, or if damage may be the reason why
        nothing was found.
        """
        unchecked = segment.unchecked_size
        position, size = (found.position, found.size) if found else (unchecked, 0)
        if position > unchecked:
            return found
        end = min(position + size, unchecked)
        known = segment.checked_ranges.end_after(position)
        if known is not None and known >= end:
            return found
        if known is None:
            # If nothing was found, the whole search range is checked for the damage that caused it.
            start = _start_before(segment, offset)
            wanted = start if found is None else position
        else:
            start = wanted = known
            error = segment.checked_ranges.errors.get(known)
            if error is not None and known <= position:
                raise error
            if error is not None:
                return _cut(found, known)
        epochs = EpochRanges(self._epochs)
        is_known = known is not None
        walk = Walk(segment, start, epochs, self._limit_of(segment), is_known=is_known)
        walk.offset = offset
        error = _run(walk, wanted, end)
        if error is None:
            return found
        if found is None or walk.sound_end <= position:
            raise error
        logger.error("%s; batches before it are served", error)
        return _cut(found, walk.sound_end)

    def check(self, segment: Segment, offset: int, position: int, end: int) -> None:
        """Raises `CorruptionError` if a header between two positions is damaged.

        A search for `offset` begins at `position`.
        """
        if not segment.unchecked_size:
            return
        log = segment.log
        found = self.sound_part(log.slice(position, end - position), segment, offset)
        if found is not None and found.size < end - position:
            # The check of the part that was cut off raises its error.
            self.sound_part(log.slice(position + found.size, 1), segment, offset)

    def _limit_of(self, segment: Segment) -> int:
        """The offset before which a segment's last batch ends."""
        following = self._segments.after(segment)
        return self._offsets.log_end_offset if following is None else following.base_offset


def _run(walk: "Walk", wanted: int, end: int) -> CorruptionError | None:
    """Runs a walk up to `end` and records the checked range; returns the error that ended it."""
    segment = walk.segment
    error: CorruptionError | None = None
    try:
        walk.run(wanted, end)
    except CorruptionError as found:
        error = found
    if walk.sound_end > walk.sound_start:
        segment.checked_ranges.add(walk.sound_start, walk.sound_end)
        if error is not None:
            segment.checked_ranges.errors[walk.sound_end] = error
    if error is None and segment.checked_ranges.end_after(0) == segment.log.written_size:
        segment.unchecked_size = 0
    return error


def _cut(found: FileSlice | None, end: int) -> FileSlice | None:
    return found and FileSlice(found.file, found.position, end - found.position)


def checked_end(segment: Segment, known_end: int | None) -> int:
    """The offset after a segment's last batch, with the batches after the last index entry checked.

    `known_end` is the end recorded at a clean shutdown, if any. Raises `CorruptionError`.
    """
    size = segment.log.written_size
    if size == 0:
        return segment.base_offset
    start = _start_before(segment, MAX_OFFSET)
    nothing_known = EpochRanges(None)
    walk = Walk(segment, start, nothing_known, segment.base_offset + INT32_MAX + 1, is_known=False)
    walk.run(0, size)
    last = walk.before
    assert last is not None
    end = last.last_offset + 1
    if known_end is not None and end != known_end:
        if walk.gap and end - walk.gap == known_end:
            raise walk.error(last, f"the log ended at offset {known_end}")
        # Either the batch or the recorded end is damaged; the batch's CRC decides.
        scan.sound_batch(segment.log, last.position)
    return end


def _start_before(segment: Segment, offset: int) -> int:
    """The position of a batch before the one at which a search for an offset begins.

    A batch's base offset can only be checked against the batch before it.
    """
    found = scan.header_at(segment.log, start) if (start := segment.search_start(offset)) else None
    return 0 if found is None else segment.search_start(found.last_offset - 1)


class Walk:
    """Checks the headers of a segment one by one; `sound_start` and `sound_end` bound the result.

    The first batch of the walk has no batch before it to compare with. It is not counted as
    checked, unless it is the segment's first or was checked earlier (`is_known`).
    """

    def __init__(
        self, segment: Segment, start: int, epochs: "EpochRanges", limit: int, *, is_known: bool
    ) -> None:
        self.segment = segment
        self._log = segment.log
        self._base_offset = segment.base_offset
        self._start = start
        self._limit = limit
        self._epochs = epochs
        self.before: Place | None = None
        self.gap = 0
        self._follows = False
        self.is_known = is_known
        # -1 also includes position 0: the segment's first batch has none before it.
        self.sound_start = start if start else -1
        self.sound_end = start
        self._gap_entries = GapEntries(segment)
        self.offset = MAX_OFFSET
        """The offset that is searched for; a damaged batch before `wanted` may hold it."""
        self._passed: CorruptionError | None = None

    def run(self, wanted: int, end: int) -> None:
        """Checks the batches that begin before position `end`, and one more.

        Raises `CorruptionError` for a damaged header at or after position `wanted`.
        """
        try:
            for place in places(self._log, self._start):
                self._take(place, wanted)
                if place.position >= end:
                    return
        except CorruptionError:
            if self._follows and self.before is not None:
                # The last batch begins where it should, and its CRC shows whether its length is
                # right.
                scan.sound_batch(self._log, self.before.position)
                self.sound_end = self.before.end
            raise
        last = self.before
        if last is not None and last.last_offset + 1 < self._limit:
            self._gap_entries.check_gap(last.last_offset + 1, self._limit, last.end)
        self.sound_end = self._log.written_size

    def _take(self, place: Place, wanted: int) -> None:
        before = self.before
        self._check_bounds(place)
        if place.position == wanted and self._passed and place.base_offset > self.offset:
            raise self._passed
        if before is None:
            is_first = self._start == 0
            self.gap = place.base_offset - self._base_offset if is_first else 0
            self._follows = is_first and self.gap == 0
            if self.gap:
                self._gap_entries.check_gap(self._base_offset, place.base_offset, place.position)
            if not is_first and not self.is_known:
                self.sound_start = place.end
        elif place.base_offset > before.last_offset:
            self.gap = place.base_offset - before.last_offset - 1
            self._follows = self.gap == 0
            self._passed = None
            if self.gap:
                # Only here, so that the indexes are not opened for segments without gaps.
                self._gap_entries.check_gap(
                    before.last_offset + 1, place.base_offset, place.position
                )
            self.sound_end = place.position
        else:
            error = self._fault(place, next_offset=before.last_offset + 1)
            assert error is not None
            if place.position >= wanted:
                raise error
            self._passed = error
            self._follows = False
            self.sound_start = self.sound_end = place.end
        if place.epoch is not None and not self._epochs.agree(place):
            if place.position >= wanted:
                self.before = None
                reason = f"its leader epoch {place.epoch} contradicts {self._epochs.path}"
                raise self.error(place, reason)
            self.sound_start = self.sound_end = place.end
        self.before = place

    def _check_bounds(self, place: Place) -> None:
        is_first = self._start == 0 and place.position == 0
        error = self._fault(place, start=self._base_offset if is_first else 0, limit=self._limit)
        if error is not None:
            raise error

    def _fault(
        self, place: Place, *, start: int = 0, next_offset: int = 0, limit: int = MAX_OFFSET + 1
    ) -> CorruptionError | None:
        offsets = place.base_offset, place.last_offset
        reason = scan.order_fault(*offsets, start, next_offset, limit)
        return None if reason is None else CorruptionError(self._log.path, place.position, reason)

    def error(self, place: Place, reason: str) -> CorruptionError:
        reason = scan.misplaced_text(place.base_offset, place.last_offset, reason)
        return CorruptionError(self._log.path, place.position, reason)


class EpochRanges:
    """Compares the epochs of batches with the log's leader epoch file; true without a file."""

    __slots__ = ("_epoch", "_epochs", "_from", "_until")

    def __init__(self, epochs: LeaderEpochs | None) -> None:
        self._epochs = epochs
        self._from = self._until = 0
        self._epoch: int | None = None

    @property
    def path(self) -> str:
        return self._epochs.path if self._epochs else ""

    def agree(self, place: Place) -> bool:
        if self._epochs is None:
            return True
        if place.base_offset < self._from or place.last_offset >= self._until:
            # By its last offset: the log, and so its first epoch, may start inside a batch.
            self._epoch, self._from, self._until = self._epochs.range_of(place.last_offset)
            if place.base_offset < self._from and self._epochs.earliest_epoch != self._epoch:
                return False
        # Epochs of offsets before the first entry are unknown.
        return self._epoch is None or place.epoch == self._epoch


def places(log: LogFile, position: int) -> Iterator[Place]:
    """The places of the batches from `position` to the end of the file, by their headers.

    Raises `CorruptionError` for an invalid header, or a batch that ends after the file.
    """
    for found, header in scan.headers(log, position, allow_torn_tail=False):
        yield _place_of(log, found, header)


def _place_of(log: LogFile, position: int, header: Batch) -> Place:
    """The place of one batch; raises `CorruptionError`."""
    # A batch of an old format is read whole: its CRC covers the magic, which alone distinguishes
    # it from v2, and its first offset may be compressed.
    if header.magic >= 2:
        first, epoch = header.base_offset, header.partition_leader_epoch
        return Place(position, header.size, first, header.last_offset, epoch)
    batch = scan.sound_batch(log, position)
    try:
        return Place(position, batch.size, batch.base_offset, batch.last_offset, None)
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position, str(error)) from error
