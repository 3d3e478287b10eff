"""What the machine knows of its log: where it begins and ends, the epochs in it, its snapshots.

It is ahead of the disk by the effects that have not been carried out yet. Kafka's counterparts:
`ReplicatedLog`, `LeaderEpochFileCache`, `ValidOffsetAndEpoch`.
"""

from bisect import bisect_left, bisect_right

from ottla.quorum.messages import EpochEnd, SnapshotId


class Lineage:
    """Offsets are those of a log that begins at `start_offset`; epochs ascend."""

    def __init__(
        self,
        start_offset: int,
        end_offset: int,
        epochs: list[tuple[int, int]],
        snapshots: list[SnapshotId],
    ) -> None:
        """`epochs` are (epoch, start offset). What of it a power failure would leave is not known:
        a process before this one may have been killed before it had synced what it wrote.
        """
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.synced_offset = start_offset
        self.history = 0
        """Counts truncations."""
        self.snapshots = snapshots
        self._epochs = [epoch for epoch, _ in epochs]
        self._starts = [start for _, start in epochs]

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of an empty log that of the snapshot before it."""
        return self._epochs[-1] if self._epochs else self._snapshot_epoch

    @property
    def _snapshot_epoch(self) -> int:
        return self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def end(self) -> EpochEnd:
        """Where the log ends; two logs are compared by epoch, then by offset."""
        return EpochEnd(self.last_epoch, self.end_offset)

    @property
    def synced_end(self) -> EpochEnd:
        """The end of what a power failure leaves, at least."""
        if self.synced_offset == self.end_offset:
            return self.end
        return EpochEnd(self.epoch_at(self.synced_offset - 1), self.synced_offset)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at an offset of the log, or before its start the snapshot's."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else self._snapshot_epoch

    def reaches(self, snapshot: SnapshotId) -> bool:
        """Whether the log has what the snapshot has, and may go on after it."""
        end_offset, epoch = snapshot
        if not self.start_offset < end_offset <= self.end_offset:
            return end_offset == self.start_offset
        return self.epoch_at(end_offset - 1) == epoch

    def end_of(self, epoch: int) -> EpochEnd:
        """The largest epoch up to `epoch`, and where it ends."""
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            first = self._starts[0] if self._starts else self.end_offset
            before = [one for one in self.snapshots if one.end_offset <= first]
            return EpochEnd(before[-1].epoch if before else 0, first)
        end = self._starts[index] if index < len(self._starts) else self.end_offset
        return EpochEnd(self._epochs[index - 1], end)

    def appended(self, epoch: int, base_offset: int, end_offset: int) -> None:
        if not self._epochs or self._epochs[-1] != epoch:
            self._epochs.append(epoch)
            self._starts.append(base_offset)
        self.end_offset = end_offset

    def truncated(self, offset: int) -> None:
        index = bisect_left(self._starts, offset)
        del self._epochs[index:], self._starts[index:]
        self.end_offset = offset
        self.synced_offset = min(self.synced_offset, offset)
        self.history += 1

    def started_at(self, snapshot: SnapshotId) -> None:
        """All that is left is a snapshot, and what comes after it."""
        self.start_offset = self.end_offset = self.synced_offset = snapshot.end_offset
        self._epochs, self._starts = [], []
        self.snapshots = [snapshot]
        self.history += 1

    def deleted_before(self, snapshot: SnapshotId) -> None:
        """The log begins with the end of a snapshot that it has."""
        self.snapshots = [one for one in self.snapshots if one >= snapshot]
        self.start_offset = snapshot.end_offset
        index = bisect_right(self._starts, self.start_offset) - 1
        if index >= 0:
            del self._epochs[:index], self._starts[:index]
            self._starts[0] = max(self._starts[0], self.start_offset)
            if self.end_offset == self.start_offset:
                self._epochs, self._starts = [], []

    def check_fetch(self, offset: int, epoch: int) -> EpochEnd | SnapshotId | None:
        """How the log of a follower that ends at (`epoch`, `offset`) goes on: `None` if with the
        records at `offset`, otherwise where it diverges, or the snapshot that it begins with.
        """
        latest = self.latest_snapshot
        if latest is not None and latest.end_offset > 0:
            if offset == 0 or offset < self.start_offset:
                return latest
            oldest = self.snapshots[0].epoch
            is_at_start = offset == self.start_offset
            if self.start_offset > 0 and (epoch < oldest or (is_at_start and epoch != oldest)):
                return latest
        end = self.end_of(epoch)
        return None if end.epoch == epoch and end.end_offset >= offset else end
