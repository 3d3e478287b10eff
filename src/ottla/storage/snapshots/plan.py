"""Decides which files of a log directory are hard-linked into a copy of it, and which are copied.

The `.log` file of an inactive segment is linked: Kafka appends to the active segment only, and
Ottla copies a log file with several links before it changes it (`LogFile`, `log repair`). All other
files are copied: they are small, or grow, or are changed in place, as indexes are.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.base.files import join
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    BOOT_NOTE,
    CLUSTER_METADATA_DIRECTORY,
    LOCK,
    OWNER,
    RESTORING,
    SNAPSHOT_NOTE,
    DirectoryState,
    FileKind,
    FileSuffix,
    parse_directory_name,
    parse_file_name,
)

_NOT_TAKEN = (LOCK, BOOT_NOTE, OWNER, RESTORING, SNAPSHOT_NOTE)


@dataclass(frozen=True, slots=True)
class SizedFile:
    """A file name, or a path relative to the directory, with the size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The folders and files of a copy; paths are relative to the directory."""

    folders: tuple[str, ...]
    linked: tuple[SizedFile, ...]
    copied: tuple[SizedFile, ...]

    @property
    def size(self) -> int:
        """The total size of all files in bytes."""
        return sum(one.size for one in (*self.linked, *self.copied))


def is_taken(folder: str) -> bool:
    """Whether a folder is a partition's, and not being deleted."""
    parsed = parse_directory_name(folder)
    return parsed is not None and parsed.state is not DirectoryState.DELETE


def plan_copy(files: Sequence[SizedFile], folders: Mapping[str, Sequence[SizedFile]]) -> CopyPlan:
    """Plans the copy of a directory's files, and of the files of its partitions by folder."""
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
    """The `.log` files of all segments but the active one."""
    logs = [
        (parsed.offset, name)
        for name in names
        if (parsed := parse_file_name(name)) is not None
        and parsed.kind is FileKind.LOG
        and parsed.suffix is FileSuffix.LIVE
    ]
    return {name for _, name in sorted(logs)[:-1]}


def is_lasting(name: str) -> bool:
    """Whether a file belongs in a copy: no process's lock or note, and no temporary file."""
    parsed = parse_file_name(name)
    if parsed is not None:
        return parsed.suffix not in (FileSuffix.DELETED, FileSuffix.CLEANED)
    return name not in _NOT_TAKEN and not name.endswith(".tmp")
