"""Which files of a log directory a second directory shares, and which it gets copies of.

The `.log` of an ended segment is shared, by a hard link: Kafka appends to the last segment only,
and Ottla takes a copy of its own before it changes a log file that has another name (`LogFile`,
`log repair`). All else is copied: it is small, or grows, or is changed in place, as indexes are.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.base.files import join
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    CLUSTER_METADATA_DIRECTORY,
    LOCK,
    OWNER,
    SNAPSHOT_NOTE,
    DirectoryState,
    FileKind,
    FileSuffix,
    parse_directory_name,
    parse_file_name,
)

_NOT_TAKEN = (LOCK, OWNER, SNAPSHOT_NOTE)


@dataclass(frozen=True, slots=True)
class SizedFile:
    """A file by its name, or by its path below the directory."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """Paths are relative to the directory; `folders` do not hold it itself."""

    folders: tuple[str, ...]
    linked: tuple[SizedFile, ...]
    copied: tuple[SizedFile, ...]

    @property
    def size(self) -> int:
        """Of all files."""
        return sum(one.size for one in (*self.linked, *self.copied))


def is_taken(folder: str) -> bool:
    """Whether a directory here is a partition's, and not one of a topic that was deleted."""
    parsed = parse_directory_name(folder)
    return parsed is not None and parsed.state is not DirectoryState.DELETE


def plan_copy(files: Sequence[SizedFile], folders: Mapping[str, Sequence[SizedFile]]) -> CopyPlan:
    """What becomes of the files of a directory, and of those of the partitions in it."""
    linked: list[SizedFile] = []
    copied = [one for one in files if is_lasting(one.name)]
    for folder, inside in sorted(folders.items()):
        shared = (
            ended_logs(one.name for one in inside)
            if folder != CLUSTER_METADATA_DIRECTORY
            else set()
        )
        for one in filter(lambda one: is_lasting(one.name), inside):
            found = SizedFile(join(folder, one.name), one.size)
            (linked if one.name in shared else copied).append(found)
    return CopyPlan(folders=tuple(sorted(folders)), linked=tuple(linked), copied=tuple(copied))


def ended_logs(names: Iterable[str]) -> set[str]:
    """The logs of all segments but the last."""
    logs = [
        (parsed.offset, name)
        for name in names
        if (parsed := parse_file_name(name)) is not None
        and parsed.kind is FileKind.LOG
        and parsed.suffix is FileSuffix.LIVE
    ]
    return {name for _, name in sorted(logs)[:-1]}


def is_lasting(name: str) -> bool:
    """Whether a file is neither a process's own, nor one that the next start removes."""
    parsed = parse_file_name(name)
    if parsed is not None:
        return parsed.suffix not in (FileSuffix.DELETED, FileSuffix.CLEANED)
    return name not in _NOT_TAKEN and not name.endswith(".tmp")
