"""The directories under a partition's name in a log directory, and what a start does with them. One
directory alone cannot show whether a log is current: that is decided over all directories
(`broker/startup/startup_plan.py`). Kafka's counterpart: the branches of `LogManager.loadLog`.
"""

import logging
from enum import Enum, auto

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    CLUSTER_METADATA,
    INTEGRITY,
    PARTITION_METADATA,
    DirectoryState,
    PartitionDirectory,
    parse_directory_name,
)
from ottla.storage.files.integrity import Integrity, read_integrity
from ottla.storage.files.partition_metadata import (
    is_id_with_flipped_bit,
    read_topic_id,
    write_topic_id,
)

logger = logging.getLogger(__name__)


class StartupAction(Enum):
    LOAD = auto()
    """It is the partition's log."""
    COPY = auto()
    """It is the copy of a move that continues."""
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

    `topic_id` is `None` without `partition.metadata`, or where `damage` says what is wrong with
    it.
    """

    path: str
    name: PartitionDirectory
    topic_id: Uuid | None
    damage: CorruptionError | None = None
    integrity: Integrity | None = None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.name.topic, self.name.partition)

    @property
    def home(self) -> TopicPartition:
        """The partition that wrote it, by its integrity file; otherwise the one of its name."""
        known = self.integrity
        return self.key if known is None or known.partition is None else known.partition


ACTIONS_ALONE = {
    DirectoryState.LIVE: StartupAction.LOAD,
    DirectoryState.FUTURE: StartupAction.COPY,
    DirectoryState.DELETE: StartupAction.REMOVE,
    DirectoryState.STRAY: StartupAction.KEEP,
}
"""What becomes of each where there is only one directory to look at."""

LOADED = (StartupAction.LOAD, StartupAction.PROMOTE, StartupAction.COPY)
"""What is a log afterwards."""


def find_logs(file_system: FileSystem, directory: str) -> list[FoundLog]:
    """Every directory in a log directory that has a partition's name, in order of name.

    Undoes creations that a crash cut off. The metadata log of a KRaft cluster is no topic's.
    """
    found = []
    for name in file_system.list(directory):
        parsed = parse_directory_name(name)
        path = join(directory, name)
        status = file_system.status(path)
        if parsed is None or status is None or not status.is_directory:
            continue
        if parsed.topic == CLUSTER_METADATA:
            continue
        is_log = parsed.state in (DirectoryState.LIVE, DirectoryState.FUTURE)
        if not (is_log and _undo_creation(file_system, path)):
            found.append(_found(file_system, path, parsed))
    return found


def _found(file_system: FileSystem, path: str, name: PartitionDirectory) -> FoundLog:
    """A damaged file is that partition's trouble only; Kafka takes the directory offline."""
    topic_id: Uuid | None = None
    damage: CorruptionError | None = None
    metadata_path = join(path, PARTITION_METADATA)
    try:
        topic_id = read_topic_id(file_system, metadata_path)
    except CorruptionError as error:
        damage = error
    integrity = read_integrity(file_system, path)
    recorded_id = integrity.topic_id if integrity else None
    is_other = topic_id is not None and topic_id != recorded_id
    if recorded_id and (
        damage or (is_other and is_id_with_flipped_bit(file_system, metadata_path, recorded_id))
    ):
        topic_id, damage = recorded_id, None
        logger.warning(
            "%s has changed on the disk; it is rebuilt with the id %s",
            metadata_path, uuid_text(topic_id),
        )  # fmt: skip
        write_topic_id(file_system, metadata_path, topic_id)
    elif recorded_id and is_other and topic_id is not None:
        reason = f"says {uuid_text(topic_id)}, but {INTEGRITY} beside it {uuid_text(recorded_id)}"
        topic_id = None
        damage = CorruptionError(metadata_path, 0, f"{reason}; remove the one that is wrong")
    elif damage is None:
        topic_id = topic_id or recorded_id
    return FoundLog(path=path, name=name, topic_id=topic_id, damage=damage, integrity=integrity)


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
