"""Reads one partition's log for fetch and offset requests; changes nothing.

Kafka's counterparts: `UnifiedLog.read`, `fetchOffsetByTimestamp`, `legacyFetchOffsetsBefore`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import FileSlice
from ottla.base.values import dataclass
from ottla.record.batch import Batch, whole_size
from ottla.storage import scan
from ottla.storage.index.time_index import NO_TIMESTAMP
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.header_check import HeaderCheck
from ottla.storage.log.offsets import (
    EARLIEST_PENDING_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    KNOWN_WITHOUT_TIMES,
    LATEST_TIMESTAMP,
    FoundOffset,
    Isolation,
    OffsetInTierError,
)
from ottla.storage.log.segment_run import SegmentRun, whole_segments
from ottla.storage.log.state import LogState
from ottla.storage.log.time_search import find_timestamp
from ottla.storage.segment.segment import Segment

if TYPE_CHECKING:
    from ottla.record.record import Record

CHECKED_SIZE: Final = 1 << 20
"""Bytes whose checksums are checked at once, which takes less than a millisecond."""

MANY_ABORTED: Final = 2000
"""The most aborted transactions that one read tells of, which takes 3 ms; a read of more records
ends earlier.
"""


@dataclass(slots=True)
class FetchData:
    """The result of a read: batches as a slice of a file, and the log's offsets.

    `aborted` is `None` except for `Isolation.LAST_STABLE`. Not frozen, for speed: each partition of
    a fetch needs one.
    """

    records: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None = None


class LogReader:
    """All methods raise `StorageError`, and `CorruptionError` for damage at the read position."""

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._offsets = log.offsets
        self._segments = log.segments
        self._headers = HeaderCheck(log.segments, log.epochs, log.offsets)

    def read(
        self, offset: int, max_size: int, isolation: Isolation, *, min_one_message: bool = True
    ) -> FetchData:
        """Reads from the batch that holds `offset`, up to `max_size` bytes and the isolation's end.

        The records are a slice of a file that a socket can send, or `None`. With
        `min_one_message` the first batch is whole even if it is larger than `max_size`. Raises
        `ApiError(OFFSET_OUT_OF_RANGE)` for an offset outside the log, and `OffsetInTierError` for
        one that is in the tier only.
        """
        health, offsets = self._log.health, self._offsets
        # `guarding` inlined, as every fetch runs this for each of its partitions.
        if health.failure is not None:
            raise health.failure
        if not offsets.local_start_offset <= offset <= offsets.log_end_offset:
            raise self._out_of_range(offset)
        found = None
        aborted = None
        try:
            bound = self.bound(isolation)
            if offset < bound:
                found = self._read_below(bound, offset, max_size, min_one_message)
            if isolation is Isolation.LAST_STABLE and not self._segments.may_have_aborted(offset):
                aborted = []  # and no index of offsets is opened to find where the read ends
            elif isolation is Isolation.LAST_STABLE:
                end = self._end_of(found, offset, bound) if found else offset
                aborted = self.aborted_transactions(offset, end, MANY_ABORTED)
                if found and len(aborted) == MANY_ABORTED:
                    # Records end with one of these transactions, so that the others are not told.
                    end = aborted[-1].last_offset + 1
                    found = self._read_below(end, offset, max_size, min_one_message)
                    aborted = self.aborted_transactions(offset, end)
        except FileNotFoundError as error:
            raise self._gone(error) from error
        except OSError as error:
            raise health.fail(error) from error
        return FetchData(
            found,
            offsets.high_watermark,
            offsets.last_stable_offset,
            offsets.log_start_offset,
            aborted,
        )

    def run_at(self, offset: int, max_size: int) -> SegmentRun | None:
        """The whole segments from `offset` on that end before the last stable offset and have at
        most so many bytes; `None` unless one begins there.
        """
        offsets = self._offsets
        is_there = offsets.local_start_offset <= offset < offsets.log_end_offset
        if self._log.health.failure is not None or not is_there:
            return None
        there = self._segments.floor(offset)
        if there is None or there.base_offset != offset:
            return None
        until = self.bound(Isolation.LAST_STABLE)
        following = self._segments.iterate_from(offset)
        found = list(whole_segments(following, self._log.epochs, until, max_size))
        if not found:
            return None
        run = SegmentRun(found, [])
        if not self._segments.may_have_aborted(offset):
            return run
        try:
            aborted = self.aborted_transactions(offset, run.next_offset, MANY_ABORTED)
            if len(aborted) < MANY_ABORTED:
                return SegmentRun(found, aborted)
        except (OSError, CorruptionError):
            pass  # `read` says what is wrong
        run.close()
        return None

    def _gone(self, error: FileNotFoundError) -> CorruptionError | StorageError:
        """One file that vanished is damage in its log; a directory that did has failed."""
        log = self._log
        if error.filename and log.file_system.status(log.directory) is not None:
            return CorruptionError(error.filename, 0, "the file is gone")
        return log.health.fail(error)

    @contextmanager
    def _guarding(self) -> Iterator[None]:
        with self._log.health.guarding():
            try:
                yield
            except FileNotFoundError as error:
                raise self._gone(error) from error

    def _out_of_range(self, offset: int) -> ApiError:
        offsets = self._offsets
        if offsets.log_start_offset <= offset < offsets.local_start_offset:
            return OffsetInTierError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._log.name} has offset {offset} in its tier only; its local segments begin "
                f"at {offsets.local_start_offset}.",
            )
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self._log.name} holds offsets {offsets.log_start_offset} to "
            f"{offsets.log_end_offset}, not {offset}.",
        )

    def check(self, found: FileSlice) -> None:
        """Checks the batches of a slice with their checksums: as many as are whole in its first
        MiB, or the first one.
        """
        path, position = found.file.path, found.position
        with self._log.health.guarding():
            content = FileSlice(found.file, position, min(found.size, CHECKED_SIZE)).read()
            if not whole_size(content):
                content = found.read()
        size = min(len(content), whole_size(content))
        if not size:
            raise CorruptionError(path, position, "no whole batch begins here")
        for _ in scan.batches(content[:size], path, position, checks=(scan.checksum,)):
            pass

    def shortened(self, path: str) -> CorruptionError | None:
        """Whether a log file is gone or shorter than it was written here; then its batches are
        checked when they are read. Otherwise the log itself was truncated.
        """
        for segment in self._segments.values:
            size = segment.log.written_size
            if segment.log.path == path:
                status = self._log.file_system.status(path)
                if status is None:
                    return CorruptionError(path, 0, "the file is gone")
                if status.size >= size:
                    return None
                segment.forget_checks(size)
                return CorruptionError(
                    path, status.size, f"the file ends here, and had {size} bytes"
                )
        return None

    def bound(self, isolation: Isolation) -> int:
        """The offset up to which a reader with this isolation may read."""
        match isolation:
            case Isolation.HIGH_WATERMARK:
                return self._offsets.high_watermark
            case Isolation.LAST_STABLE:
                stable, check = self._offsets.last_stable_offset, self._log.abort_check
                return stable if check is None else min(stable, check.bound)
            case Isolation.LOG_END:
                return self._offsets.log_end_offset

    def _read_below(
        self, bound: int, offset: int, max_size: int, min_one_message: bool
    ) -> FileSlice | None:
        for segment in self._segments.iterate_from(offset):
            if segment.base_offset >= bound:
                return None
            max_position = self._max_position(segment, bound)
            found = segment.read(offset, max_size, max_position, min_one_message)
            if found is None and not segment.unchecked_size:
                # Compaction has left a gap, or the file was changed under the log.
                segment.forget_checks(segment.log.written_size)
            if segment.unchecked_size:
                found = self._headers.sound_part(found, segment, offset)
            if found is not None:
                return found if found.size else None
        return None

    def _max_position(self, segment: Segment, bound: int) -> int:
        """The position in a segment at which the readable bytes end."""
        offsets = self._offsets
        is_end = bound == offsets.log_end_offset or (
            bound == offsets.high_watermark and not self._log.is_replicated
        )
        if is_end or segment is not self._segments.floor(bound):
            return segment.log.written_size
        found = segment.translate(bound)
        return found.position if found else segment.log.written_size

    def _end_of(self, found: FileSlice, offset: int, bound: int) -> int:
        """The first indexed offset at or after the end of the slice, at most `bound`.

        Kafka: `LocalLog.addAbortedTransactions`.
        """
        segments = self._segments.iterate_from(offset)
        segment = next(one for one in segments if one.log.path == found.file.path)
        after = segment.offset_index.first_at_or_after(found.position + found.size)
        if after is None:
            following = next(segments, None)
            after = None if following is None else following.base_offset
        return bound if after is None else min(after, bound)

    def aborted_transactions(
        self, offset: int, upper_bound: int, max_count: int | None = None
    ) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a range of offsets, in the order of their ends;
        raises `OSError`.
        """
        found: list[AbortedTransaction] = []
        for segment in self._segments.maybe_aborted_from(offset):
            left = None if max_count is None else max_count - len(found)
            some, is_complete = segment.transaction_index.collect(offset, upper_bound, left)
            found.extend(some)
            if is_complete or len(found) == max_count:
                break
        return found

    def last_batch(self) -> Batch | None:
        """The last batch with its payload; `None` without one."""
        with self._guarding():
            for segment in reversed(self._segments.values):
                start = segment.search_start(segment.next_offset())
                last = scan.last_header(segment.log, start)
                if last is not None:
                    return scan.batch_of(segment.log, last[0])
        return None

    # Timestamps

    def find_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first local record at or after a time; -1 to -6 have the meanings of ListOffsets.

        Raises `ApiError(UNSUPPORTED_FOR_MESSAGE_FORMAT)` for a timestamp in a log of format v0.
        """
        log = self._log
        if log.config.magic == 0 and timestamp_ms not in KNOWN_WITHOUT_TIMES:
            code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            raise ApiError(code, f"{log.name} has message format v0, without timestamps.")
        with self._guarding():
            match timestamp_ms:
                case -2:
                    return self._found(log.log_start_offset)
                case -4:
                    return self._found(log.local_start_offset)
                case -1:
                    return self._found(log.high_watermark)
                case -3:
                    return self._find_max_timestamp()
                case -5 | -6:
                    return self._end_of_tier(is_next=timestamp_ms == EARLIEST_PENDING_TIMESTAMP)
            return self._find_time(timestamp_ms)

    def _end_of_tier(self, *, is_next: bool) -> FoundOffset:
        """The last offset in the tier, or the first that has to be copied; -1 while unknown."""
        last = self._offsets.highest_remote_offset
        if last < 0:
            return FoundOffset(-1, NO_TIMESTAMP, -1)
        return self._found(max(last + 1, self._offsets.log_start_offset) if is_next else last)

    def _find_time(self, timestamp_ms: int) -> FoundOffset | None:
        """Searches the first segment whose largest timestamp is late enough, as Kafka does.

        Later segments are not searched. So the result is `None` if the record in that segment is
        before the log start, until retention deletes the segment. A segment without records has its
        file's modification time (`LogSegment.largestTimestamp`), and so may hide later segments.
        """
        for segment in self._segments.values:
            if segment.largest_timestamp_ms() >= timestamp_ms:
                break
        else:
            return None
        if segment not in self._readable_segments():
            return None
        record = self._search(segment, timestamp_ms)
        if record is None or record.offset >= self._offsets.high_watermark:
            return None
        return self._found(record.offset, record.timestamp_ms)

    def _find_max_timestamp(self) -> FoundOffset | None:
        latest = max(self._readable_segments(), key=lambda one: one.largest.timestamp_ms)
        if latest.largest.timestamp_ms < 0:
            return None
        record = self._search(latest, latest.largest.timestamp_ms)
        return None if record is None else self._found(record.offset, record.timestamp_ms)

    def _readable_segments(self) -> tuple[Segment, ...]:
        return self._segments.from_offset(self._offsets.local_start_offset)

    def _search(self, segment: Segment, timestamp_ms: int) -> "Record | None":
        start = self._offsets.local_start_offset
        return find_timestamp(segment, timestamp_ms, start, self._headers)

    def _found(self, offset: int, timestamp_ms: int = NO_TIMESTAMP) -> FoundOffset:
        epoch = self._log.epochs.epoch_for_offset(offset)
        return FoundOffset(offset, timestamp_ms, -1 if epoch is None else epoch)

    def offsets_before(self, timestamp_ms: int) -> list[int]:
        """The base offsets of segments whose records are all at or before a time, newest first."""
        start = self._offsets.log_start_offset
        if timestamp_ms == EARLIEST_TIMESTAMP:
            return [start]
        local_start = self._offsets.local_start_offset
        starts = [
            (max(segment.base_offset, local_start), segment.largest_timestamp_ms())
            for segment in reversed(self._segments.values)
        ]
        if timestamp_ms == LATEST_TIMESTAMP:
            found = [self._offsets.high_watermark, *(offset for offset, _ in starts)]
        else:
            found = [offset for offset, time_ms in starts if time_ms <= timestamp_ms]
        return list(dict.fromkeys(found))
