"""What lies in a log directory under a partition's name, and what is to become of it at a start.

One directory alone cannot tell: whether a log is current is known where all directories are
(`broker/arrangement.py`). Kafka's counterpart: the branches of `LogManager.loadLog`.
"""

from dataclasses import dataclass
from enum import Enum, auto

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.storage.filenames import (
    PARTITION_METADATA,
    DirectoryState,
    PartitionDirectory,
    parse_directory_name,
)
from ottla.storage.partition_metadata import read_topic_id


class Fate(Enum):
    LOAD = auto()
    """It is the partition's log."""
    COPY = auto()
    """It is the copy of a move that goes on."""
    PROMOTE = auto()
    """It is the copy of a move that was decided: it takes its place, and is then loaded."""
    STRAY = auto()
    """Nothing here belongs to it: it is renamed and kept for a person."""
    REMOVE = auto()
    """Its files go after `file.delete.delay.ms`."""
    KEEP = auto()
    """It stays as it is until more is known, or a person has seen it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLog:
    """A directory of one partition.

    `topic_id` is `None` without `partition.metadata`, or where `damage` tells what is wrong with
    it.
    """

    path: str
    name: PartitionDirectory
    topic_id: Uuid | None
    damage: CorruptionError | None = None


FATES_ALONE = {
    DirectoryState.LIVE: Fate.LOAD,
    DirectoryState.FUTURE: Fate.COPY,
    DirectoryState.DELETE: Fate.REMOVE,
    DirectoryState.STRAY: Fate.KEEP,
}
"""What becomes of each where there is only one directory to look at."""


def find_logs(file_system: FileSystem, directory: str) -> list[FoundLog]:
    """Every directory in a log directory that has a partition's name, in order of name.

    Undoes creations that a crash cut off.
    """
    found = []
    for name in file_system.list(directory):
        parsed = parse_directory_name(name)
        path = join(directory, name)
        status = file_system.status(path)
        if parsed is None or status is None or not status.is_directory:
            continue
        is_log = parsed.state in (DirectoryState.LIVE, DirectoryState.FUTURE)
        if not (is_log and _undo_creation(file_system, path)):
            found.append(_found(file_system, path, parsed))
    return found


def _found(file_system: FileSystem, path: str, name: PartitionDirectory) -> FoundLog:
    """A damaged file is that partition's trouble only; Kafka takes the directory offline."""
    try:
        topic_id = read_topic_id(file_system, join(path, PARTITION_METADATA))
        return FoundLog(path=path, name=name, topic_id=topic_id)
    except CorruptionError as error:
        return FoundLog(path=path, name=name, topic_id=None, damage=error)


def _undo_creation(file_system: FileSystem, path: str) -> bool:
    """Removes a partition whose creation a crash cut off before it had its topic's id.

    The next one of that name would otherwise stand beside others of its topic without the id.
    """
    names = file_system.list(path)
    if any(name != PARTITION_METADATA + ".tmp" for name in names):
        return False
    for name in names:
        file_system.remove(join(path, name))
    file_system.remove_directory(path)
    return True
