"""The log of a quorum as the machine's caller needs it, which a `PartitionLog` can fulfil, and what
each effect does to it.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.quorum.appending import control_records, take_control_record
from ottla.quorum.effects import (
    AppendRecords,
    DeleteBefore,
    Effect,
    FinishSnapshot,
    StartLogAt,
    TruncateLog,
    WriteSnapshot,
)
from ottla.quorum.lineage import Lineage
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import VoterHistory
from ottla.record.batch import Batch, InvalidBatchError, batch_at, iter_batches, whole_size


class QuorumLog(Protocol):
    """`__cluster_metadata-0` with its snapshots."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """Each leader epoch with its start offset."""
        ...

    @property
    def snapshots(self) -> Iterable[SnapshotId]:
        """The complete ones."""
        ...

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Whole batches from the one at an offset on: one at least, unless it is the end."""
        ...

    def append(self, records: Buffer) -> None: ...
    def truncate_to(self, offset: int) -> None: ...
    def start_at(self, offset: int) -> None:
        """Removes all records; the next one has this offset."""
        ...

    def delete_records_before(self, offset: int) -> None: ...
    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> Buffer: ...
    def snapshot_size(self, snapshot: SnapshotId) -> int: ...
    def write_snapshot(self, snapshot: SnapshotId, position: int, content: Buffer) -> None: ...
    def finish_snapshot(self, snapshot: SnapshotId) -> None: ...
    def delete_snapshots_before(self, snapshot: SnapshotId) -> None: ...


HEAD_SIZE = 1 << 16
READ_SIZE = 1 << 20


def lineage_of(log: QuorumLog) -> Lineage:
    snapshots = sorted(log.snapshots)
    epochs = [(epoch, max(start, log.log_start_offset)) for epoch, start in log.epochs]
    return Lineage(log.log_start_offset, log.log_end_offset, epochs, snapshots)


def take_history(log: QuorumLog, history: VoterHistory) -> None:
    """Notes what snapshots and records say of the voters; `history` has what the settings say.

    Raises `ProtocolError`.
    """
    snapshots = sorted(log.snapshots)
    if snapshots:
        head = log.read_snapshot(snapshots[-1], 0, HEAD_SIZE)
        if not whole_size(head):
            raise ProtocolError(f"the snapshot {snapshots[-1]} does not begin with a batch")
        for _, record in control_records(batch_at(head, 0)):
            take_control_record(history, snapshots[-1].end_offset - 1, record)
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for batch in _batches(log.read(offset, READ_SIZE)):
            offset = batch.next_offset
            if batch.is_control:
                for place, record in control_records(batch):
                    if not snapshots or place >= snapshots[-1].end_offset:
                        take_control_record(history, place, record)


def _batches(content: Buffer) -> list[Batch]:
    try:
        return list(iter_batches(content, allow_torn_tail=True))
    except InvalidBatchError as error:
        raise ProtocolError(str(error)) from error


def carry_out(effect: Effect, log: QuorumLog) -> bool:
    """Does what an effect wants of the log; returns whether it wants anything of it."""
    match effect:
        case AppendRecords():
            log.append(effect.records)
        case TruncateLog():
            log.truncate_to(effect.offset)
        case StartLogAt():
            log.start_at(effect.snapshot.end_offset)
            log.delete_snapshots_before(effect.snapshot)
        case WriteSnapshot():
            log.write_snapshot(effect.snapshot, effect.position, effect.content)
        case FinishSnapshot():
            log.finish_snapshot(effect.snapshot)
        case DeleteBefore():
            log.delete_records_before(effect.snapshot.end_offset)
            log.delete_snapshots_before(effect.snapshot)
        case _:
            return False
    return True
