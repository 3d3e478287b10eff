"""Reads open transactions, and their coordinator's state, from log directories."""

from collections.abc import Iterator

from ottla.base.errors import ApiError, ProtocolError
from ottla.base.partitions import TRANSACTION_STATE, TopicPartition
from ottla.broker.coordination.losses import TRANSACTIONS
from ottla.broker.coordination.stored_records import StoredRecord
from ottla.coordinator.transaction.records import TransactionLogValue, decode_key, decode_value
from ottla.coordinator.transaction.state import TransactionState
from ottla.diagnosis.directories import Directories
from ottla.diagnosis.internal_records import kept_records, undecodable
from ottla.diagnosis.losses import OnLost, refuse_loss
from ottla.record.batch import Batch, RecordBatch
from ottla.storage.diagnosis.open_transactions import (
    NO_COORDINATOR,
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
    PartitionHeld,
)
from ottla.storage.reading.locating import holders_of
from ottla.storage.reading.read_only_log import ReadOnlyLog


def held_on_disk(directories: Directories, topic: str) -> list[PartitionHeld]:
    """The open transactions of a topic; raises `UserError` for an unknown topic."""
    return [
        PartitionHeld(
            topic=topic,
            partition=log.partition,
            where=log.path,
            last_stable_offset=log.transactions.last_stable_offset,
            end_offset=log.log_end_offset,
            holdings=list(_holdings(log)),
        )
        for log in directories.logs(topic)
    ]


def _holdings(log: ReadOnlyLog) -> Iterator[Holding]:
    for one in log.transactions.open:
        first = _first_batch(log, one.first_offset)
        yield Holding(
            topic=log.topic,
            partition=log.partition,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            first_offset=one.first_offset,
            began_ms=first.base_timestamp_ms if isinstance(first, RecordBatch) else None,
            last_timestamp_ms=one.last_timestamp_ms,
        )


def _first_batch(log: ReadOnlyLog, offset: int) -> Batch | None:
    """The batch at an offset; `None` if retention has deleted it, as it may in a transaction."""
    try:
        return next(log.batches.read(offset, offset + 1), None)
    except ApiError:
        return None


def coordinators_on_disk(
    directories: Directories, on_lost: OnLost = refuse_loss
) -> CoordinatorView:
    """The transactions in `__transaction_state`, if it is in the directories.

    The result is complete only for an Ottla broker that is not a member of a cluster, and only if
    nothing is lost, which `on_lost` takes a line about.
    """
    if TRANSACTION_STATE not in directories.topics:
        return NO_COORDINATOR
    known: dict[str, TransactionLogValue] = {}
    lost: list[str] = []
    held = holders_of(directories.opened, lambda topic, _: topic == TRANSACTION_STATE)
    for index, holders in sorted(held.get(TRANSACTION_STATE, {}).items()):
        place = TopicPartition(TRANSACTION_STATE, index)
        for one in holders:
            for record in kept_records(one.path, place, TRANSACTIONS, lost.append):
                _replay(place, record, known, lost.append)
    for line in lost:
        on_lost(line)
    return CoordinatorView(
        transactions=[_coordinated(name, value) for name, value in known.items()],
        is_complete=directories.found.known.is_found
        and not lost
        and not any(one.has_replicas for one in directories.opened),
    )


def _replay(
    place: TopicPartition,
    record: StoredRecord,
    known: dict[str, TransactionLogValue],
    on_lost: OnLost,
) -> None:
    try:
        key = decode_key(record.key)
        if key is not None:
            known[key.transactional_id] = decode_value(record.value)
    except ProtocolError as error:
        on_lost(undecodable(place, record.offset, error))


def _coordinated(name: str, value: TransactionLogValue) -> CoordinatedTransaction:
    try:
        state = TransactionState(value.transaction_status).title
    except ValueError:
        state = f"status {value.transaction_status}"
    return CoordinatedTransaction(
        transactional_id=name,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        state=state,
        timeout_ms=value.transaction_timeout_ms,
        start_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
    )
