"""Decides which gaps of a log are lost batches, and whether its first segments are missing.

Compaction leaves gaps in offsets, and so may a follower. Ottla records the offset from which a log
has no gaps, before it leaves one, and the list of segments (`integrity`). The leader epochs show
where a log starts: retention truncates them durably, then moves the log start, then deletes files.
For logs that Kafka wrote, gaps cannot be judged. Kafka has no counterpart: it continues after a
gap.
"""

import logging
from collections.abc import Callable, Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.storage.files.filenames import INTEGRITY, LEADER_EPOCHS, log_file_name
from ottla.storage.files.integrity import (
    is_integrity_lost,
    read_integrity,
)
from ottla.storage.files.losses import NO_LOSSES, KnownLosses, missing_front
from ottla.storage.findings import Finding, FindingKind, unreadable
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.segment.partition_files import listed_base_offsets

logger = logging.getLogger(__name__)

GAPS_COUNT = "gaps count as losses where the log was not compacted"


class LostOffsetsError(CorruptionError):
    """Batches are missing entirely; the reason names their offsets."""


class Gaps:
    """The gaps of one log.

    The recorded facts are read at the first gap, and again before any gap counts as a loss.
    """

    def __init__(
        self, file_system: FileSystem, path: str, cleaned_until: Callable[[], int]
    ) -> None:
        self._file_system = file_system
        self._path = path
        self._cleaned_until = cleaned_until
        self._known = KnownLosses(gapless_from=0)

    def damage(self, path: str, position: int, gap: tuple[int, int]) -> Finding | None:
        """The damage if batches of [gap[0], gap[1]) are lost before `position`, else `None`."""
        if self._known.within(*gap) is None:
            return None
        # Compaction may have left this gap after the facts were read.
        self._known = self._recorded()
        return self._known.before(path, position, gap)

    def check(self, path: str, position: int, gap: tuple[int, int]) -> None:
        """As `damage`, but raises `LostOffsetsError`."""
        damage = self.damage(path, position, gap)
        if damage is not None:
            error = damage.error()
            raise LostOffsetsError(error.path, error.position, error.reason)

    def lost_segments(self) -> Iterator[Finding]:
        """The missing segments between existing ones, by the list in the integrity file."""
        for first, following in self._recorded().segments:
            yield unreadable(
                FindingKind.LOST_OFFSETS,
                join(self._path, log_file_name(first)),
                (0, 0),
                f"is missing, though {INTEGRITY} lists it",
                (first, following),
            )

    def _recorded(self) -> KnownLosses:
        """The losses by the integrity file, or the cleaner checkpoint if that file is lost."""
        # The directory is listed before and after the file is read, as a broker may change both.
        there = listed_base_offsets(self._file_system, self._path)
        integrity = read_integrity(self._file_system, self._path)
        if integrity is None and not is_integrity_lost(self._file_system, self._path):
            return NO_LOSSES
        if integrity is None:
            logger.warning("%s/%s is lost: %s", self._path, INTEGRITY, GAPS_COUNT)
            return KnownLosses(gapless_from=self._cleaned_until())
        there |= listed_base_offsets(self._file_system, self._path)
        return integrity.losses(there, self._cleaned_until())


def lost_front(
    file_system: FileSystem,
    directory: str,
    first_offset: int,
    recorded_start: int,
    *,
    is_same_boot: bool = False,
    is_tiered: bool = False,
) -> Finding | None:
    """The damage before `first_offset` if retention did not delete those segments, else `None`.

    `is_same_boot`: no power failure can have lost a line of the integrity file. `is_tiered`: the
    log may begin in the remote tier, so that its leader epochs do not show what was here. The
    caller lists the segments before it reads `recorded_start`: a broker may move the start and
    delete files meanwhile.
    """
    if first_offset <= recorded_start:
        return None
    epochs_begin = None if is_tiered else _begin_of_epochs(file_system, directory)
    integrity = read_integrity(file_system, directory)
    found: tuple[int, str] | None = None
    if integrity is not None:
        found = integrity.begin_of_missing(
            first_offset, epochs_begin, is_same_boot=is_same_boot or is_tiered
        )
    elif epochs_begin is not None and is_integrity_lost(file_system, directory):
        found = epochs_begin, LEADER_EPOCHS
    path = join(directory, log_file_name(first_offset))
    return missing_front(found, path, first_offset, recorded_start)


def _begin_of_epochs(file_system: FileSystem, directory: str) -> int | None:
    try:
        epochs = LeaderEpochs.read(file_system, join(directory, LEADER_EPOCHS))
    except CorruptionError:
        return None
    return epochs.earliest_start_offset
