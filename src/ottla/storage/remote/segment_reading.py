"""Reads batches, times and aborted transactions of one uploaded segment, by ranges of its log.

What is read is checked before anyone gets it: the CRC of each whole batch, its place among the
others, and whether the indexes point at batches. A store keeps bytes for years, and nothing but the
CRCs shows that they have changed. Kafka's counterparts: `RemoteLogManager.read`,
`lookupTimestamp`, `collectAbortedTransactions`; Kafka leaves the CRCs to consumers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.base.errors import CorruptionError
from ottla.base.files import join
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, batch_at
from ottla.record.layout import HEADER_SIZE
from ottla.record.record import read_records
from ottla.storage.index import offset_index, time_index
from ottla.storage.index.producer_snapshot import parse_snapshot
from ottla.storage.index.transaction_index import AbortedTransaction, collected, parse_entries
from ottla.storage.remote.lineage import Piece
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.tier_objects import remedy
from ottla.storage.scan import first_offset_in_header, order_fault

INTERVAL: Final = 8192
"""What is read at once where a batch is looked for: twice the default of `index.interval.bytes`."""

SEGMENT_COUNT: Final = 1000
"""Of how many segments it is remembered where a read of them ended."""

STEP_SIZE: Final = 1 << 20
"""What a search reads at once."""

Value = TypeVar("Value")


class SegmentIndexes(Protocol):
    """See `IndexCache`."""

    now_ms: float

    def get(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes: ...

    def forget(self, segment: RemoteLogSegmentMetadata) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Consecutive batches as they lie in the log of an upload; the last one may be cut off."""

    path: str
    position: int
    data: memoryview
    first_size: int
    """The size of the first batch, also if it is not in the region."""
    next_offset: int
    """The offset after the last whole batch; of a region without one, that of the first."""
    upper_bound: int
    """An offset that all batches are before; the transactions before it are told with them."""
    has_records: bool
    """Whether a whole batch is not only a transaction's marker."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    offset: int
    timestamp_ms: int


class SegmentReading:
    """Reads a tier. All methods raise `CorruptionError`, which names the object, and `UserError` if
    the store does not answer; they are for threads that may wait for it.
    """

    def __init__(self, storage: RemoteStorage, indexes: SegmentIndexes) -> None:
        self.indexes = indexes
        self._storage = storage
        self._paths: dict[Uuid, str] = {}
        self._ends: dict[Uuid, tuple[int, int]] = {}
        """By segment, where the last read of it ended: the next offset, and its position."""

    def read(self, piece: Piece, offset: int, max_size: int) -> Region | None:
        """Batches from the first that ends at `offset` or later; `None` if the piece has none.

        Exactly `max_size` bytes if there are as many, so that the last batch may be cut off; but
        the first batch is whole even if it is larger.
        """
        try:
            return self._read(piece, offset, max_size)
        except CorruptionError:
            # A damaged copy of the index would show the same, and what was read before of objects
            # that have been put back since.
            self.indexes.forget(piece.segment)
            self._storage.forget(piece.segment)
            self._ends.pop(piece.segment.segment_id, None)
            return self._read(piece, offset, max_size)

    def find_time(self, piece: Piece, timestamp_ms: int) -> FoundRecord | None:
        """The first record of a piece with at least that timestamp."""
        segment = piece.segment
        if segment.max_timestamp_ms < timestamp_ms:
            return None
        times = self.indexes.get(segment, IndexType.TIMESTAMP)
        number = bisect_right(
            range(len(times) // time_index.ENTRY.size),
            timestamp_ms,
            key=lambda one: time_index.ENTRY.unpack_from(times, one * time_index.ENTRY.size)[0],
        )
        start = piece.first_offset
        if number:
            relative = time_index.ENTRY.unpack_from(times, (number - 1) * time_index.ENTRY.size)[1]
            start = max(start, segment.start_offset + relative)
        for position, batch in self._batches(piece, start):
            if batch.max_timestamp_ms < timestamp_ms:
                continue
            try:
                for record in read_records(batch):
                    if record.timestamp_ms >= timestamp_ms and record.offset >= piece.first_offset:
                        return FoundRecord(record.offset, record.timestamp_ms)
            except InvalidBatchError as error:
                raise self.damage(segment, position, str(error)) from error
        return None

    def aborted(
        self, segment: RemoteLogSegmentMetadata, offset: int, upper_bound: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """As `TransactionIndex.collect`, of the index of a segment in the tier."""
        if segment.has_no_transactions:
            return [], False
        content = self.indexes.get(segment, IndexType.TRANSACTION)
        entries = parse_entries(self.log_path(segment), content)
        return collected((one for one in entries if one.last_offset >= offset), upper_bound)

    def first_open_offset(self, segment: RemoteLogSegmentMetadata) -> int | None:
        """Where the first transaction begins that was open at the end of a segment; `None` if none
        was. Transactions that begin before it have ended in this segment, or before.
        """
        content = self._storage.read_index(segment, IndexType.PRODUCER_SNAPSHOT) or b""
        producers = parse_snapshot(self.log_path(segment), content)
        return min(
            (
                one.transaction_first_offset
                for one in producers
                if one.transaction_first_offset is not None
            ),
            default=None,
        )

    def log_path(self, segment: RemoteLogSegmentMetadata) -> str:
        """The address of a segment's log."""
        path = self._paths.get(segment.segment_id)
        if path is None:
            paths = self._storage.object_paths(segment)
            path = join(self._storage.address, next(one for one in paths if one.endswith(".log")))
            _remember(self._paths, segment.segment_id, path)
        return path

    def damage(
        self, segment: RemoteLogSegmentMetadata, position: int, reason: str
    ) -> CorruptionError:
        return CorruptionError(self.log_path(segment), position, f"{reason} {remedy(segment)}")

    def _read(self, piece: Piece, offset: int, max_size: int) -> Region | None:
        segment = piece.segment
        index = self.indexes.get(segment, IndexType.OFFSET)
        window = _Window(self._storage, segment)
        due_offset, position = self._ends.get(segment.segment_id, (-1, 0))
        if due_offset == offset and position < segment.size:
            data = window.at(position, max_size + HEADER_SIZE)
            first = self._batch_at(segment, data, 0, (position, offset))
        else:
            found = self._locate(window, index, offset)
            if found is None:
                return None
            position, first = found
        if first_offset_in_header(first) > piece.last_offset:
            return None
        size = min(max(max_size, first.size), segment.size - position)
        sound = self._sound(piece, window.at(position, size + HEADER_SIZE), position, size)
        end = position + sound.whole_size
        _remember(self._ends, segment.segment_id, (sound.next_offset, end))
        return Region(
            path=self.log_path(segment),
            position=position,
            data=window.at(position, size)[: sound.size],
            first_size=first.size,
            next_offset=max(sound.next_offset, offset),
            upper_bound=_bound_at(index, position + sound.size, segment),
            has_records=sound.has_records,
        )

    def _locate(self, window: "_Window", index: bytes, offset: int) -> "_Located | None":
        """The first batch that ends at an offset, or after it."""
        segment = window.segment
        number = _entries_until(index, offset - segment.start_offset)
        found = self._walk(window, _position_of(index, number - 1), offset)
        if found is None or first_offset_in_header(found.batch) > offset:
            # There is a gap, or a header is damaged: batches from further back on show it.
            return self._walk(window, _position_of(index, number - 2), offset, is_checked=True)
        return found

    def _walk(
        self, window: "_Window", position: int, offset: int, *, is_checked: bool = False
    ) -> "_Located | None":
        segment = window.segment
        due = segment.start_offset
        while position < segment.size:
            batch = self._batch_at(segment, window.at(position, HEADER_SIZE), 0, (position, due))
            if batch.last_offset >= offset:
                return _Located(position, batch)
            if is_checked:
                whole = window.at(position, batch.size)
                self._check(segment, self._batch_at(segment, whole, 0, (position, due)), position)
            position, due = position + batch.size, batch.last_offset + 1
        return None

    def _sound(self, piece: Piece, data: memoryview, position: int, size: int) -> "_Sound":
        """How many of the first `size` bytes are of the piece; raises `CorruptionError`.

        The header after them is looked at too, since no checksum covers offsets: only a batch's
        neighbours contradict them.
        """
        segment = piece.segment
        at, due, has_records = 0, segment.start_offset, False
        while at < size or (at == size and position + at < segment.size):
            if at + HEADER_SIZE > len(data) and position + len(data) < segment.size:
                break  # Cut off in a header.
            batch = self._batch_at(segment, data, at, (position + at, due))
            if first_offset_in_header(batch) > piece.last_offset:
                size = at  # From here on of another history.
            if at + batch.size > size:
                break
            self._check(segment, batch, position + at)
            at, due = at + batch.size, batch.last_offset + 1
            has_records |= not batch.is_control
        return _Sound(size, at, due, has_records)

    def _batches(self, piece: Piece, offset: int) -> Iterator[tuple[int, Batch]]:
        """The sound batches of a piece from the one with `offset` on, with their positions."""
        due = offset
        while due <= piece.last_offset:
            region = self.read(piece, due, STEP_SIZE)
            if region is None or not region.data:
                return
            at = 0
            while at < len(region.data):
                batch = batch_at(region.data, at)
                if at + batch.size > len(region.data):
                    break
                yield region.position + at, batch
                at += batch.size
                if at + HEADER_SIZE > len(region.data):
                    break
            due = region.next_offset

    def _check(self, segment: RemoteLogSegmentMetadata, batch: Batch, position: int) -> None:
        try:
            batch.check()
        except InvalidBatchError as error:
            raise self.damage(segment, position, str(error)) from error

    def _batch_at(
        self, segment: RemoteLogSegmentMetadata, data: memoryview, at: int, due: tuple[int, int]
    ) -> Batch:
        """The batch at a place of `data`; `due` is its position in the log, and the least offset
        that it may have.
        """
        position, due_offset = due
        try:
            batch = batch_at(data, at)
        except InvalidBatchError as error:
            raise self.damage(segment, position, str(error)) from error
        first, last = first_offset_in_header(batch), batch.last_offset
        reason = order_fault(first, last, segment.start_offset, due_offset, segment.end_offset + 1)
        if position + batch.size > segment.size:
            reason = "a batch goes beyond its end"
        if reason is not None:
            raise self.damage(segment, position, reason)
        return batch


class _Located(NamedTuple):
    position: int
    batch: Batch


class _Sound(NamedTuple):
    size: int
    whole_size: int
    """The size of the whole batches."""
    next_offset: int
    has_records: bool


class _Window:
    """The bytes of a segment's log that were read last, at least `INTERVAL` at once."""

    def __init__(self, storage: RemoteStorage, segment: RemoteLogSegmentMetadata) -> None:
        self.segment = segment
        self._storage = storage
        self._position = 0
        self._data = memoryview(b"")

    def at(self, position: int, size: int) -> memoryview:
        """The bytes from a position on: at least `size`, unless the log ends before."""
        size = min(size, self.segment.size - position)
        if not self._position <= position <= self._position + len(self._data) - size:
            wanted = max(size, INTERVAL)
            self._data = memoryview(self._storage.read_log(self.segment, position, wanted))
            self._position = position
        return self._data[position - self._position :]


def _remember(known: dict[Uuid, Value], segment_id: Uuid, value: Value) -> None:
    """Remembers something of a segment, and forgets what was remembered longest ago."""
    known.pop(segment_id, None)
    known[segment_id] = value
    for one in list(known)[:-SEGMENT_COUNT] if len(known) > SEGMENT_COUNT else ():
        known.pop(one, None)


def _entries_until(index: bytes, relative: int) -> int:
    """How many entries of an offset index are at or before an offset."""
    entry = offset_index.ENTRY
    return bisect_right(
        range(len(index) // entry.size),
        relative,
        key=lambda one: entry.unpack_from(index, one * entry.size)[0],
    )


def _position_of(index: bytes, number: int) -> int:
    """The position in an entry of an offset index; the log's start before the first."""
    if number < 0:
        return 0
    position: int = offset_index.ENTRY.unpack_from(index, number * offset_index.ENTRY.size)[1]
    return position


def _bound_at(index: bytes, position: int, segment: RemoteLogSegmentMetadata) -> int:
    """The offset of the first entry at a position or after it; without one that after the segment.

    Kafka: `OffsetIndex.fetchUpperBoundOffset`.
    """
    entry = offset_index.ENTRY
    count = len(index) // entry.size
    number = bisect_left(range(count), position, key=lambda one: _position_of(index, one))
    if number == count:
        return segment.end_offset + 1
    relative: int = entry.unpack_from(index, number * entry.size)[0]
    return segment.start_offset + relative
