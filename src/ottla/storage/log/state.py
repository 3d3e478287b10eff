"""The state of one partition's log while it is open.

Only `LogWriter` and `LogMaintenance` change it. Kafka's counterpart: the fields of `UnifiedLog` and
`LocalLog`.
"""

from ottla.base.files import FileSystem, base_name
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.files.boot_note import UNNOTED
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.integrity import IntegrityFile
from ottla.storage.log.abort_check import AbortCheck
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.offsets import LogOffsets
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments


@dataclass(slots=True, kw_only=True)
class RecoveredLog:
    """The result of recovery: a log whose files are consistent."""

    file_system: FileSystem
    directory: str
    config: TopicConfig
    segments: Segments
    epochs: LeaderEpochs
    producers: ProducerState
    snapshots: SnapshotFiles
    log_start_offset: int
    local_start_offset: int
    log_end_offset: int
    recovery_point: int
    integrity: IntegrityFile


class LogState:
    """The parts of an open log; of the objects, only `config` and `health` are replaced later."""

    def __init__(self, recovered: RecoveredLog, health: DirectoryHealth) -> None:
        self.file_system = recovered.file_system
        self.directory = recovered.directory
        self.config = recovered.config
        self.health = health
        self.segments = recovered.segments
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.snapshots = recovered.snapshots
        self.integrity = recovered.integrity
        self.offsets = LogOffsets(
            log_start_offset=recovered.log_start_offset,
            local_start_offset=recovered.local_start_offset,
            log_end_offset=recovered.log_end_offset,
            recovery_point=recovered.recovery_point,
        )
        # Segments that were rolled before a crash may not be flushed.
        self.rolled_until = recovered.segments.active.base_offset
        self.last_flush_ms = 0.0
        self.roll_count = 0
        """The number of rolls since the log was opened."""
        self.is_replicated = False
        """Whether other replicas decide what is committed: then `write_out` does not move the high
        watermark."""
        self.written_end = UNNOTED
        """Where the log's end is stored for a start after a kill."""
        self.abort_check: AbortCheck | None = None
        """Set until the transaction indexes have been checked for missing entries."""

    @property
    def name(self) -> str:
        """`topic-partition`, the directory's own name."""
        return base_name(self.directory)

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def local_start_offset(self) -> int:
        return self.offsets.local_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.offsets.last_stable_offset

    @property
    def size(self) -> int:
        """The total size of all segments in bytes."""
        return sum(segment.log.size for segment in self.segments.values)

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    @property
    def segment_paths(self) -> dict[int, str]:
        """The paths of the segments' logs by base offset."""
        return {segment.base_offset: segment.log.path for segment in self.segments.values}

    def open_segment(self, base_offset: int, now_ms: int, *, create: bool = False) -> Segment:
        """Opens a segment of this directory; the caller adds it to the log."""
        return Segment(
            self.file_system,
            self.directory,
            base_offset,
            config=self.config,
            created_ms=now_ms,
            create=create,
        )

    def sync_directory(self) -> None:
        """Makes the creation, renaming and removal of files durable."""
        self.file_system.sync_directory(self.directory)
