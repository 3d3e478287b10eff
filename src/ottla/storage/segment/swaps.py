"""Judges `.swap` logs before they replace the segments that they were made from.

A compaction notes the size and the first batch of each in the integrity file before it begins to
replace (`Integrity.swaps`). A swap without such a note, as Kafka and a split leave it, must cover
every batch that it would replace. Whatever does not fit was damaged, or is not of this log. Keeping
the old segments loses nothing, since they can be compacted again. Kafka does not check, and
replaces sound segments by a damaged swap.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, parent_directory
from ottla.base.values import dataclass
from ottla.record.batch import Batch
from ottla.storage import scan
from ottla.storage.damage_scan import MAX_OFFSETS, DamagedRegion, scan_segment
from ottla.storage.files.filenames import FileKind, FileName, FileSuffix, log_file_name
from ottla.storage.files.integrity import NOTHING_KNOWN, Integrity, SegmentFacts
from ottla.storage.files.log_file import LogFile
from ottla.storage.findings import Finding, FindingKind, finding_of

Range = tuple[int, int]
"""The first offset, and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapGroup:
    """The `.swap` logs that replace the same segments, ascending."""

    logs: tuple[FileName, ...]

    @property
    def first(self) -> int:
        return self.logs[0].offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapJudgement:
    """Whether a group may replace the segments that begin before `end`; `fault` if it may not."""

    end: int
    fault: Finding | None = None

    def replaces(self, group: SwapGroup, base_offset: int) -> bool:
        return group.first <= base_offset < max(self.end, group.first + 1)


def swap_groups(names: Iterable[FileName]) -> list[SwapGroup]:
    """The groups of a directory's swaps: the segment with a group's first offset is an old one."""
    listed = [one for one in names if one.kind is FileKind.LOG]
    old = {one.offset for one in listed if one.suffix in (FileSuffix.LIVE, FileSuffix.DELETED)}
    groups: list[list[FileName]] = []
    for one in sorted(listed, key=lambda name: name.offset):
        if one.suffix is not FileSuffix.SWAP:
            continue
        if groups and one.offset not in old:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [SwapGroup(logs=tuple(one)) for one in groups]


def judge_swaps(
    file_system: FileSystem,
    directory: str,
    group: SwapGroup,
    live: Sequence[int],
    integrity: Integrity | None,
) -> SwapJudgement:
    """Judges a group beside the log's live segments, by their base offsets."""
    ranges: list[Range] = []
    try:
        for one, limit in _with_limits(group):
            path = join(directory, one.text)
            ranges += _sound_ranges(file_system, path, one.offset, limit)
        end = ranges[-1][1]
        is_noted = _check_facts(file_system, directory, group, integrity)
        for base_offset in live if not is_noted else ():
            if base_offset < end:
                old = join(directory, log_file_name(base_offset))
                _check_coverage(file_system, old, base_offset, group, ranges)
    except CorruptionError as error:
        fault = finding_of(FindingKind.DAMAGED_SWAP, error)
        return SwapJudgement(end=group.first, fault=fault)
    except OSError as error:
        path = str(error.filename or join(directory, group.logs[0].text))
        reason = str(error.strerror or error)
        fault = Finding(kind=FindingKind.DAMAGED_SWAP, path=path, position=0, reason=reason)
        return SwapJudgement(end=group.first, fault=fault)
    return SwapJudgement(end=end)


def _with_limits(group: SwapGroup) -> Iterator[tuple[FileName, int]]:
    offsets = [one.offset for one in group.logs]
    limits = [*offsets[1:], offsets[-1] + MAX_OFFSETS]
    return zip(group.logs, limits, strict=True)


def _sound_ranges(
    file_system: FileSystem, path: str, base_offset: int, limit: int
) -> Iterator[Range]:
    """Yields the offsets of a swap's batches, all of which must be sound and ascend."""
    is_empty = True
    with closing(file_system.open(path)) as file:
        for one in scan_segment(file, base_offset, limit):
            if isinstance(one, DamagedRegion):
                raise CorruptionError(path, one.position, one.reason)
            is_empty = False
            yield scan.first_offset_in_header(one.batch), one.batch.last_offset + 1
    if is_empty:
        raise CorruptionError(path, 0, "it has no batches")


def _check_facts(
    file_system: FileSystem, directory: str, group: SwapGroup, integrity: Integrity | None
) -> bool:
    """Whether the integrity file notes these swaps; raises `CorruptionError` for others."""
    if integrity is None:
        return False
    is_noted = all(one.offset in integrity.swaps for one in group.logs)
    for one in group.logs:
        noted = integrity.swaps.get(one.offset, NOTHING_KNOWN) if is_noted else NOTHING_KNOWN
        if not is_noted and one.offset == group.first:
            # A split does not change the first batch.
            known = integrity.segments.get(one.offset, NOTHING_KNOWN)
            noted = SegmentFacts(first_checksum=known.first_checksum)
        path = join(directory, one.text)
        with closing(_opened(file_system, path)) as log:
            if noted.size not in (None, log.size):
                reason = f"it has {log.size} bytes instead of {noted.size}"
                raise CorruptionError(path, min(log.size, noted.size or 0), reason)
            first = scan.header_at(log, 0)
            if noted.first_checksum is not None and (
                first is None or first.crc != noted.first_checksum
            ):
                raise CorruptionError(path, 0, "it begins with a batch of another log or segment")
    return is_noted


def _check_coverage(
    file_system: FileSystem,
    path: str,
    base_offset: int,
    group: SwapGroup,
    ranges: Sequence[Range],
) -> None:
    """Raises `CorruptionError` unless the swaps have all offsets that a live segment has.

    A segment that begins before the swaps must end before them.
    """
    place = 0
    for position, header in _readable_headers(file_system, path):
        first, end = scan.first_offset_in_header(header), header.last_offset + 1
        if base_offset < group.first:
            if end <= group.first:
                continue
        else:
            while place < len(ranges) and ranges[place][1] <= first:
                place += 1
            if _covers(ranges, place, (first, end)):
                continue
        swap = join(parent_directory(path), group.logs[0].text)
        reason = f"it would replace {scan.offsets_of(header)} of {path} at byte {position}"
        raise CorruptionError(swap, 0, f"{reason}, which it lacks")


def _readable_headers(file_system: FileSystem, path: str) -> Iterator[tuple[int, Batch]]:
    """The headers of a live segment up to its first damage."""
    with closing(_opened(file_system, path)) as log, suppress(CorruptionError):
        yield from scan.headers(log)


def _opened(file_system: FileSystem, path: str) -> LogFile:
    file = file_system.open(path)
    return LogFile(file_system, file, file.size())


def _covers(ranges: Sequence[Range], place: int, wanted: Range) -> bool:
    due = wanted[0]
    while place < len(ranges) and ranges[place][0] <= due < wanted[1]:
        due = max(due, ranges[place][1])
        place += 1
    return due >= wanted[1]
