"""Snapshots of a running quorum's log: when they are made, of what, and which are given up.

The state is an image of what is committed, which nothing changes any more: the work may be done in
steps, or in another thread. Kafka's counterparts: `SnapshotGenerator`, `RecordsSnapshotWriter`,
`KafkaMetadataLog.maybeClean`.
"""

from collections.abc import Iterator, Sequence

from ottla.base.errors import ShortageError
from ottla.base.timestamps import Timestamps
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_log import PartitionQuorumLog
from ottla.codec.schema import Message
from ottla.metadata.control import SnapshotHeaderRecord
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import image_changes
from ottla.metadata.log_writing import snapshot_parts
from ottla.quorum.appending import control_records
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import VoterSet, voter_records
from ottla.record.batch import batch_at

HEAD_SIZE = 1 << 16

PAUSE_MS = 60_000
"""The time before a snapshot is tried again for which there was no room."""


class SnapshotWork:
    """A snapshot to be written, in steps of about 1 ms and a last one that syncs the file.

    They may run in another thread than everything else. They raise `StorageError`; after a
    `ShortageError` nothing is left of the snapshot, and another may be made later.
    """

    def __init__(
        self, log: PartitionQuorumLog, image: MetadataImage, head: Sequence[Message], at: Timestamps
    ) -> None:
        self.id = SnapshotId(image.end_offset, image.epoch)
        self.path = log.snapshot_path(self.id)
        self._log = log
        self._parts = snapshot_parts(
            image_changes(MetadataImage(), image),
            epoch=image.epoch,
            now_ms=at.now_ms,
            head=head,
            last_timestamp_ms=log.timestamp_before(image.end_offset),
        )

    def steps(self) -> Iterator[None]:
        try:
            yield from self._steps()
        except ShortageError:
            self._log.drop_snapshot(self.id)
            raise

    def _steps(self) -> Iterator[None]:
        position = 0
        for part in self._parts:
            if part:
                self._log.write_snapshot(self.id, position, part)
                position += len(part)
            yield
        self._log.finish_snapshot(self.id)

    def carry_out(self) -> None:
        for _ in self.steps():
            pass


class QuorumSnapshots:
    """Decides in the quorum's thread::

        if snapshots.is_due(image.end_offset, at):
            work = snapshots.begin(image, *quorum.snapshot_voters(image.end_offset), at)
        ...  # once `work.steps()` is done, here or in another thread:
        if snapshots.ended(work):
            quorum.snapshot_made(work.id)
        while (oldest := snapshots.outdated(at)) is not None:
            quorum.delete_before(oldest)  # and what it wants is carried out

    An image must not be one within a metadata transaction.
    """

    def __init__(self, log: PartitionQuorumLog, limits: SnapshotLimits, at: Timestamps) -> None:
        self._log = log
        self._limits = limits
        self._begun_ms = at.monotonic_ms
        self._size_then = log.appended_size - log.size_from(self._latest_end)
        self._before = self._begun_ms, self._size_then
        self._not_before_ms = 0.0
        self._work: SnapshotWork | None = None
        self._oldest: tuple[SnapshotId, int] | None = None
        """The time up to which the oldest snapshot has everything."""

    @property
    def _latest_end(self) -> int:
        return max((one.end_offset for one in self._log.snapshots), default=0)

    def is_due(self, end_offset: int, at: Timestamps) -> bool:
        """Whether the state below an offset, up to which all is committed, should be written."""
        if self._work is not None or end_offset <= max(
            self._latest_end, self._log.log_start_offset
        ):
            return False
        if at.monotonic_ms < self._not_before_ms:
            return False
        limits = self._limits
        if self._log.appended_size - self._size_then >= limits.bytes_between:
            return True
        return 0 < limits.interval_ms <= at.monotonic_ms - self._begun_ms

    def begin(
        self, image: MetadataImage, kraft_version: int, voters: VoterSet, at: Timestamps
    ) -> SnapshotWork:
        """Raises `StorageError`."""
        self._before = self._begun_ms, self._size_then
        self._begun_ms, self._size_then = at.monotonic_ms, self._log.appended_size
        self._work = SnapshotWork(self._log, image, voter_records(kraft_version, voters), at)
        return self._work

    def put_off(self, at: Timestamps) -> None:
        """There was no room for the snapshot that was begun."""
        self._work = None
        self._begun_ms, self._size_then = self._before
        self._not_before_ms = at.monotonic_ms + PAUSE_MS

    def ended(self, work: SnapshotWork) -> bool:
        """Whether the log still goes on after it; not if a leader's snapshot has replaced it.

        Raises `StorageError`.
        """
        self._work = None
        log = self._log
        if work.id not in log.snapshots or not (
            log.log_start_offset <= work.id.end_offset <= log.log_end_offset
        ):
            return False
        # So that what is before it can be deleted soon: Kafka waits for a segment to be full. Not
        # before there is a snapshot, for which there may be no room.
        log.end_segment(self._limits.bytes_between // 2)
        return True

    def outdated(self, at: Timestamps) -> SnapshotId | None:
        """The snapshot that is to be the oldest one, if what is before it is too old or too much;
        to be asked again when that was deleted. Raises `StorageError`.
        """
        every = self._log.snapshots
        if len(every) < 2 or not (self._is_too_much(every) or self._is_too_old(every[0], at)):
            return None
        return every[1]

    def _is_too_much(self, snapshots: Sequence[SnapshotId]) -> bool:
        limit = self._limits.retention_bytes
        size = self._log.size + sum(map(self._log.snapshot_size, snapshots))
        return 0 <= limit < size

    def _is_too_old(self, snapshot: SnapshotId, at: Timestamps) -> bool:
        limit_ms = self._limits.retention_ms
        return 0 <= limit_ms < at.now_ms - self._timestamp_of(snapshot)

    def _timestamp_of(self, snapshot: SnapshotId) -> int:
        if self._oldest is None or self._oldest[0] != snapshot:
            batch = batch_at(self._log.read_snapshot(snapshot, 0, HEAD_SIZE), 0)
            _, header = next(control_records(batch))
            assert isinstance(header, SnapshotHeaderRecord)
            self._oldest = snapshot, header.last_contained_log_timestamp
        return self._oldest[1]
