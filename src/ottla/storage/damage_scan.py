"""Scans a log file that another process may have open, and reports damage instead of failing.

Format pages: docs/format/record-batch.md and docs/format/message-set.md. Bytes are read, never
mapped: a broker that truncates the file meanwhile would kill a process that maps it. After damage
the scan searches for the next intact batch, so that one bad sector in an old segment does not hide
everything after it. Recovery, in Kafka and here, truncates the log at the first bad batch instead,
which is right for the torn tail that a crash leaves. The walks in `scan` step by the size in each
header and end at the first invalid one; here the size may be damaged, so after damage each step
searches for the next batch. `scan` defines where a batch's offsets may be.
"""

from collections.abc import Iterator

from ottla.base.files import File
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.record.batch import MIN_LEGACY_SIZE, Batch, InvalidBatchError, batch_at
from ottla.record.layout import HEADER_SIZE, LENGTH_END, MAGIC_POSITION, OFFSET_AND_LENGTH
from ottla.storage.scan import ahead_of_next, first_offset_in_header, out_of_place

WINDOW_SIZE = 1 << 20
MAX_OFFSETS = 1 << 31
"""The maximum span of a segment's offsets, for which the indexes have 4 bytes."""

EMPTY_PREFIX = bytes(LENGTH_END)
"""No batch begins with these bytes, since its length is above zero."""

_NOT_ZERO = lazy_pattern(rb"[^\0]")


@dataclass(frozen=True, slots=True)
class ScannedBatch:
    """A batch with a correct checksum, and its position."""

    position: int
    batch: Batch

    @property
    def end(self) -> int:
        return self.position + self.batch.size


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRegion:
    """A range of bytes, from `position` on, that is not a valid batch."""

    position: int
    size: int
    reason: str
    batch: Batch | None = None
    """The region's header, if there is one; not to be trusted."""
    is_tail: bool
    """Whether the region reaches the end of the file."""
    is_zero: bool = False
    """Whether all its bytes are zero: preallocated space, or blocks never written."""
    is_misplaced: bool = False
    """Whether `batch` is intact, and only its offset is wrong (see `scan_segment`)."""

    @property
    def end(self) -> int:
        return self.position + self.size

    def stated_end(self, due_offset: int) -> int:
        """The offset after the damaged batch that was due, if its header makes sense; else one."""
        batch = self.batch
        is_due = batch is not None and batch.magic == 2 and batch.base_offset == due_offset
        if batch is not None and is_due and batch.record_count == batch.last_offset_delta + 1:
            return batch.last_offset + 1
        return due_offset + 1


def scan_log(file: File, base_offset: int) -> Iterator[ScannedBatch | DamagedRegion]:
    """Yields a file's intact batches and damaged regions in order, by sizes and checksums alone."""
    return _Scan(file, base_offset).run()


def is_torn_append(file: File, base_offset: int, position: int, *, is_complete: bool) -> bool:
    """Whether the bytes from a position on may be what a crash has left of the last append.

    An intact batch after them was written later, so they are damage. If the log `is_complete`, only
    a killed process can have cut the append short: a whole batch is damage then too.
    """
    scan = _Scan(file, base_offset)
    return not scan.has_batch_after(position) and not (is_complete and scan.is_whole(position))


def scan_segment(
    file: File, base_offset: int, limit: int
) -> Iterator[ScannedBatch | DamagedRegion]:
    """Like `scan_log`, but also reports a batch outside the segment's offsets, or out of order, as
    damage.

    If a batch does not follow the previous one, either can be the misplaced one: see
    `ahead_of_next`.
    """
    size = file.size()
    held: ScannedBatch | None = None
    due = base_offset
    for one in scan_log(file, base_offset):
        reason = None
        if isinstance(one, ScannedBatch):
            first = first_offset_in_header(one.batch)
            fits = out_of_place(one.batch, base_offset, due, limit) is None
            ahead = ahead_of_next(held.batch, due, first) if held is not None and fits else None
            if held is not None and ahead is not None:
                yield misplaced_region(held, size, ahead)
                held = one
                continue
            next_offset = due if held is None else held.batch.last_offset + 1
            reason = out_of_place(one.batch, base_offset, next_offset, limit)
        if held is not None:
            yield held
            due, held = held.batch.last_offset + 1, None
        if isinstance(one, DamagedRegion):
            yield one
        elif reason is not None:
            yield misplaced_region(one, size, reason)
        else:
            held = one
    if held is not None:
        yield held


def misplaced_region(one: ScannedBatch, size: int, reason: str) -> DamagedRegion:
    """A sound batch with a wrong base offset as damage; `size` is the file's."""
    return DamagedRegion(
        position=one.position,
        size=one.batch.size,
        reason=reason,
        batch=one.batch,
        is_tail=one.end == size,
        is_misplaced=True,
    )


class _Scan:
    def __init__(self, file: File, base_offset: int) -> None:
        self._file = file
        self._end = file.size()
        self._offsets = range(base_offset, base_offset + MAX_OFFSETS)
        self._offset_prefix = _common_prefix(self._offsets[0], self._offsets[-1])
        self._window = b""
        self._window_start = 0

    def run(self) -> Iterator[ScannedBatch | DamagedRegion]:
        position = 0
        while position < self._end:
            found = self._batch_or_damage(position)
            yield found
            position = found.end

    def has_batch_after(self, position: int) -> bool:
        return self._next_batch(position + 1) < self._end

    def is_whole(self, position: int) -> bool:
        """Whether a batch begins at a position, and the file is as long as it says.

        A damaged header has a sound length if the file ends exactly there.
        """
        try:
            return position + self._header(position).size <= self._end
        except InvalidBatchError:
            prefix = self._read(position, LENGTH_END)
        if len(prefix) < LENGTH_END:
            return False
        length: int = OFFSET_AND_LENGTH.unpack(prefix)[1]
        return position + LENGTH_END + length == self._end

    def _batch_or_damage(self, position: int) -> ScannedBatch | DamagedRegion:
        batch = None
        try:
            batch = self._header(position)
            batch = self._whole_batch(position, batch.size)
            batch.check()
        except InvalidBatchError as error:
            return self._damage(position, batch, str(error))
        return ScannedBatch(position, batch)

    def _header(self, position: int) -> Batch:
        return batch_at(self._read(position, HEADER_SIZE))

    def _whole_batch(self, position: int, size: int) -> Batch:
        rest = self._end - position
        if size > rest:
            raise InvalidBatchError(f"cut short: {size} bytes expected, {rest} found")
        return batch_at(self._read(position, size))

    def _damage(self, position: int, batch: Batch | None, reason: str) -> DamagedRegion:
        end = self._end
        nonzero = self._next_not_zero(position)
        if nonzero == end:
            reason = f"{end - position} zero bytes to the end of the file"
        else:
            end = self._end_of_damage(position, batch)
        return DamagedRegion(
            position=position,
            size=end - position,
            reason=reason,
            batch=batch,
            is_tail=end == self._end,
            is_zero=nonzero >= end,
        )

    def _end_of_damage(self, position: int, batch: Batch | None) -> int:
        """The end by the size in the header, if plausible, or the start of the next intact batch.

        A batch within that size may be part of a value that contains batches of another log; but if
        batches lead from there to the end by the header, the size is wrong.
        """
        following = self._next_batch(position + 1)
        stated = self._end + 1 if batch is None else position + batch.size
        if not self._may_follow(stated):
            return following
        if following >= stated:
            return stated
        if self._leads_to(following, stated):
            return following
        return stated if stated == self._end or self._sound_batch(stated) else following

    def _leads_to(self, position: int, target: int) -> bool:
        while position < target:
            batch = self._sound_batch(position)
            if batch is None:
                return False
            position += batch.size
        return position == target

    def _next_batch(self, position: int) -> int:
        """Returns the position of the next sound batch with a plausible successor; the end if there
        is none.
        """
        while (position := self._next_candidate(position)) < self._end:
            batch = self._sound_batch(position)
            if batch is not None and self._may_follow(position + batch.size):
                return position
            position += 1
        return self._end

    def _sound_batch(self, position: int) -> Batch | None:
        try:
            batch = self._whole_batch(position, self._header(position).size)
            batch.check()
        except InvalidBatchError:
            return None
        return batch if first_offset_in_header(batch) in self._offsets else None

    def _next_candidate(self, position: int) -> int:
        """The next position that may have an offset of this segment, a length and a magic."""
        while position + MAGIC_POSITION < self._end:
            window = self._read(position, WINDOW_SIZE)
            if len(window) <= MAGIC_POSITION:  # Another process has truncated the file.
                break
            inside = window.find(self._offset_prefix)
            while 0 <= inside < len(window) - MAGIC_POSITION:
                if window.startswith(EMPTY_PREFIX, inside):
                    # In a run of zeros every byte would be a candidate: go to its end.
                    nonzero = _NOT_ZERO.search(window, inside)
                    inside = (nonzero.start() if nonzero else len(window)) - len(EMPTY_PREFIX) + 1
                elif self._is_header(window, inside, self._end - position - inside):
                    return position + inside
                else:
                    inside += 1
                inside = window.find(self._offset_prefix, inside)
            position += len(window) - MAGIC_POSITION
        return self._end

    def _is_header(self, window: bytes, inside: int, rest: int) -> bool:
        size = OFFSET_AND_LENGTH.unpack_from(window, inside)[1] + LENGTH_END
        return MIN_LEGACY_SIZE <= size <= rest and window[inside + MAGIC_POSITION] <= 2

    def _may_follow(self, position: int) -> bool:
        """Whether the file may continue here: a header of this segment, nothing, or zeros."""
        if position >= self._end:
            return position == self._end
        try:
            return first_offset_in_header(self._header(position)) in self._offsets
        except InvalidBatchError:
            return self._next_not_zero(position) == self._end

    def _next_not_zero(self, position: int) -> int:
        while position < self._end:
            window = self._read(position, WINDOW_SIZE)
            nonzero = _NOT_ZERO.search(window)
            if nonzero is not None or not window:
                return position + (nonzero.start() if nonzero else 0)
            position += len(window)
        return self._end

    def _read(self, position: int, size: int) -> bytes:
        """Bytes from a window that moves forward; fewer only at the end of the file."""
        size = min(size, self._end - position)
        inside = position - self._window_start
        if inside < 0 or inside + size > len(self._window):
            self._window = self._file.pread(max(size, WINDOW_SIZE), position)
            self._window_start, inside = position, 0
        return self._window[inside : inside + size]


def _common_prefix(low: int, high: int) -> bytes:
    """The leading bytes that two offsets and all between them have in common."""
    one, other = low.to_bytes(8), high.to_bytes(8)
    return next((one[:size] for size in range(8, 0, -1) if one[:size] == other[:size]), b"")
