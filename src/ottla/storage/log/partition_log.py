"""One partition's log: its state, and the three classes that work on it.

Format pages: docs/format/README.md lists the files of a partition. The module that writes a file
describes what a crash can leave of it; `recovery` repairs it. Kafka's counterparts: `UnifiedLog`,
`LocalLog`.
"""

from collections.abc import Callable

from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.losses import KnownLosses
from ottla.storage.log.maintenance import LogMaintenance
from ottla.storage.log.reader import LogReader
from ottla.storage.log.state import LogState, RecoveredLog
from ottla.storage.log.writer import LogWriter
from ottla.storage.segment.segment_facts import known_losses


class PartitionLog(LogState):
    """An open log with its `reader`, `writer` and `maintenance`.

    `on_cut` is called after a truncation at the log's end. With a `high_watermark` the log is
    replicated: readers see no later records until other replicas have them.
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
        # Without other replicas, all recovered records are committed.
        self.writer.move_high_watermark(
            self.log_end_offset if high_watermark is None else high_watermark
        )
        if not self.integrity.known.aborts_are_indexed:
            self.maintenance.begin_abort_check()

    def losses(self, cleaned_until: int) -> KnownLosses:
        """The known lost offsets; the cleaner has compacted the log up to `cleaned_until`."""
        return known_losses(self.integrity.now(), self.segments.values, cleaned_until)
