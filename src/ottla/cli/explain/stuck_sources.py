"""Where `ottla explain stuck` finds open transactions: in log directories, or at a broker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError, UserError
from ottla.cli.asking import LATEST, READ_COMMITTED, READ_UNCOMMITTED, Questions
from ottla.cli.open_transactions import (
    NO_COORDINATOR,
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
)
from ottla.cli.topic_sources import Directories
from ottla.cli.transaction_questions import TransactionQuestions
from ottla.coordinator.transaction.records import TransactionLogValue, decode_key, decode_value
from ottla.record.batch import Batch, RecordBatch
from ottla.storage.reading.reader import ReadOnlyLog

TRANSACTION_STATE = "__transaction_state"

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""The names that ListTransactions has for the statuses of `__transaction_state`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHeld:
    """One partition: up to where it is stable, and what is open behind that, oldest first."""

    topic: str
    partition: int
    where: str
    last_stable_offset: int
    end_offset: int
    holdings: list[Holding]


def seen_twice(
    look: Callable[[], list[PartitionHeld]], coordinators: Callable[[], CoordinatorView]
) -> tuple[list[PartitionHeld], CoordinatorView]:
    """What was open before coordinators were looked at and still is afterwards: what began or ended
    in between, under a running broker, would seem to hang."""
    before = {(held.partition, one.first_offset) for held in look() for one in held.holdings}
    view = coordinators()
    return [
        replace(
            held,
            holdings=[one for one in held.holdings if (held.partition, one.first_offset) in before],
        )
        for held in look()
    ], view


# In directories


def held_on_disk(directories: Directories, topic: str) -> list[PartitionHeld]:
    """What the files say; raises `UserError` for a topic that is not there."""
    return [
        PartitionHeld(
            topic=topic,
            partition=log.partition,
            where=log.path,
            last_stable_offset=log.last_stable_offset,
            end_offset=log.log_end_offset,
            holdings=list(_holdings(log)),
        )
        for log in directories.logs(topic)
    ]


def _holdings(log: ReadOnlyLog) -> Iterator[Holding]:
    for one in log.open_transactions:
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
    """`None` where retention has taken it: an open transaction does not keep its first records."""
    try:
        return next(log.batches(offset, offset + 1), None)
    except ApiError:
        return None


def coordinators_on_disk(directories: Directories) -> CoordinatorView:
    """What `__transaction_state` says, where it is. Kafka spreads it over brokers: never all."""
    if TRANSACTION_STATE not in directories.topics:
        return NO_COORDINATOR
    known: dict[str, TransactionLogValue] = {}
    for log in directories.logs(TRANSACTION_STATE):
        _replay(log, known)
    return CoordinatorView(
        transactions=[_coordinated(name, value) for name, value in known.items()],
        is_complete=directories.is_ottlas,
    )


def _replay(log: ReadOnlyLog, known: dict[str, TransactionLogValue]) -> None:
    for record in log.records(log.log_start_offset):
        try:
            key = decode_key(record.key or b"")
            value = None if record.value is None else decode_value(record.value)
        except ProtocolError as error:
            raise UserError(
                f"{log.path}, offset {record.offset}: {error}; see it with ottla log dump --deep"
            ) from error
        if key is None:
            continue
        if value is None:
            known.pop(key.transactional_id, None)
        else:
            known[key.transactional_id] = value


def _coordinated(name: str, value: TransactionLogValue) -> CoordinatedTransaction:
    status = value.transaction_status
    return CoordinatedTransaction(
        transactional_id=name,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        state=STATES[status] if 0 <= status < len(STATES) else f"status {status}",
        timeout_ms=value.transaction_timeout_ms,
        start_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
    )


# At a broker


def held_at_broker(
    questions: Questions, asked: TransactionQuestions, topic: str
) -> list[PartitionHeld]:
    """What a broker's partitions remember; raises `UserError`."""
    partitions = asked.partitions([topic])[topic]
    holdings = asked.holdings({topic: partitions})
    stable = questions.offsets(topic, partitions, LATEST, isolation_level=READ_COMMITTED)
    ends = questions.offsets(topic, partitions, LATEST, isolation_level=READ_UNCOMMITTED)
    for index in partitions:
        if index not in stable or index not in ends:
            raise UserError(
                f"{questions.address}: {topic}-{index}: "
                f"{ErrorCode.NOT_LEADER_OR_FOLLOWER.description} Ask the broker that leads it."
            )
    return [
        PartitionHeld(
            topic=topic,
            partition=index,
            where=f"{topic}-{index}",
            last_stable_offset=stable[index][0],
            end_offset=ends[index][0],
            holdings=sorted(
                (one for one in holdings if one.partition == index),
                key=lambda one: one.first_offset,
            ),
        )
        for index in partitions
    ]
