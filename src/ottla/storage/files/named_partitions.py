"""The partitions that a log directory had when its checkpoints were written: a partition without a
directory now is lost.

The recovery points name every partition. A checkpoint has no checksum, so damage can remove a name
undetected: the high watermarks and log starts, which are written at the same time, are read too.
They are not read if the recovery points are intact and empty: Kafka does not update the high
watermarks when the last log of a directory is deleted.

Format page: docs/format/checkpoints.md.
"""

from collections.abc import Callable, Container, Mapping

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
)
from ottla.storage.files.known_topics import KnownTopics

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    """Partitions by the file that names them, the most reliable file first.

    Unless `is_complete`, the recovery points are damaged, and there may be other partitions.
    """

    by_file: Mapping[str, Offsets]
    is_complete: bool = True

    def offset_of(self, key: TopicPartition) -> int | None:
        """A lower bound of the partition's log end offset; `None` if no file names it."""
        return next((entries[key] for entries in self.by_file.values() if key in entries), None)

    def file_of(self, key: TopicPartition) -> str | None:
        """The first file that names the partition."""
        return next((name for name, entries in self.by_file.items() if key in entries), None)

    def partitions(self) -> set[TopicPartition]:
        """All named partitions."""
        return set[TopicPartition]().union(*self.by_file.values())

    def lost(
        self, here: Container[TopicPartition], topics: KnownTopics
    ) -> dict[TopicPartition, str]:
        """The partitions that are not here, though not deleted, each with the file that names it.

        `here` are those that have a directory, also one that is being moved or removed.
        """
        # Kafka removes a deleted topic from the recovery points at once, and from the other
        # checkpoints later.
        keys = self.partitions() if topics.is_found else self.by_file[CHECKPOINT_RECOVERY_POINT]
        lost = [key for key in sorted(keys) if key not in here and topics.still_has(*key)]
        return {key: str(self.file_of(key)) for key in lost}


def find_named_partitions(find: Callable[[str], Offsets | None]) -> NamedPartitions:
    """Collects the partitions of checkpoints, which `find` reads by name.

    `find` returns `None` for a missing or empty checkpoint, and raises `CorruptionError` for a
    damaged one, which is ignored.
    """
    is_complete = True
    points: Offsets | None = None
    try:
        points = find(CHECKPOINT_RECOVERY_POINT)
    except CorruptionError:
        is_complete = False
    by_file = {CHECKPOINT_RECOVERY_POINT: points or {}}
    if points is None or points:
        for name in (CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_LOG_START):
            try:
                by_file[name] = find(name) or {}
            except CorruptionError:
                continue  # a broker start that needs its offsets reports the damage
    return NamedPartitions(by_file=by_file, is_complete=is_complete)


def read_named_partitions(file_system: FileSystem, directory: str) -> NamedPartitions:
    """The partitions in the checkpoints of a log directory; raises `OSError`."""
    return find_named_partitions(
        lambda name: OffsetCheckpoint(file_system, join(directory, name)).find()
    )
