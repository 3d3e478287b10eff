"""Lists the segments of a partition's directory, for a process that only reads it.

Format pages: docs/format/README.md lists the files. A broker may be renaming and removing files
meanwhile. Kafka has no counterpart: its tools take files.
"""

from dataclasses import replace

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, base_name, join, parent_directory
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    FileKind,
    FileName,
    FileSuffix,
    parse_file_name,
)

LISTING_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """A segment as listed; `size` is the log file's size at that time."""

    base_offset: int
    log_path: str
    size: int

    def path_of(self, kind: FileKind) -> str:
        """The path of the segment's file of another kind, which is named like the log."""
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
    """Whether there is a transaction index, with any suffix."""

    least_end_offset: int = 0
    """The base offset of the first segment that was created after this listing: the last listed
    segment may have been compacted since, and then does not show where the log ends."""


def listed_base_offsets(file_system: FileSystem, directory: str) -> set[int]:
    """The base offsets of segments, including those that compaction is putting in place."""
    return {
        one.offset
        for name in file_system.list(directory)
        if (one := parse_file_name(name)) is not None and _is_log(one)
    }


def list_partition(
    file_system: FileSystem, directory: str, before: PartitionFiles | None = None
) -> PartitionFiles:
    """The files of a partition's directory; raises `FileNotFoundError`.

    A broker may be renaming files meanwhile, and a listing can miss a file that is being renamed:
    two consecutive listings must agree, of which `before` may be the first. Segments that are
    created meanwhile after the last one are left for the next listing. While compaction replaces
    segments, and after a crash during that, a `.swap` file takes the place of a removed log file.
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
            continue
        if _is_log(parsed):
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


def _is_log(name: FileName) -> bool:
    return name.kind is FileKind.LOG and name.suffix in (FileSuffix.LIVE, FileSuffix.SWAP)
