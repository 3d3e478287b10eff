"""The image of what is committed: snapshots and records of the log, replayed in slices.

Kafka's counterpart: `MetadataLoader`.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.partitions import CLUSTER_METADATA, TopicPartition
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_files import LogReading, MetadataFile
from ottla.quorum.log import QuorumLog
from ottla.quorum.messages import SnapshotId
from ottla.record.batch import InvalidBatchError, iter_batches

READ_SIZE: Final = 1 << 20
BATCHES_AT_ONCE: Final = 100
"""Batches that are looked at before the first is replayed: 2 ms; a read may have thousands."""
PATH: Final = str(TopicPartition(CLUSTER_METADATA, 0))


class CommittedImage:
    """`advance` replays; nothing of it shows before `take`."""

    def __init__(self, log: QuorumLog) -> None:
        self._log = log
        self._reading = LogReading()
        self._steps: Iterator[None] = iter(())
        self._loading: LogReading | None = None
        self._is_whole = True

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was replayed."""
        return self._reading.replay.end_offset

    def load(self, snapshot: SnapshotId) -> None:
        """Begins anew with a snapshot; raises `StorageError`."""
        size = self._log.snapshot_size(snapshot)
        content = bytes(self._log.read_snapshot(snapshot, 0, size))
        path = f"the snapshot {snapshot.end_offset}-{snapshot.epoch} of {PATH}"
        file = MetadataFile(
            path=path, content=content, offset=snapshot.end_offset, epoch=snapshot.epoch
        )
        self._loading = LogReading()
        self._steps = self._loading.steps(file, (), may_be_torn=False)

    def advance(self, until: int, is_over: Callable[[], bool]) -> bool:
        """Replays to an offset that is committed; returns whether it came there in time.

        Raises `CorruptionError` for records that are damaged or not known here: nothing after them
        can be replayed.
        """
        while True:
            for _ in self._steps:
                if is_over():
                    return False
            if self._loading is not None:
                self._reading, self._loading = self._loading, None
                self._is_whole = True
            if self.end_offset >= until:
                return True
            self._steps = self._steps_until(until)

    def _steps_until(self, until: int) -> Iterator[None]:
        offset = self.end_offset
        content = bytes(self._log.read(offset, READ_SIZE))
        path, size = f"{PATH} from offset {offset}", 0
        try:
            batches = iter_batches(content, allow_torn_tail=True)
            for batch in islice(batches, BATCHES_AT_ONCE):
                if batch.next_offset > until:
                    break
                size += batch.size
        except InvalidBatchError as error:
            raise CorruptionError(path, size, str(error)) from error
        if not size:
            raise CorruptionError(path, 0, f"no whole batch, though offset {until} is committed")
        file = MetadataFile(path=path, content=content[:size], offset=offset)
        return self._reading.steps(None, [file], may_be_torn=False)

    def take(self) -> tuple[MetadataImage, ImageChanges, bool]:
        """The image, what has changed in it since the last call, and whether it is another as a
        whole: the first one, or that of a snapshot.
        """
        replay = self._reading.replay
        image, changes = replay.image(), replay.take_changes()
        is_whole, self._is_whole = self._is_whole, False
        return image, changes, is_whole
