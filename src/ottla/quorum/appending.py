"""Batches that go into the log, by whoever leads: what they say of epochs and voters is noted.

A set of voters is in force as soon as its record is in the log, committed or not (KIP-853).
Kafka's counterpart: `KRaftControlRecordStateMachine`.
"""

from collections.abc import Iterator

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.codec.schema import Message
from ottla.metadata.control import KRaftVersionRecord, VotersRecord, decode_control_record
from ottla.quorum.effects import AppendRecords, StartLogAt, SyncLog, TruncateLog
from ottla.quorum.messages import EpochEnd, SnapshotId
from ottla.quorum.node import Node
from ottla.quorum.voters import VoterHistory, VoterSet, voters_in
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.record.control import control_type
from ottla.record.record import read_records


class Appending:
    """Writes to the log of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def append(self, records: Buffer) -> None:
        """Batches of this leader, or of the one that it follows.

        Raises `ProtocolError` if they do not continue the log; nothing is changed then.
        """
        node = self._node
        batches = checked_batches(records, node.log.end, node.epoch)
        controls = [[*control_records(one)] if one.is_control else [] for one in batches]
        for batch, records_of_control in zip(batches, controls, strict=True):
            node.log.appended(batch.partition_leader_epoch, batch.base_offset, batch.next_offset)
            for offset, record in records_of_control:
                take_control_record(node.history, offset, record)
        if batches:
            # A leader of Kafka cuts what it sends in the middle of a batch.
            whole = memoryview(records)[: sum(one.size for one in batches)]
            node.do(AppendRecords(whole), SyncLog(node.log.end_offset, node.log.history))

    def truncate_to(self, end: EpochEnd) -> None:
        """To where a leader's log and this one part: nothing that is committed is behind that."""
        node, log = self._node, self._node.log
        own = log.end_of(end.epoch)
        offset = min(own.end_offset, end.end_offset) if own.epoch == end.epoch else own.end_offset
        if offset < node.high_watermark:
            raise ProtocolError(
                f"the leader of epoch {node.epoch} has another record before offset "
                f"{node.high_watermark}, which is committed here: its log ends epoch {end.epoch} "
                f"at {end.end_offset}"
            )
        if offset < log.end_offset:
            log.truncated(offset)
            node.history.truncate_to(offset)
            node.do(TruncateLog(offset))

    def start_at(self, snapshot: SnapshotId, kraft_version: int, voters: VoterSet) -> None:
        """The log is what a snapshot says."""
        node = self._node
        node.log.started_at(snapshot)
        node.history.begin_at(snapshot.end_offset, kraft_version, voters)
        node.do(StartLogAt(snapshot))

    def synced(self, effect: SyncLog) -> None:
        log = self._node.log
        if effect.history == log.history:
            log.synced_offset = max(log.synced_offset, effect.end_offset)


def checked_batches(records: Buffer, end: EpochEnd, epoch: int) -> list[Batch]:
    """Batches that follow a log's end, whole and in order; raises `ProtocolError`."""
    last_epoch, next_offset = end
    batches: list[Batch] = []
    try:
        for batch in iter_batches(records, allow_torn_tail=True):
            batch.check()
            if batch.base_offset != next_offset:
                raise ProtocolError(f"a batch begins at {batch.base_offset}, not {next_offset}")
            if not last_epoch <= batch.partition_leader_epoch <= epoch:
                raise ProtocolError(
                    f"the batch at {next_offset} has epoch {batch.partition_leader_epoch}, after "
                    f"{last_epoch} and in a fetch of epoch {epoch}"
                )
            last_epoch, next_offset = batch.partition_leader_epoch, batch.next_offset
            batches.append(batch)
    except InvalidBatchError as error:
        raise ProtocolError(f"the batch at offset {next_offset}: {error}") from error
    return batches


def take_control_record(history: VoterHistory, offset: int, record: Message) -> None:
    match record:
        case KRaftVersionRecord():
            history.take_version(offset, record.kraft_version)
        case VotersRecord():
            history.take_voters(offset, voters_in(record))
        case _:
            pass


def control_records(batch: Batch) -> Iterator[tuple[int, Message]]:
    """The control records of a batch with their offsets; raises `ProtocolError`."""
    try:
        for record in read_records(batch):
            kind = control_type(record.key)
            if kind is not None:
                yield record.offset, decode_control_record(kind, record.value or b"")
    except InvalidBatchError as error:
        raise ProtocolError(str(error)) from error
