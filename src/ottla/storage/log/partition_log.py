"""One partition's log: its state, and the three classes that work on it. Format pages:
docs/format/README.md lists the files of a partition. What a crash can leave is described where each
file is written; `recovery` repairs it. Kafka's counterparts: `UnifiedLog`, `LocalLog`.
"""

from collections.abc import Callable

from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.integrity import KnownLosses
from ottla.storage.log.maintenance import LogMaintenance
from ottla.storage.log.reader import LogReader
from ottla.storage.log.state import LogState, RecoveredLog
from ottla.storage.log.writer import LogWriter
from ottla.storage.segment.segment_facts import known_losses


class PartitionLog(LogState):
    """`on_cut` is called when the log was cut and its recovery point went back.

    With a `high_watermark` the log is replicated: readers see no more until others have it.
    """

    def __init__(
        self,
        recovered: RecoveredLog,
        *,
        health: DirectoryHealth,
        random_below: Callable[[int], int],
        on_cut: Callable[[], None],
        high_watermark: int | None = None,
    ) -> None:
        super().__init__(recovered, health)
        self.reader = LogReader(self)
        self.writer = LogWriter(self, random_below)
        self.maintenance = LogMaintenance(self, self.writer, on_cut)
        self.is_replicated = high_watermark is not None
        # A single broker is its own only replica: what was recovered is replicated.
        self.writer.move_high_watermark(
            self.log_end_offset if high_watermark is None else high_watermark
        )
        if not self.integrity.known.aborts_are_indexed:
            self.maintenance.begin_abort_check()

    def losses(self, cleaned_until: int) -> KnownLosses:
        """What is known to be lost of a log that compaction has looked at up to an offset."""
        return known_losses(self.integrity.now(), self.segments.values, cleaned_until)
