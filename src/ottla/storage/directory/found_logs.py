"""Finds the partition directories in a log directory, and names the actions of a start on them.

Which log is current is decided over all log directories (`broker/startup/startup_plan.py`). Kafka's
counterpart: the branches of `LogManager.loadLog`.
"""

import logging
from dataclasses import replace
from enum import Enum, auto
from itertools import chain, count

from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    CLUSTER_METADATA,
    INTEGRITY,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    SET_ASIDE,
    DirectoryState,
    FileKind,
    FileSuffix,
    PartitionDirectory,
    parse_directory_name,
    parse_file_name,
)
from ottla.storage.files.integrity import Integrity, read_integrity
from ottla.storage.files.partition_metadata import judge_topic_id, write_topic_id
from ottla.storage.findings import Finding

logger = logging.getLogger(__name__)


PARTITION_FILES = frozenset({INTEGRITY, LEADER_EPOCHS, PARTITION_METADATA})


class StartupAction(Enum):
    """What a start does with a partition directory."""

    LOAD = auto()
    """Load it as the partition's log."""
    COPY = auto()
    """Load it as the copy of a move that continues."""
    PROMOTE = auto()
    """Rename it, the copy of a move that was decided, to the partition's log, and load it."""
    STRAY = auto()
    """Rename it to a stray directory, since it belongs to no topic, and keep it."""
    REMOVE = auto()
    """Delete its files after `file.delete.delay.ms`."""
    KEEP = auto()
    """Leave it unchanged until more is known, or the user has acted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLog:
    """A directory of one partition.

    `topic_id` is `None` if `partition.metadata` is missing, or damaged as `damage` says.
    """

    path: str
    name: PartitionDirectory
    topic_id: Uuid | None
    damage: Finding | None = None
    integrity: Integrity | None = None
    obstacle: str | None = None
    """The file or folder that has the name of the directory or of one of its log files, and has to
    go first."""

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.name.topic, self.name.partition)


ACTIONS_ALONE = {
    DirectoryState.LIVE: StartupAction.LOAD,
    DirectoryState.FUTURE: StartupAction.COPY,
    DirectoryState.DELETE: StartupAction.REMOVE,
    DirectoryState.STRAY: StartupAction.KEEP,
}
"""The actions for a log directory that is opened alone."""

LOADED = (StartupAction.LOAD, StartupAction.PROMOTE, StartupAction.COPY)
"""The actions that load a log."""


def find_logs(file_system: FileSystem, directory: str) -> list[FoundLog]:
    """Every partition directory in a log directory, ordered by name.

    What is no directory, but has the name of a partition, is an `obstacle`. Directories whose
    creation a crash has interrupted are removed. The metadata log of a KRaft cluster is left out.
    """
    found = []
    for name in file_system.list(directory):
        parsed = parse_directory_name(name)
        path = join(directory, name)
        status = file_system.status(path)
        if parsed is None or status is None or parsed.topic == CLUSTER_METADATA:
            continue
        is_log = parsed.state in (DirectoryState.LIVE, DirectoryState.FUTURE)
        if not status.is_directory:
            if parsed.state is DirectoryState.LIVE:
                reason = f"{path} is not a directory; put the partition's in its place"
                found.append(FoundLog(path=path, name=parsed, topic_id=None, obstacle=reason))
            continue
        obstacle = clear_others(file_system, path)
        if not (is_log and _undo_creation(file_system, path)):
            found.append(replace(_found(file_system, path, parsed), obstacle=obstacle))
    return found


def clear_others(file_system: FileSystem, path: str) -> str | None:
    """Sets aside what has the name of a partition's file, and is a folder, a link or a FIFO.

    Returns the reason if it has the name of a log file: then the log must not be opened.
    """
    obstacle = None
    for name in file_system.list_others(path):
        other, parsed = join(path, name), parse_file_name(name)
        if parsed and parsed.kind is FileKind.LOG and parsed.suffix is FileSuffix.LIVE:
            obstacle = f"{other} is not a regular file; put the log file in its place"
        elif parsed or name in PARTITION_FILES or name.endswith(".tmp"):
            logger.error("%s is not a regular file; it is set aside as *%s", other, SET_ASIDE)
            file_system.rename(other, unused_name(file_system, other + SET_ASIDE))
    return obstacle


def unused_name(file_system: FileSystem, path: str) -> str:
    """The path, with a number if something has its name."""
    numbered = (f"{path}.{number}" for number in count(1))
    return next(one for one in chain([path], numbered) if file_system.status(one) is None)


def _found(file_system: FileSystem, path: str, name: PartitionDirectory) -> FoundLog:
    """Reads a partition's topic id, and repairs `partition.metadata` if the integrity file can."""
    # A damaged file only affects its partition; Kafka takes the whole directory offline.
    metadata_path = join(path, PARTITION_METADATA)
    integrity = read_integrity(file_system, path)
    if integrity is not None:
        # Parsed once, since a start asks several times for the facts of each segment.
        integrity = replace(integrity, segments=dict(integrity.segments))
    recorded_id = integrity.topic_id if integrity else None
    topic_id, damage = judge_topic_id(file_system, metadata_path, recorded_id)
    if damage is not None and topic_id is not None:
        logger.warning("%s; it is rewritten with the id %s", damage.text, uuid_text(topic_id))
        write_topic_id(file_system, metadata_path, topic_id)
        damage = None
    return FoundLog(path=path, name=name, topic_id=topic_id, damage=damage, integrity=integrity)


def _undo_creation(file_system: FileSystem, path: str) -> bool:
    """Removes a partition directory whose creation a crash interrupted before the topic id."""
    # Otherwise it would be loaded as a partition without an id beside others of its topic.
    names = file_system.list(path)
    if any(name != PARTITION_METADATA + ".tmp" for name in names):
        return False
    for name in names:
        file_system.remove(join(path, name))
    file_system.remove_directory(path)
    return True
