"""Lists the segments of a partition's directory, for a process that only reads it.

Format pages: docs/format/README.md lists the files. A broker may be renaming and removing files
meanwhile. Kafka has no counterpart: its tools take files.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple, overload

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, base_name, join, parent_directory
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, batch_at
from ottla.record.layout import HEADER_SIZE
from ottla.storage.files.filenames import (
    LOG_END,
    MAX_OFFSET,
    OFFSET_DIGITS,
    SNAPSHOT_END,
    FileKind,
    FileName,
    FileSuffix,
    file_offset,
    log_file_name,
    parse_file_name,
    parse_file_names,
)
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.index.offset_index import ENTRY

LISTING_ATTEMPTS = 100


class SegmentFiles(NamedTuple):
    """A segment as listed; `size` is the log file's size at that time."""

    base_offset: int
    log_path: str
    size: int

    def path_of(self, kind: FileKind) -> str:
        """The path of the segment's file of another kind, which is named like the log."""
        stem, _, ending = self.log_path.rpartition(FileKind.LOG.value)
        return f"{stem}{kind.value}{ending}"


class ListedSegmentFiles(Sequence[SegmentFiles]):
    """The segments of a directory, ascending, in columns. Each is made when it is asked for: ten
    thousand objects would be looked at by each collection of garbage.
    """

    __slots__ = ("base_offsets", "directory", "names", "sizes")

    def __init__(
        self, directory: str, base_offsets: list[int], names: list[str], sizes: list[int]
    ) -> None:
        """`names` are those of the log files, and `sizes` theirs when they were listed."""
        self.directory = directory
        self.base_offsets = base_offsets
        self.names = names
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> SegmentFiles: ...
    @overload
    def __getitem__(self, index: slice) -> "ListedSegmentFiles": ...
    def __getitem__(self, index: int | slice) -> "SegmentFiles | ListedSegmentFiles":
        offsets, names, sizes = self.base_offsets, self.names, self.sizes
        if isinstance(index, slice):
            return ListedSegmentFiles(self.directory, offsets[index], names[index], sizes[index])
        return SegmentFiles(offsets[index], join(self.directory, names[index]), sizes[index])

    def __iter__(self) -> Iterator[SegmentFiles]:
        start = join(self.directory, "")
        paths = [start + name for name in self.names]
        return map(SegmentFiles._make, zip(self.base_offsets, paths, self.sizes, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def with_last_size(self, size: int) -> "ListedSegmentFiles":
        sizes = [*self.sizes[:-1], size]
        return ListedSegmentFiles(self.directory, self.base_offsets, self.names, sizes)

    def index_of(self, offset: int) -> int:
        """The index of the segment that holds an offset; -1 before the first."""
        return bisect_right(self.base_offsets, offset) - 1


def missing_index(directory: str, base_offset: int, kind: FileKind) -> Finding:
    """The finding about an index that a segment lacks which is not the active one."""
    path = join(directory, FileName(offset=base_offset, kind=kind).text)
    reason = "is missing, though its segment is not the active one"
    return Finding(kind=FindingKind.MISSING_INDEX, path=path, position=None, reason=reason)


def orphan_index(path: str, base_offset: int, first_offset: int | None) -> Finding:
    """The finding about an index without a log file; `first_offset` is the first segment's.

    A deletion removes the first segments, the log file of each before its indexes.
    """
    is_left = first_offset is not None and base_offset < first_offset
    reason = "has no log file: " + (
        "a deletion of its segment has left it" if is_left else "its segment's records are lost"
    )
    return Finding(kind=FindingKind.ORPHAN_INDEX, path=path, position=None, reason=reason)


def empty_log(
    file_system: FileSystem, directory: str, base_offset: int, before: int | None
) -> Finding | None:
    """The finding about an empty log file with an offset that the segment `before` it has.

    Fetches of that segment's later records would search the empty one.
    """
    path = join(directory, log_file_name(base_offset))
    status = file_system.status(path)
    if before is None or status is None or status.size:
        return None
    if not _reaches(file_system, join(directory, log_file_name(before)), base_offset):
        return None
    reason = "is empty, and lies inside the segment before it"
    return Finding(kind=FindingKind.EMPTY_LOG, path=path, position=None, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """What a partition's directory held when it was listed."""

    segments: ListedSegmentFiles

    snapshots: dict[int, str]
    """The paths of producer snapshots, by their offset."""

    has_transaction_index: bool
    """Whether there is a transaction index, with any suffix."""

    names: Sequence[str] = ()
    """The names in the directory; empty if these files are not all that they stand for, or if the
    content of one has decided what it stands for."""

    least_end_offset: int = 0
    """The base offset of the first segment that was created after this listing: the last listed
    segment may have been compacted since, and then does not show where the log ends."""


def listed_base_offsets(file_system: FileSystem, directory: str) -> set[int]:
    """The base offsets of segments, including those that compaction is putting in place."""
    ends = LOG_END, LOG_END + FileSuffix.SWAP.value
    names = file_system.names(directory)
    return {*_with_offsets([one for one in names if one[OFFSET_DIGITS:] in ends])}


def list_partition(
    file_system: FileSystem, directory: str, before: PartitionFiles | None = None
) -> PartitionFiles:
    """The files of a partition's directory; raises `FileNotFoundError`.

    A broker may be renaming files meanwhile, and a listing can miss a file that is being renamed:
    two consecutive listings must agree, of which `before` may be the first. Segments that are
    created meanwhile after the last one are left for the next listing. While compaction replaces
    segments, and after a crash during that, a `.swap` file takes the place of a removed log file.
    """
    names_before: Sequence[str] = ()
    for _ in range(LISTING_ATTEMPTS):
        names = file_system.names(directory)
        if before is not None and _are_same(names, names_before):
            return before  # They agree, and no name has to be parsed again.
        found = _files(file_system, directory, names)
        names_before = names
        if before is not None:
            known = _left_at(found, max(1, len(before.segments)))
            if _agree(known, before):
                return known
        before = found
    raise CorruptionError(directory, 0, "its files change faster than they can be listed")


def list_partition_again(
    file_system: FileSystem, directory: str, before: PartitionFiles
) -> PartitionFiles:
    """As `list_partition`, which listed `before`; of ten thousand segments that takes a tenth of
    the time if no file was added or removed since.

    The sizes of all segments but the last are then those of before, also if compaction has replaced
    one: a listing is never newer than the files that a read opens.
    """
    # One more listing with the same names agrees with those before it.
    if before.names and _are_same(file_system.names(directory), before.names):
        last = before.segments[-1]
        status = file_system.status(last.log_path)
        if status is not None and (status.size or not last.size):
            return replace(before, segments=before.segments.with_last_size(status.size))
    return list_partition(file_system, directory)


def partition_size(file_system: FileSystem, directory: str) -> int:
    """The bytes of the log files that one listing finds; raises `FileNotFoundError`."""
    found = _files(file_system, directory, file_system.names(directory))
    return sum(found.segments.sizes)


def _left_at(found: PartitionFiles, count: int) -> PartitionFiles:
    later = found.segments[count:]
    if not later:
        return found
    least_end_offset = later[0].base_offset
    return replace(
        found, segments=found.segments[:count], names=(), least_end_offset=least_end_offset
    )


def _are_same(names: Sequence[str], others: Sequence[str]) -> bool:
    # Nearly always in the same order, in which comparing them is quick.
    return bool(names) and (names == others or {*names} == {*others})


def _agree(one: PartitionFiles, other: PartitionFiles) -> bool:
    names = one.segments.names, other.segments.names
    return names[0] == names[1] and one.has_transaction_index == other.has_transaction_index


def _files(file_system: FileSystem, directory: str, names_there: Sequence[str]) -> PartitionFiles:
    # A log may have ten thousand segments: what most names are is decided without parsing each.
    by_end = defaultdict[str, list[str]](list)
    for name in names_there:
        by_end[name[OFFSET_DIGITS:]].append(name)
    logs, snapshots = (_with_offsets(by_end.pop(end, [])) for end in (LOG_END, SNAPSHOT_END))
    rest = [names for end, names in by_end.items() if end not in _OFTEN]
    others = parse_file_names(chain.from_iterable(rest), kinds=_TOLD_APART)
    renamed = [one for one in others if one.kind is FileKind.LOG]
    logs |= _replacements(file_system, directory, logs, renamed)
    segments = _segments(file_system, directory, logs)
    is_by_names = len(segments) == len(logs) > 0 and not renamed
    start = join(directory, "")
    return PartitionFiles(
        segments=segments,
        snapshots={offset: start + name for offset, name in snapshots.items()},
        has_transaction_index=any(one.kind is FileKind.TRANSACTION_INDEX for one in others),
        names=names_there if is_by_names else (),
    )


_TOLD_APART = (FileKind.LOG, FileKind.TRANSACTION_INDEX)
_OFTEN = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value)


def _with_offsets(names: Sequence[str]) -> dict[int, str]:
    """Names with one ending by their offsets, without those that have none."""
    digits = [name[:OFFSET_DIGITS] for name in names]
    every = "".join(digits)
    if every.isascii() and every.isdigit() and max(digits) <= _LAST_DIGITS:
        return dict(zip(map(int, digits), names, strict=True))
    found = ((file_offset(name), name) for name in names)
    return {offset: name for offset, name in found if offset is not None}


_LAST_DIGITS = f"{MAX_OFFSET:0{OFFSET_DIGITS}d}"


def _segments(
    file_system: FileSystem, directory: str, logs: Mapping[int, str]
) -> ListedSegmentFiles:
    """The segments of files by their base offsets; those that are gone are left out."""
    offsets = sorted(logs)
    names = [logs[one] for one in offsets]
    sizes = file_system.sizes(directory, names)
    filled = [size for size in sizes if size]
    if len(filled) == len(names):  # as nearly always, and there may be ten thousand
        return ListedSegmentFiles(directory, offsets, names, filled)
    found = ListedSegmentFiles(directory, [], [], [])
    for base_offset, name, size in zip(offsets, names, sizes, strict=True):
        before = found.base_offsets[-1] if size == 0 and found.base_offsets else None
        is_inside = before is not None and empty_log(file_system, directory, base_offset, before)
        if size is not None and not is_inside:
            found.base_offsets.append(base_offset)
            found.names.append(name)
            found.sizes.append(size)
    return found


def _replacements(
    file_system: FileSystem, directory: str, live: Mapping[int, str], renamed: Iterable[FileName]
) -> dict[int, str]:
    """The names of the `.swap` log files that count, by base offset.

    A `.swap` counts where the segments that it replaces are gone. Beside them it has replaced
    nothing yet, or is not of this log.
    """
    found: dict[int, str] = {}
    first_deleted = min(
        (one.offset for one in renamed if one.suffix is FileSuffix.DELETED), default=MAX_OFFSET
    )
    for one in renamed:
        if one.suffix is not FileSuffix.SWAP or one.offset in live:
            continue
        path = join(directory, one.text)
        before = max((base_offset for base_offset in live if base_offset < one.offset), default=-1)
        if before >= 0 and _reaches(file_system, join(directory, live[before]), one.offset):
            continue
        if one.offset >= first_deleted or _may_begin_at(file_system, path, one.offset):
            found[one.offset] = one.text
    return found


def _reaches(file_system: FileSystem, path: str, offset: int) -> bool:
    """Whether a log file has a batch at or after an offset."""
    start = _last_indexed(file_system, path)
    return any(one.last_offset >= offset for one in _headers(file_system, path, start))


def _last_indexed(file_system: FileSystem, path: str) -> int:
    """The position of the last batch that a log file's offset index names; 0 if it is not there."""
    name = parse_file_name(base_name(path))
    assert name is not None
    index = replace(name, kind=FileKind.OFFSET_INDEX).text
    path_of_index = join(parent_directory(path), index)
    # A torn message set of an old format does not say where it begins.
    with suppress(OSError, InvalidBatchError), closing(file_system.open(path_of_index)) as file:
        if file.size() >= ENTRY.size:
            last = file.pread(ENTRY.size, file.size() - ENTRY.size)
            relative, position = ENTRY.unpack(last)
            for one in islice(_headers(file_system, path, position), 1):
                if one.base_offset <= name.offset + relative <= one.last_offset:
                    return int(position)
    return 0


def _may_begin_at(file_system: FileSystem, path: str, offset: int) -> bool:
    """Whether a file is empty, or begins with a batch at or after an offset."""
    status = file_system.status(path)
    if status is None or status.is_directory or not status.size:
        return status is not None and not status.is_directory
    return any(one.last_offset >= offset for one in islice(_headers(file_system, path), 1))


def _headers(file_system: FileSystem, path: str, position: int = 0) -> Iterator[Batch]:
    """The headers of a log file from a position on, up to the first that is damaged, or that is not
    there.
    """
    with suppress(OSError, InvalidBatchError), closing(file_system.open(path)) as file:
        end = file.size()
        while position < end:
            batch = batch_at(file.pread(HEADER_SIZE, position))
            position += batch.size
            yield batch
