"""Checks the files of a metadata log without replaying them: sizes, checksums, order of offsets.

Whoever replays the log does so later, as far as its records are committed.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Generator, Sequence
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.metadata.log_files import LogReading, MetadataFile
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.control import ControlRecordType, control_type
from ottla.record.record import read_records

Epochs = Sequence[tuple[int, int]]
"""Each leader epoch with its start offset."""


class LogEnd(NamedTuple):
    """An offset, and the epoch of the last batch before it."""

    offset: int
    epoch: int


def check_log(
    snapshots: Sequence[MetadataFile],
    segments: Sequence[MetadataFile],
    epochs: Epochs = (),
    *,
    may_be_torn: bool,
) -> LogEnd:
    """Where the segments end, which is 0 without any, and the epoch of the last batch. All are
    sorted.

    It is less than the newest snapshot's after a crash while that was fetched. `epochs` are those
    of the log's checkpoint, if it is there. `may_be_torn` says that the last segment may end with a
    torn batch. Raises `CorruptionError` with the file and the position of the first damage.
    """
    for older in snapshots[:-1]:
        _drain(_LogCheck(older), (), may_be_torn=False)
    check = _LogCheck(snapshots[-1] if snapshots else None, epochs)
    _drain(check, segments, may_be_torn=may_be_torn)
    if not segments:
        return LogEnd(0, 0)
    last = segments[-1]
    if check.log_offset is None:
        return LogEnd(last.offset, 0)
    if last.offset > check.log_offset:
        reason = f"records from offset {check.log_offset} on are missing before it"
        raise CorruptionError(last.path, 0, reason)
    return LogEnd(check.log_offset, check.last_epoch)


def _drain(check: "_LogCheck", segments: Sequence[MetadataFile], *, may_be_torn: bool) -> None:
    deque(check.steps(check.snapshot, segments, may_be_torn=may_be_torn), maxlen=0)


class _LogCheck(LogReading):
    """Looks into control batches only, whose types show whether a snapshot is complete."""

    def __init__(self, snapshot: MetadataFile | None, epochs: Epochs = ()) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.last_epoch = 0
        self._epochs = [epoch for epoch, _ in epochs]
        self._starts = [start for _, start in epochs]

    def _take(
        self, file: MetadataFile, position: int, batch: Batch, *, from_offset: int
    ) -> Generator[None, None, list[ControlRecordType | None]]:
        yield from ()
        if file is not self.snapshot:
            self._check_epoch(file, position, batch)
        if not batch.is_control:
            return [None]
        try:
            return [control_type(record.key) for record in read_records(batch)]
        except InvalidBatchError as error:
            raise CorruptionError(file.path, position, str(error)) from error

    def _check_epoch(self, file: MetadataFile, position: int, batch: Batch) -> None:
        """The epoch is outside of the checksum, and decides elections."""
        epoch = batch.partition_leader_epoch
        if epoch < self.last_epoch:
            reason = f"a batch of epoch {epoch} follows one of epoch {self.last_epoch}"
            raise CorruptionError(file.path, position, reason)
        self.last_epoch = epoch
        index = bisect_right(self._starts, batch.base_offset) - 1
        if index >= 0 and self._epochs[index] != epoch:
            reason = (
                f"a batch of epoch {epoch}, and by the checkpoint of epochs offset "
                f"{batch.base_offset} is of epoch {self._epochs[index]}"
            )
            raise CorruptionError(file.path, position, reason)
