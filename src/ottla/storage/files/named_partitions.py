"""Which partitions a log directory had when its checkpoints were written: one of them that has no
directory now is lost.

The recovery points name every partition. A checkpoint has no checksum, so damage can take a name
out of it unseen: the high watermarks and log starts, which are written at the same time, are asked
too. They are not where the recovery points are whole and name nothing: Kafka leaves the high
watermarks as they are when the last log of a directory is deleted.

Format page: docs/format/checkpoints.md.
"""

from collections.abc import Callable, Mapping

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

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    """The partitions by the names of the files that name them, the best of these first.

    Unless it `is_complete`, the recovery points are damaged, and there may be others.
    """

    by_file: Mapping[str, Offsets]
    is_complete: bool = True

    def offset_of(self, key: TopicPartition) -> int | None:
        """How far the partition reached at least; `None` if no file names it."""
        return next((entries[key] for entries in self.by_file.values() if key in entries), None)

    def file_of(self, key: TopicPartition) -> str | None:
        """The first file that names the partition."""
        return next((name for name, entries in self.by_file.items() if key in entries), None)

    def partitions(self) -> set[TopicPartition]:
        """All of them."""
        return set[TopicPartition]().union(*self.by_file.values())


def find_named_partitions(find: Callable[[str], Offsets | None]) -> NamedPartitions:
    """What checkpoints say that `find` reads by their names.

    `find` returns `None` for an absent or empty one, and raises `CorruptionError`; a damaged one
    says nothing.
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
                continue  # a start that needs its offsets says so
    return NamedPartitions(by_file=by_file, is_complete=is_complete)


def read_named_partitions(file_system: FileSystem, directory: str) -> NamedPartitions:
    """The partitions in the checkpoints of a log directory; raises `OSError`."""
    return find_named_partitions(
        lambda name: OffsetCheckpoint(file_system, join(directory, name)).find()
    )
