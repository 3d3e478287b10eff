"""A segment's files read by a process that may change nothing, perhaps while a broker writes them.

Format pages: docs/format/README.md lists the files. Nothing here is repaired: an index that is
missing, damaged or behind only makes a lookup longer, a torn end of the log is where it ends. Kafka
has no counterpart: its tools that read files (`kafka-dump-log`) begin at a segment's start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, base_name, join, parent_directory
from ottla.record.batch import MIN_LEGACY_SIZE, InvalidBatchError, batch_at
from ottla.record.layout import (
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_END,
    MAGIC_POSITION,
    OFFSET_AND_LENGTH,
)
from ottla.storage import scan
from ottla.storage.files.filenames import (
    MAX_OFFSET,
    WITNESS_MARK,
    FileKind,
    FileName,
    FileSuffix,
    parse_file_name,
)
from ottla.storage.files.log_file import LogFile
from ottla.storage.index.offset_index import OffsetIndex

REGION_SIZE = 1024 * 1024
"""Bytes read at once, unless a single batch is larger."""

SHORT_SIZE = 4096
"""Bytes of a log that are scanned as soon as an index, with hardly an entry for them, is opened."""

LISTING_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """A segment as it was listed; `size` is that of its log file then."""

    base_offset: int
    log_path: str
    size: int

    def path_of(self, kind: FileKind) -> str:
        """The path of another of its files, which is named like the log."""
        log = parse_file_name(base_name(self.log_path))
        assert log is not None
        name = FileName(offset=self.base_offset, kind=kind, suffix=log.suffix).text
        return join(parent_directory(self.log_path), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """What a partition's directory held when it was listed."""

    segments: list[SegmentFiles]
    """Ascending."""

    snapshots: dict[int, str]
    """The paths of producer snapshots, by their offset."""

    has_transaction_index: bool
    """Whether there is one of any segment, or of one that goes or comes, or a copy of one."""

    least_end_offset: int = 0
    """Where those segments begin that came too late for this listing. The last one in it may have
    been compacted since, and then holds nothing that would tell how far the log goes."""


def list_partition(
    file_system: FileSystem, directory: str, before: PartitionFiles | None = None
) -> PartitionFiles:
    """The files of a partition's directory; raises `FileNotFoundError`.

    A broker may be renaming files meanwhile, and a listing can miss a file that is being renamed:
    two listings in a row must agree, of which `before` may be the first. Segments that have come
    behind the last one meanwhile are left for whoever lists next. While compaction replaces
    segments, and after a crash in the middle of that, a `.swap` file stands in for a log that is
    not there any more.
    """
    for _ in range(LISTING_ATTEMPTS):
        found = _list_once(file_system, directory)
        if before is not None:
            known = _left_at(found, max(1, len(before.segments)))
            if _agree(known, before):
                return known
        before = found
    raise CorruptionError(directory, 0, "its files change faster than they can be listed")


def _left_at(found: PartitionFiles, count: int) -> PartitionFiles:
    later = found.segments[count:]
    if not later:
        return found
    return replace(found, segments=found.segments[:count], least_end_offset=later[0].base_offset)


def _agree(one: PartitionFiles, other: PartitionFiles) -> bool:
    paths = [[segment.log_path for segment in listed.segments] for listed in (one, other)]
    return paths[0] == paths[1] and one.has_transaction_index == other.has_transaction_index


def _list_once(file_system: FileSystem, directory: str) -> PartitionFiles:
    logs: dict[int, str] = {}
    snapshots: dict[int, str] = {}
    has_transaction_index = False
    for name in file_system.list(directory):
        parsed = parse_file_name(name)
        if parsed is None:
            has_transaction_index |= WITNESS_MARK in name
            continue
        if parsed.kind is FileKind.LOG and parsed.suffix in (FileSuffix.LIVE, FileSuffix.SWAP):
            # Sorted names: "N.log" comes before "N.log.swap" and wins.
            logs.setdefault(parsed.offset, join(directory, name))
        elif parsed.kind is FileKind.PRODUCER_SNAPSHOT and parsed.suffix is FileSuffix.LIVE:
            snapshots[parsed.offset] = join(directory, name)
        elif parsed.kind is FileKind.TRANSACTION_INDEX:
            has_transaction_index = True
    segments = [
        SegmentFiles(base_offset=base_offset, log_path=path, size=status.size)
        for base_offset, path in sorted(logs.items())
        if (status := file_system.status(path)) is not None
    ]
    return PartitionFiles(
        segments=segments, snapshots=snapshots, has_transaction_index=has_transaction_index
    )


@dataclass(frozen=True, slots=True)
class Region:
    """Whole batches, one behind the other, as they are in a log file."""

    path: str
    position: int
    data: memoryview
    next_offset: int
    """Behind the last batch's last offset."""


class SegmentReader:
    """An open log file; `close` it. Raises `FileNotFoundError` when the file has gone."""

    def __init__(self, file_system: FileSystem, files: SegmentFiles) -> None:
        self._file_system = file_system
        self.files = files
        file = file_system.open(files.log_path)
        self.log = LogFile(file_system, file, file.size())

    def close(self) -> None:
        self.log.close()

    def position_before(self, offset: int) -> int:
        """The position of a batch from which a scan forward finds the batch of `offset`.

        Nothing guards an index against damage, so what it points at is checked; where that is no
        batch at or before the offset, the scan begins at the start of the file. There it begins at
        once where the file is short.
        """
        if self.log.size <= SHORT_SIZE:
            return 0
        index = OffsetIndex(
            self._file_system,
            self.files.path_of(FileKind.OFFSET_INDEX),
            base_offset=self.files.base_offset,
            writable=False,
        )
        try:
            index.sanity_check()
            _, position = index.lookup(offset)
            return position if self._begins_batch(position, offset) else 0
        except (FileNotFoundError, CorruptionError):
            return 0
        finally:
            index.abandon()

    def _begins_batch(self, position: int, offset: int) -> bool:
        if position <= 0:
            return False
        try:
            batch = scan.batch_of(self.log, position)
            batch.check()
            # A batch that has become whole since the file was opened is not there for who scans.
            is_whole = position + batch.size <= self.log.size
            return is_whole and self.files.base_offset <= batch.base_offset <= offset
        except (CorruptionError, InvalidBatchError):
            return False

    def tail(self) -> "SegmentTail":
        """Where the whole and sound batches end, found by a walk from the last index entry."""
        end = self.files.base_offset
        position = sound_end = self.position_before(MAX_OFFSET)
        try:
            for position, header in scan.headers(self.log, sound_end):
                if header.last_offset < end:
                    reason = f"a batch of offset {header.last_offset} comes after offset {end - 1}"
                    raise CorruptionError(self.log.path, position, reason)
                scan.batch_of(self.log, position).check()
                end = header.last_offset + 1
                sound_end = position + header.size
        except (CorruptionError, InvalidBatchError):
            return SegmentTail(end, is_whole=False)
        return SegmentTail(end, is_whole=sound_end >= self.log.size)

    def regions(
        self,
        from_offset: int,
        until_offset: int,
        size: int | None = None,
        *,
        limit: int | None = None,
        on_gap: Callable[[str, int, tuple[int, int]], None] | None = None,
    ) -> Iterator[Region]:
        """The batches with offsets in [from_offset, until_offset), or that reach into the range.

        They come about `size` bytes (REGION_SIZE) at a time.
        There must be sound batches up to `until_offset` or the end of the file, in order and before
        `limit`. Raises `CorruptionError`. `on_gap` is told the path, the position and the offsets
        of each gap before a batch.
        """
        position = self._first_position(from_offset) if from_offset < until_offset else None
        wanted = least = size or REGION_SIZE
        span = _Span(self.files.base_offset, until_offset, limit)
        span.due_offset = from_offset
        span.on_gap = on_gap
        while position is not None and position < self.log.size:
            chunk = memoryview(self.log.read(position, wanted))
            if len(chunk) < min(wanted, self.log.size - position):
                raise CorruptionError(self.log.path, position, "the file was cut meanwhile")
            whole = self._whole_batches(chunk, position, span)
            if whole.size:
                data = chunk[: whole.size]
                yield Region(self.log.path, position, data, whole.last_offset + 1)
                position += whole.size
            if whole.next_size is None:
                return
            if position + whole.next_size > self.log.size:
                raise CorruptionError(self.log.path, position, "a batch is cut short")
            wanted = max(least, whole.next_size)

    def _first_position(self, offset: int) -> int | None:
        """The first batch that ends at `offset` or later."""
        start = self.position_before(offset)
        found = scan.search_offset(self.log, offset, start)
        if found is None:
            self._check_order(start, self.log.size)
            return None
        if found[1].magic < 2 or found[1].base_offset <= offset:
            return found[0]
        # Compaction left a gap, or the batch that is wanted says that it is another one.
        if start:
            start = self.position_before(scan.batch_of(self.log, start).base_offset - 1)
        self._check_order(start, found[0] + 1)
        return found[0]

    def _check_order(self, start: int, end: int) -> None:
        """Raises `CorruptionError` unless the batches from `start` ascend and lead to `end`."""
        before = -1 if start else self.files.base_offset - 1
        following = start
        for position, header in scan.headers(self.log, start):
            if position >= end:
                return
            if header.magic == 2 and header.base_offset <= before:
                raise self._out_of_place(position, header.base_offset, header.last_offset)
            before = header.last_offset
            following = position + header.size
        if following < end:
            raise CorruptionError(self.log.path, following, "a batch is cut short")

    def _check_gap(self, position: int, span: "_Span") -> None:
        """Raises `CorruptionError` for a batch that lies ahead of the one that follows it."""
        header = scan.header_at(self.log, position)
        if header is None or header.magic < 2:
            return
        following = scan.header_at(self.log, position + header.size)
        is_ahead = following is not None and following.last_offset <= header.last_offset
        if is_ahead or not span.next_offset <= header.base_offset < span.limit:
            raise self._out_of_place(position, header.base_offset, header.last_offset)

    def _out_of_place(self, position: int, first: int, last: int) -> CorruptionError:
        reason = f"a batch of offsets {first} to {last} is out of place"
        return CorruptionError(self.log.path, position, reason)

    def _whole_batches(self, chunk: memoryview, position: int, span: "_Span") -> "_WholeBatches":
        """How much of a chunk is whole batches that begin before the span's end.

        What lies behind a batch that reaches the range's end may be torn, and is not looked at.
        """
        start, last_offset, until_offset = 0, -1, span.until_offset
        while start + MIN_LEGACY_SIZE <= len(chunk):
            offset, length = OFFSET_AND_LENGTH.unpack_from(chunk, start)
            size = length + LENGTH_END
            is_legacy = chunk[start + MAGIC_POSITION] < 2
            if size < (MIN_LEGACY_SIZE if is_legacy else HEADER_SIZE):
                raise CorruptionError(self.log.path, position + start, "there is no batch")
            if start + size > len(chunk):
                return _WholeBatches(start, last_offset, size)
            # A compressed batch of the old formats carries its last offset here.
            if offset >= until_offset and (
                not is_legacy or self._legacy_base_offset(chunk, start, position) >= until_offset
            ):
                if not is_legacy and offset != span.next_offset:
                    self._check_gap(position + start, span)
                    if span.on_gap is not None and span.due_offset < until_offset:
                        gap = span.due_offset, until_offset
                        span.on_gap(self.log.path, position + start, gap)
                return _WholeBatches(start, last_offset, None)
            last_offset = offset
            if not is_legacy:
                last_offset += LAST_OFFSET_DELTA.unpack_from(
                    chunk, start + LAST_OFFSET_DELTA_POSITION
                )[0]
            # No checksum covers a base offset: only its neighbours can contradict it.
            if not span.next_offset <= offset <= last_offset < span.limit:
                raise self._out_of_place(position + start, offset, last_offset)
            if offset > span.due_offset and not is_legacy and span.on_gap is not None:
                span.on_gap(self.log.path, position + start, (span.due_offset, offset))
            span.next_offset = span.due_offset = last_offset + 1
            start += size
            if last_offset + 1 >= until_offset:
                return _WholeBatches(start, last_offset, None)
        is_end = position + start >= self.log.size
        return _WholeBatches(start, last_offset, None if is_end else MIN_LEGACY_SIZE)

    def _legacy_base_offset(self, chunk: memoryview, start: int, position: int) -> int:
        try:
            return batch_at(chunk, start).base_offset
        except InvalidBatchError as error:
            raise CorruptionError(self.log.path, position + start, str(error)) from error


class _Span:
    """The offsets that are read, of which all before `next_offset` lie before what is read next."""

    __slots__ = ("due_offset", "limit", "next_offset", "on_gap", "until_offset")

    def __init__(self, base_offset: int, until_offset: int, limit: int | None) -> None:
        self.next_offset = base_offset
        self.until_offset = until_offset
        self.limit = MAX_OFFSET + 1 if limit is None else limit
        self.due_offset = base_offset
        """Where the next batch begins, unless there is a gap before it."""
        self.on_gap: Callable[[str, int, tuple[int, int]], None] | None = None


@dataclass(frozen=True, slots=True)
class SegmentTail:
    """`is_whole` unless something follows that is no batch: a torn append, or room allocated."""

    end_offset: int
    """After the last batch; the base offset without one."""
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _WholeBatches:
    size: int
    last_offset: int
    next_size: int | None
    """What must be read for one more batch; `None` behind the last one wanted."""
