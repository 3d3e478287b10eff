"""Checks that the headers of stored batches follow each other, before the batches are read.

No checksum covers a batch's base offset, length, leader epoch and magic. But offsets ascend,
batches fill their file, and the epochs are in a file of their own: so a header that changed on the
disk contradicts its neighbours. What a process has found in a segment it looks at once, read by
read, and only as far as it reads; what it has written or recovered itself it need not look at.
Kafka serves such batches as they are. docs/durability.md lists what cannot be detected.
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
    """The place that a header states for its batch."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int | None
    """`None` in the formats that have none."""

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
        """What was found for an offset, up to the first header that cannot be.

        Raises `CorruptionError` when that is the very first.
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
            # Damage may be the reason why nothing was found.
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
        logger.error("%s; what lies before it can be read", error)
        return _cut(found, walk.sound_end)

    def check(self, segment: Segment, offset: int, position: int, end: int) -> None:
        """Raises `CorruptionError` unless all batches between two positions can be where they are.

        `position` is where a search for `offset` begins.
        """
        if not segment.unchecked_size:
            return
        log = segment.log
        found = self.sound_part(log.slice(position, end - position), segment, offset)
        if found is not None and found.size < end - position:
            # Again, of what could not be read.
            self.sound_part(log.slice(position + found.size, 1), segment, offset)

    def _limit_of(self, segment: Segment) -> int:
        """The offset before which a segment's last batch ends."""
        following = self._segments.floor_index(segment.base_offset) + 1
        values = self._segments.values
        return (
            values[following].base_offset
            if following < len(values)
            else self._offsets.log_end_offset
        )


def _run(walk: "Walk", wanted: int, end: int) -> CorruptionError | None:
    """Remembers what was found sound up to `end`; returns what is wrong before it."""
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
    """The offset after a segment's last batch, once what follows its last index entry is compared
    with its neighbours, and with the end that a clean stop has recorded.

    Raises `CorruptionError`.
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
        # One of the two is wrong; the batch has a checksum.
        scan.sound_batch(segment.log, last.position)
    return end


def _start_before(segment: Segment, offset: int) -> int:
    """The position of a batch before the one from which a search for an offset begins.

    Only the batch before shows whether a batch is where it says.
    """
    found = scan.header_at(segment.log, start) if (start := segment.search_start(offset)) else None
    return 0 if found is None else segment.search_start(found.last_offset - 1)


class Walk:
    """From header to header of a segment: `sound_start` and `sound_end` bound what is sound.

    Where it begins, unless that is the segment's start or was known before, nothing shows
    whether the first batch is where it belongs: only those after it are checked.
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
        # Before the first byte there is nothing to contradict it.
        self.sound_start = start if start else -1
        self.sound_end = start
        self._gap_entries = GapEntries(segment)
        self.offset = MAX_OFFSET
        """What is searched for: one that is skipped may have held it."""
        self._passed: CorruptionError | None = None

    def run(self, wanted: int, end: int) -> None:
        """Looks at the batches that begin before `end`, and at one more after them.

        Raises `CorruptionError` where one at `wanted` or after it cannot be.
        """
        try:
            for place in places(self._log, self._start):
                self._take(place, wanted)
                if place.position >= end:
                    return
        except CorruptionError:
            if self._follows and self.before is not None:
                # It lies where it should, but where it ends only its checksum can show.
                scan.sound_batch(self._log, self.before.position)
                self.sound_end = self.before.end
            raise
        last = self.before
        if last is not None and last.last_offset + 1 < self._limit:
            self._gap_entries.name_those(last.last_offset + 1, self._limit, last.end)
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
                self._gap_entries.name_those(self._base_offset, place.base_offset, place.position)
            if not is_first and not self.is_known:
                self.sound_start = place.end
        elif place.base_offset > before.last_offset:
            self.gap = place.base_offset - before.last_offset - 1
            self._follows = self.gap == 0
            self._passed = None
            if self.gap:
                # Most batches follow each other: for them not even the indexes are opened.
                self._gap_entries.name_those(
                    before.last_offset + 1, place.base_offset, place.position
                )
            self.sound_end = place.position
        else:
            error = self.error(place, f"offset {before.last_offset} lies before it")
            if place.position >= wanted:
                raise error
            self._passed = error
            self._follows = False
            self.sound_start = self.sound_end = place.end
        if place.epoch is not None and not self._epochs.agree(place):
            if place.position >= wanted:
                self.before = None
                reason = f"{self._epochs.path} has another leader epoch than {place.epoch} for them"
                raise self.error(place, reason)
            self.sound_start = self.sound_end = place.end
        self.before = place

    def _check_bounds(self, place: Place) -> None:
        if self._start == 0 and place.position == 0 and place.base_offset < self._base_offset:
            raise self.error(place, f"the segment begins at offset {self._base_offset}")
        if place.last_offset >= self._limit:
            raise self.error(place, f"the segment ends before offset {self._limit}")

    def error(self, place: Place, reason: str) -> CorruptionError:
        offsets = f"offsets {place.base_offset} to {place.last_offset}"
        return CorruptionError(
            self._log.path, place.position, f"a batch of {offsets} is out of place: {reason}"
        )


class EpochRanges:
    """Whether batches have the epochs that their log's file gives to their offsets."""

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
            # By its end: a log may start in the middle of a batch, and its first epoch does too.
            self._epoch, self._from, self._until = self._epochs.range_of(place.last_offset)
            if place.base_offset < self._from and self._epochs.earliest_epoch != self._epoch:
                return False
        # Nothing is known of what lies before the first entry.
        return self._epoch is None or place.epoch == self._epoch


def places(log: LogFile, position: int) -> Iterator[Place]:
    """Where the headers say that the batches from `position` are, to the end of the file.

    Raises `CorruptionError` for what is no header of a batch that ends within the file.
    """
    for found, header in scan.headers(log, position, allow_torn_tail=False):
        yield _place_of(log, found, header)


def _place_of(log: LogFile, position: int, header: Batch) -> Place:
    """An old batch is read whole: its checksum covers the magic, which alone distinguishes it from
    a new one, and the first offset may be packed."""
    if header.magic >= 2:
        first, epoch = header.base_offset, header.partition_leader_epoch
        return Place(position, header.size, first, header.last_offset, epoch)
    batch = scan.sound_batch(log, position)
    try:
        return Place(position, batch.size, batch.base_offset, batch.last_offset, None)
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position, str(error)) from error
