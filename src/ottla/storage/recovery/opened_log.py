"""A log in recovery: its recorded state, and the segments that the phases have opened so far.

Kafka's counterpart: the fields of `LogLoader`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import field

from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import LEADER_EPOCHS, MAX_OFFSET
from ottla.storage.files.integrity import Integrity, IntegrityFile
from ottla.storage.log.epoch_replay import read_epochs
from ottla.storage.log.producer_replay import rebuild_producers
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The recorded state of a log before its own files are read."""

    file_system: FileSystem
    directory: str
    config: TopicConfig
    now_ms: int
    was_clean_stop: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int | None = None
    """As checkpointed; `None` if it was not."""
    reached: int = 0
    """The log's end by another checkpoint, if the recovery point is lost."""
    cleaned_until: int = 0
    """Compaction may have left gaps before this offset."""
    topic_id: Uuid | None = None
    is_same_boot: bool = False
    """Whether the system was not started again since, so that nothing written is missing."""
    written_end: int = 0
    """The log's end as of the last write, if the system was not started again; 0 if unknown."""
    integrity: Integrity | None = None
    is_integrity_lost: bool = False
    """Whether the integrity file is missing or damaged, though Kafka has not removed it."""
    are_settings_known: bool = True
    """Whether `config` is that of the topic, and not the defaults of a broker that will hear it."""
    on_progress: Callable[[str, int], None] = field(default=lambda path, left: None)
    """Called with each segment that is recovered, and how many are left with it."""

    @property
    def gaps_before(self) -> int:
        """Compaction may have removed batches before this offset.

        For a topic that is no longer compacted, or whose settings are unknown here, it is the
        cleaner's checkpoint.
        """
        return MAX_OFFSET if self.config.is_compacted else self.cleaned_until

    @property
    def is_tiered(self) -> bool:
        """Whether the log's first segments may be in the remote tier only."""
        return self.config.remote_storage_enable

    @property
    def is_complete(self) -> bool:
        """Whether all that was written has to be there: no power failure can have lost it."""
        return self.was_clean_stop or self.is_same_boot

    @property
    def known_end(self) -> int:
        """The end of the log, by the checkpoint that states the largest offset."""
        return max(self.recovery_point, self.reached)

    @property
    def least_end(self) -> int:
        """The end at the clean shutdown, by the lower of two checkpoints; 0 after a crash."""
        if not self.was_clean_stop:
            return 0
        if self.high_watermark is None:
            return self.known_end
        return max(min(self.recovery_point, self.high_watermark), self.reached)

    def was_flushed(self, offset: int) -> bool:
        """Whether a batch at an offset was flushed, so that no crash can have torn it."""
        # The recovery point may equal the log's start only because the start was moved.
        return self.was_clean_stop or max(offset, self.log_start_offset) < self.recovery_point


class OpenedLog:
    """The log that the phases change in turn."""

    def __init__(self, request: LoadRequest) -> None:
        self.request = request
        self.segments = Segments()
        self.wrong_files: list[Segment] = []
        """Segments whose file belongs to another segment or log; they are kept, but not served."""
        self.base_offsets: list[int] = []
        """The base offsets of all listed segments, ascending, also of those dropped since."""
        self.lost_end = 0
        """The least end of a log whose last segment is gone; 0 if none is missing."""
        self.has_kept_damage = False
        """Whether damage was kept that no checkpoint counts as flushed."""
        self.epochs = read_epochs(request.file_system, join(request.directory, LEADER_EPOCHS))
        self._epochs_begin = self.epochs.earliest_start_offset
        """As recorded, before those that are lost are made again from the local segments."""
        self.knows_epochs = request.integrity is not None and self.epochs.earliest_epoch is not None
        self.integrity = IntegrityFile(request.file_system, request.directory, request.integrity)

    @property
    def local_start_offset(self) -> int:
        """The recorded log start, or the first segment's base offset if that is later."""
        return max(self.request.log_start_offset, self.segments.first.base_offset)

    @property
    def log_start_offset(self) -> int:
        """The local start; in a tiered log the recorded log start, as the tier has what is between.

        While it is not known whether the log is tiered, its start is kept if its leader epochs
        begin before the local start, as a tiered log's do, or are lost: a start that was raised
        too early would lose what is in the tier. If the log is not tiered, its start is raised
        once that is known.
        """
        request, local_start = self.request, self.local_start_offset
        first = self._epochs_begin
        may_be_tiered = not request.are_settings_known and (first is None or first < local_start)
        return request.log_start_offset if request.is_tiered or may_be_tiered else local_start

    @property
    def all_files(self) -> list[Segment]:
        """The log's segments and the wrong files, ascending."""
        return sorted((*self.segments.values, *self.wrong_files), key=lambda one: one.base_offset)

    def open_segment(self, base_offset: int, *, create: bool = False) -> Segment:
        request = self.request
        return Segment(
            request.file_system,
            request.directory,
            base_offset,
            config=request.config,
            created_ms=request.now_ms,
            create=create,
        )

    def continue_at(self, offset: int) -> None:
        """Adds a new active segment with this base offset."""
        self.segments.add(self.open_segment(offset, create=True))

    def drop(self, segments: Sequence[Segment]) -> None:
        """Deletes segments at the log's end, durably."""
        if segments:
            self.integrity.forget_from(segments[0].base_offset)
        # The last segment is deleted first, so that a crash in between leaves no hole.
        for segment in reversed(segments):
            logger.warning("%s lies after the end of the log and is removed", segment.log.path)
            segment.delete()
        self.segments.remove(segments)
        if segments:
            self.sync_directory()

    def sync_directory(self) -> None:
        self.request.file_system.sync_directory(self.request.directory)

    def snapshot_files(self) -> SnapshotFiles:
        """The producer snapshots that exist now."""
        request = self.request
        return SnapshotFiles(request.file_system, request.directory, self.integrity.snapshots)

    def rebuild_producers(
        self, producers: ProducerState, snapshots: SnapshotFiles, until_offset: int
    ) -> None:
        rebuild_producers(
            producers,
            snapshots,
            self.segments,
            log_start_offset=self.local_start_offset,
            until_offset=until_offset,
        )

    def forget_segments(self) -> None:
        """Closes all segments, before they are opened again or after a failure."""
        for segment in self.all_files:
            segment.close_files()
        self.segments, self.wrong_files = Segments(), []
