"""Iterates over the batches of a log, and checks them.

`headers` reads a file from header to header without payloads, `batches` iterates over whole batches
in memory, `whole_batches` returns how much of a chunk is whole batches, `search_offset` finds one
batch. Checks are small functions that raise `InvalidBatchError` with the reason; file and position
are added here (`CorruptionError`). The caller decides what follows: recovery truncates the log, a
reader fails, compaction skips the segment. `damage_scan` continues after damage.

Format pages: docs/format/record-batch.md and docs/format/message-set.md. Kafka's counterparts:
`FileRecords.batchesFrom` and `searchForOffsetWithSize`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.record import header_walk
from ottla.record.batch import MIN_LEGACY_SIZE, Batch, InvalidBatchError, batch_at, iter_batches
from ottla.record.layout import (
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_END,
    MAGIC_END,
    MAGIC_POSITION,
    OFFSET_AND_LENGTH,
    struct_of,
)
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.files.log_file import LogFile

FIRST_CHUNK_SIZE: Final[int] = 4096 + HEADER_SIZE
"""Bytes read first: an index interval and a header, so that most lookups read once."""

CHUNK_SIZE: Final = 1 << 16
"""Bytes read at once further on, where batches are small."""

SMALL_SIZE: Final = 1 << 14
"""Smaller batches are read many at a time; of larger ones only the header is read."""

PLACE: Final = struct_of("base_offset", "length", "magic", "last_offset_delta")
"""The fields of a v2 header that are needed to skip the batch."""

Step = tuple[int, Batch]
"""A batch and the position in its file where it begins."""

Check = Callable[[Batch], None]
"""Called with each batch in order; raises `InvalidBatchError` for an invalid one."""


def headers(
    log: LogFile,
    position: int = 0,
    until: int | None = None,
    *,
    checks: Sequence[Check] = (),
    allow_torn_tail: bool = True,
) -> Iterator[Step]:
    """Yields the batches from `position` by their headers; payloads may be missing.

    Ends at `until` or after the last whole batch. Raises `CorruptionError` for an invalid header, a
    failed check, and unless `allow_torn_tail` for an incomplete last batch.
    """
    end = log.written_size if until is None else min(until, log.written_size)
    chunk, chunk_start, chunk_size = b"", position, FIRST_CHUNK_SIZE
    while position < end:
        inside = position - chunk_start
        if inside + HEADER_SIZE > len(chunk):
            chunk, chunk_start, inside = log.read(position, chunk_size), position, 0
        if len(chunk) - inside < MAGIC_END:
            break
        batch = _header_in(chunk, inside, log.path, position)
        size = batch.size
        if position + size > end:
            break
        if checks:
            run_checks(checks, batch, log.path, position)
        yield position, batch
        position += size
        chunk_size = CHUNK_SIZE if size < SMALL_SIZE else HEADER_SIZE
    if position < end and not allow_torn_tail:
        raise CorruptionError(log.path, position, "a batch goes beyond the end of the file")


def batches(
    buffer: Buffer,
    path: str,
    start: int = 0,
    *,
    checks: Sequence[Check] = (),
    allow_torn_tail: bool = False,
) -> Iterator[Step]:
    """Yields the whole batches in bytes from position `start` of the file at `path`.

    Raises `CorruptionError` like `headers`.
    """
    position = start
    try:
        for batch in iter_batches(buffer, allow_torn_tail=allow_torn_tail):
            for check in checks:
                check(batch)
            yield position, batch
            position += batch.size
    except InvalidBatchError as error:
        raise CorruptionError(path, position, str(error)) from error


def search_offset(log: LogFile, offset: int, position: int) -> Step | None:
    """The first batch from `position` that ends at `offset` or later, with its position."""
    # Every fetch calls this: batches are skipped without a view of each.
    end = log.written_size
    chunk, chunk_start, chunk_size = b"", position, FIRST_CHUNK_SIZE
    while position < end:
        inside = position - chunk_start
        if inside + HEADER_SIZE > len(chunk):
            # Not past the end of the file, which would take a second system call to detect.
            size = min(chunk_size, end - position)
            chunk, chunk_start, inside = log.read(position, size), position, 0
            # The first chunk covers an index interval: few batches follow, one header suffices.
            chunk_size = HEADER_SIZE
        if len(chunk) >= inside + HEADER_SIZE:
            base_offset, length, magic, delta = PLACE.unpack_from(chunk, inside)
            size = length + LENGTH_END
            is_sound = magic == 2 and delta >= 0 and HEADER_SIZE <= size <= end - position
            if is_sound and 0 <= base_offset < offset - delta:
                position += size
                continue
        elif len(chunk) - inside < MAGIC_END:
            return None
        # The wanted batch, one of an old format, or an invalid header.
        header = _header_in(chunk, inside, log.path, position)
        if position + header.size > end:
            return None
        if header.last_offset >= offset:
            return position, header
        position += header.size
    return None


def header_at(log: LogFile, position: int) -> Batch | None:
    """The header of a batch that is wholly in the file, or `None` for anything else."""
    end = log.written_size
    if not 0 <= position < end:
        return None
    try:
        header = batch_at(log.read(position, HEADER_SIZE), 0)
    except InvalidBatchError:
        return None
    return header if position + header.size <= end else None


def batch_of(log: LogFile, position: int) -> Batch:
    """The whole batch at a position, unchecked; raises `CorruptionError` when there is none."""
    header = _header_in(log.read(position, HEADER_SIZE), 0, log.path, position)
    return _header_in(log.read(position, header.size), 0, log.path, position)


def sound_batch(log: LogFile, position: int) -> Batch:
    """The batch at a position; raises `CorruptionError` when its checksum is wrong."""
    batch = batch_of(log, position)
    run_checks((checksum,), batch, log.path, position)
    return batch


def last_header(log: LogFile, position: int = 0) -> Step | None:
    """The last batch of a file from `position` on; raises as `headers` does."""
    last: Step | None = None
    for step in headers(log, position):
        last = step
    return last


def _header_in(buffer: bytes, inside: int, path: str, position: int) -> Batch:
    try:
        return batch_at(buffer, inside)
    except InvalidBatchError as error:
        raise CorruptionError(path, position, str(error)) from error


# Whole batches of a chunk, without a view of each


class Span:
    """The offsets to read; all before `next_offset` have been read."""

    __slots__ = ("due_offset", "limit", "next_offset", "on_gap", "until_offset")

    def __init__(self, base_offset: int, until_offset: int, limit: int | None) -> None:
        self.next_offset = base_offset
        self.until_offset = until_offset
        self.limit = MAX_OFFSET + 1 if limit is None else limit
        self.due_offset = base_offset
        """The next batch's first offset, unless there is a gap before it."""
        self.on_gap: Callable[[str, int, tuple[int, int]], None] | None = None


@dataclass(frozen=True, slots=True)
class WholeBatches:
    size: int
    last_offset: int
    next_size: int | None
    """The bytes to read for one more batch; `None` after the last wanted batch."""


def whole_batches(log: LogFile, chunk: memoryview, position: int, span: Span) -> WholeBatches:
    """Returns how much of a chunk is whole batches that begin before the span's end.

    Bytes after a batch that reaches the span's end may be torn, and are not examined.
    """
    start, until_offset = _usual_size(chunk, span), span.until_offset
    last_offset = span.due_offset - 1 if start else -1
    while start + MIN_LEGACY_SIZE <= len(chunk):
        offset, length = OFFSET_AND_LENGTH.unpack_from(chunk, start)
        size = length + LENGTH_END
        is_legacy = chunk[start + MAGIC_POSITION] < 2
        if size < (MIN_LEGACY_SIZE if is_legacy else HEADER_SIZE):
            raise CorruptionError(log.path, position + start, "there is no batch")
        if start + size > len(chunk):
            return WholeBatches(start, last_offset, size)
        # A compressed batch of the old formats carries its last offset here.
        if offset >= until_offset and (
            not is_legacy or _legacy_base_offset(log, chunk, start, position) >= until_offset
        ):
            if not is_legacy and offset != span.next_offset:
                _check_gap(log, position + start, span)
                if span.on_gap is not None and span.due_offset < until_offset:
                    gap = span.due_offset, until_offset
                    span.on_gap(log.path, position + start, gap)
            return WholeBatches(start, last_offset, None)
        last_offset = offset
        if not is_legacy:
            last_offset += LAST_OFFSET_DELTA.unpack_from(chunk, start + LAST_OFFSET_DELTA_POSITION)[
                0
            ]
        # No checksum covers a base offset: only its neighbours can contradict it.
        if not span.next_offset <= offset <= last_offset < span.limit:
            raise _misplaced(log, position + start, offset, last_offset, span)
        if offset > span.due_offset and not is_legacy and span.on_gap is not None:
            span.on_gap(log.path, position + start, (span.due_offset, offset))
        span.next_offset = span.due_offset = last_offset + 1
        start += size
        if last_offset + 1 >= until_offset:
            return WholeBatches(start, last_offset, None)
    is_end = position + start >= log.size
    return WholeBatches(start, last_offset, None if is_end else MIN_LEGACY_SIZE)


def _usual_size(chunk: memoryview, span: Span) -> int:
    """How much of a chunk is v2 batches that follow each other without a gap, not to the span's
    end. Of all others `whole_batches` says what they are, in more steps.
    """
    start, end, due = 0, len(chunk), span.due_offset
    until = min(span.until_offset, span.limit, MAX_OFFSET) if due == span.next_offset else due
    if due >= until:
        return 0
    whole = chunk.obj
    if header_walk.IS_COMPILED and isinstance(whole, bytes) and len(whole) == end:
        start, due = header_walk.following(whole, due, until)
        end = start  # Nothing is left for the loop below, which comes to the same.
    unpack = PLACE.unpack_from
    while start + HEADER_SIZE <= end:
        offset, length, magic, delta = unpack(chunk, start)
        following = offset + delta + 1
        after = start + length + LENGTH_END
        if (
            magic != 2
            or offset != due
            or not offset < following < until
            or not start + HEADER_SIZE <= after <= end
        ):
            break
        start, due = after, following
    if start:
        span.next_offset = span.due_offset = due
    return start


def _check_gap(log: LogFile, position: int, span: Span) -> None:
    """Raises `CorruptionError` for a batch whose offsets are after the next batch's."""
    header = header_at(log, position)
    if header is None or header.magic < 2:
        return
    following = header_at(log, position + header.size)
    if following is not None:
        reason = ahead_of_next(header, span.next_offset, first_offset_in_header(following))
        if reason is not None:
            raise CorruptionError(log.path, position, reason)
    if not span.next_offset <= header.base_offset < span.limit:
        raise _misplaced(log, position, header.base_offset, header.last_offset, span)


def _misplaced(log: LogFile, position: int, first: int, last: int, span: Span) -> CorruptionError:
    reason = order_fault(first, last, 0, span.next_offset, span.limit)
    return CorruptionError(
        log.path, position, reason or misplaced_text(first, last, "it ends first")
    )


def _legacy_base_offset(log: LogFile, chunk: memoryview, start: int, position: int) -> int:
    try:
        return batch_at(chunk, start).base_offset
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position + start, str(error)) from error


# Checks


def run_checks(checks: Sequence[Check], batch: Batch, path: str, position: int) -> None:
    """Raises `CorruptionError` for the first check that fails."""
    try:
        for check in checks:
            check(batch)
    except InvalidBatchError as error:
        raise CorruptionError(path, position, str(error)) from error


def checksum(batch: Batch) -> None:
    """Checks that the batch is complete and its checksum is right; a header is not enough."""
    batch.check()


class Ascending:
    """Checks that batches ascend, begin at `start` or later, and end before `limit`.

    No checksum covers a base offset: only a batch's neighbours and its segment contradict it.
    """

    def __init__(self, start: int, limit: int = MAX_OFFSET + 1) -> None:
        self.next_offset = start
        self._start = start
        self._limit = limit

    def __call__(self, batch: Batch) -> None:
        reason = out_of_place(batch, self._start, self.next_offset, self._limit)
        if reason is not None:
            raise InvalidBatchError(reason)
        self.next_offset = batch.last_offset + 1


def out_of_place(batch: Batch, start: int, next_offset: int, limit: int) -> str | None:
    """Returns the reason why a batch is out of place, or `None`."""
    return order_fault(first_offset_in_header(batch), batch.last_offset, start, next_offset, limit)


def order_fault(first: int, last: int, start: int, next_offset: int, limit: int) -> str | None:
    """The reason why a batch with these first and last offsets is out of place, or `None`.

    Its segment's offsets are from `start` to before `limit`, and those from `next_offset` are due.
    """
    if first < start:
        return misplaced_text(first, last, f"the segment begins at offset {start}")
    if last >= limit:
        return misplaced_text(first, last, f"the segment ends before offset {limit}")
    if first < next_offset:
        return misplaced_text(first, last, f"offset {next_offset - 1} precedes it")
    return None


def ahead_of_next(batch: Batch, due: int, following: int) -> str | None:
    """The reason why `batch`, expected at offset `due`, is misplaced, and not the next batch.

    The two overlap, and the next, at `following`, would fit without this one, which is after it or
    has left a gap.
    """
    first, last = first_offset_in_header(batch), batch.last_offset
    is_overlap = due <= following <= last
    if is_overlap and (following < first or first != due):
        return misplaced_text(first, last, f"the next batch begins at offset {following}")
    return None


def misplaced_text(first: int, last: int, reason: str) -> str:
    return f"a batch of {_offsets_text(first, last)} is out of place: {reason}"


def first_offset_in_header(batch: Batch) -> int:
    """The first offset, without decompression: an old wrapper's header has its last offset."""
    return batch.last_offset if batch.magic < 2 else batch.base_offset


def offsets_of(batch: Batch) -> str:
    """Formats a batch's offsets for messages."""
    return _offsets_text(first_offset_in_header(batch), batch.last_offset)


def _offsets_text(first: int, last: int) -> str:
    return f"offset {last}" if first == last else f"offsets {first} to {last}"
