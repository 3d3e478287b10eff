"""A transactional id: its producer, epoch and transaction.

Only `take` changes the state, from records of the log. Kafka's counterpart: `TransactionMetadata`.
"""

from dataclasses import field
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.coordinator.transaction.records import TransactionLogValue, TransactionTopic
from ottla.coordinator.transaction.state import TransactionState, may_follow

ProducerIdAndEpoch = tuple[int, int]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

LAST_CLIENT_EPOCH: Final = 2**15 - 2
"""The last epoch that a client gets; the one after it is reserved for fencing.

Kafka: `TransactionMetadata.isEpochExhausted`.
"""

FIRST_EPOCH_BUMP_VERSION: Final = 2
"""The first transactions version in which every end of a transaction raises the epoch (KIP-890)."""


HAVE_PARTITIONS: Final = frozenset(
    {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The new state of a transactional id, with all fields of its next record."""

    producer_id: int
    epoch: int
    state: TransactionState
    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def client_identity(self) -> ProducerIdAndEpoch:
        """The id and epoch with which the producer continues."""
        return _client_identity(self)

    def to_record(self) -> TransactionLogValue:
        return TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state.value,
            transaction_partitions=self._topics(),
            transaction_last_update_timestamp_ms=self.update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            client_transaction_version=self.client_version,
        )

    def _topics(self) -> list[TransactionTopic] | None:
        if self.state is TransactionState.EMPTY:
            return None
        return [
            TransactionTopic(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(self.partitions).items()
        ]


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The state of the last record, and `recovery`, which a restart clears.

    `recovery` is the id and epoch that a producer sent to get new ones, and those it was given. If
    the response is lost, the producer sends the same request again (KIP-360).
    """

    transactional_id: str
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int = -1
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    start_ms: int = NO_TIMESTAMP
    update_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    recovery: tuple[ProducerIdAndEpoch, ProducerIdAndEpoch] | None = None

    def take(self, value: TransactionLogValue) -> None:
        self.producer_id = value.producer_id
        self.epoch = value.producer_epoch
        self.state = TransactionState(value.transaction_status)
        self.timeout_ms = value.transaction_timeout_ms
        self.partitions = frozenset(
            TopicPartition(one.topic, index)
            for one in value.transaction_partitions or ()
            for index in one.partition_ids
        )
        self.start_ms = value.transaction_start_timestamp_ms
        self.update_ms = value.transaction_last_update_timestamp_ms
        self.previous_producer_id = value.previous_producer_id
        self.next_producer_id = value.next_producer_id
        self.client_version = value.client_transaction_version

    def change(
        self,
        state: TransactionState,
        at_ms: int,
        added: frozenset[TopicPartition] = frozenset(),
        /,
        **changes: int,
    ) -> Change:
        """The next record; fields that are not named keep their value.

        Asserts that the transition is allowed. The partitions are kept until the transaction is
        complete.
        """
        assert may_follow(state, self.state), f"{self.state} -> {state}"
        values = {
            "producer_id": self.producer_id,
            "epoch": self.epoch,
            "timeout_ms": self.timeout_ms,
            "start_ms": self.start_ms,
            "previous_producer_id": self.previous_producer_id,
            "client_version": self.client_version,
        }
        values.update(changes)
        kept = self.partitions | added if state in HAVE_PARTITIONS else frozenset[TopicPartition]()
        return Change(state=state, update_ms=at_ms, partitions=kept, **values)

    # Questions

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers may be missing."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def has_ended(self) -> bool:
        """Whether the last transaction is decided and no other has begun."""
        return self.is_prepared or self.state in (
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer needs a new id because its epochs are used up."""
        return self.epoch >= LAST_CLIENT_EPOCH

    @property
    def client_identity(self) -> ProducerIdAndEpoch:
        """The id and epoch with which the producer continues once the transaction is complete."""
        return _client_identity(self)

    def check_producer(self, producer_id: int, epoch: int) -> None:
        """Raises `ApiError` unless the id and epoch are the current ones."""
        if producer_id != self.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != self.epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)


def _client_identity(one: Change | Transaction) -> ProducerIdAndEpoch:
    if one.next_producer_id != NO_PRODUCER_ID:
        return one.next_producer_id, 0
    return one.producer_id, one.epoch
