"""Runs the machine of transactions: decide, append to `__transaction_state`, replay, respond.

A decision continues in `Broker.write_out` in three steps, each written before the next: the
decision, the markers, and the record that all markers are written. After a crash between them the
transaction is prepared, and `loaded` completes it. So no partition gets the marker of a decision
that a restart would not know, and no partition remains without a marker. Kafka's counterparts:
`TransactionCoordinator`, `TransactionMarkerChannelManager`.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE
from ottla.broker.coordinator_losses import TRANSACTIONS
from ottla.broker.coordinator_runtime import REFUSALS, CoordinatorRuntime
from ottla.broker.coordinator_shards import Shard, Shards
from ottla.broker.groups.coordinator import GroupCoordinator
from ottla.broker.internal_topic import (
    Appender,
    ClusterPartitions,
    EncodedRecord,
    InternalTopic,
)
from ottla.broker.marker_requests import Marker, MarkerRequest
from ottla.broker.stored_records import StoredRecord
from ottla.broker.topics.topic_rules import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.topics.topics import NewTopic
from ottla.broker.transactions.marker_sender import MarkerSender
from ottla.broker.transactions.markers import Markers
from ottla.codec.compression import Compression
from ottla.config.transaction import TransactionConfig
from ottla.coordinator.decision import Answer, Decision
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.records import (
    TransactionLogKey,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.coordinator.transaction.requests import (
    InitRequest,
    MarkersToWrite,
    Outcome,
    ProducerAnswer,
    ProducerClaim,
)
from ottla.coordinator.transaction.transaction import FIRST_EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from ottla.broker.membership import Membership

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=Answer)


RETRY_MS: Final = 1000
"""When markers that a partition did not accept are tried again."""

RETRIES_PER_ROUND: Final = 64

NOTHING_TO_END = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)
"""The partition was deleted with its transactions, or an administrator has ended this transaction
under a later epoch.
"""


class TransactionBroker(Appender, Protocol):
    """The parts of the broker that the coordinator needs."""

    def allocate_producer_id(self) -> int: ...

    def write_out(self) -> None: ...

    @property
    def membership(self) -> "Membership | None": ...


class TransactionCoordinator(CoordinatorRuntime[TransactionMachine]):
    """The transactions of this broker; `must_verify` returns a setting that may change.

    As with groups, a single broker has one machine, and a member of a cluster one for each
    partition of the state topic that it leads. In a cluster, a `MarkerSender` decides which markers
    to send.
    """

    def __init__(
        self,
        broker: TransactionBroker,
        groups: GroupCoordinator,
        config: TransactionConfig,
        must_verify: Callable[[], bool],
        timers: AllTimers,
        cluster: ClusterPartitions | None = None,
    ) -> None:
        def new_machine(its_timers: Timers[Any]) -> TransactionMachine:
            return TransactionMachine(config, broker.allocate_producer_id, its_timers)

        topic = InternalTopic(broker, state_topic(config), Compression.NONE, TRANSACTIONS, cluster)
        shards: Shards[TransactionMachine] | None = None
        self.sender: MarkerSender | None = None
        if cluster is not None:
            shards = Shards(timers, new_machine, self._load_shard, self._unload_shard)
            self.sender = MarkerSender(cluster.leader_of, timers)
        super().__init__(
            topic,
            new_machine(timers.new_room()),
            shards,
            config.offsets_commit_timeout_ms,
            groups.queue_answer,
        )
        self.markers = Markers(broker, groups)
        self._broker = broker
        self._must_verify = must_verify
        self._groups = groups
        self._decided: dict[str, None] = {}
        self._marked: list[str] = []
        self._late: dict[str, None] = {}
        self._to_try_again: deque[str] = deque()
        self._retry: Timers[str] = timers.new_room()

    def machine_of(self, transactional_id: str, at: Timestamps) -> TransactionMachine | ErrorCode:
        """Returns the machine of an id, or why this broker does not serve the id; raises
        `UserError` as `loaded`.
        """
        machine = self.loaded(at)
        if refusal := self._refusal(transactional_id):
            return refusal
        if self.shards is None:
            return machine
        shard = self._shard_of(transactional_id)
        return ErrorCode.NOT_COORDINATOR if shard is None else shard.machine

    def loaded(self, at: Timestamps) -> TransactionMachine:
        """As in the base class; the next `write_out` completes transactions that a crash left
        prepared.
        """
        self._at = at
        if not self._is_loaded and self.shards is None:
            self._replay_all("how transactions stand", "abort what is open by hand")
            self._is_loaded = True
            self.machine.loaded(at)
            self._late.update((one.transactional_id, None) for one in self.machine.prepared)
            self._try_again(at)
        return self.machine

    def _replay_stored(self, record: StoredRecord, machine: TransactionMachine) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(record.value)
        except ProtocolError as error:
            logger.error("%s, offset %d: %s", TRANSACTION_STATE, record.offset, error)
            return
        if key is not None:
            machine.replay(key, value)

    # In a cluster

    def _shard_loaded(self, shard: Shard[TransactionMachine]) -> None:
        for prepared in shard.machine.prepared:
            self._send_when_committed(prepared.transactional_id, shard)

    def _unload_shard(self, shard: Shard[TransactionMachine]) -> Iterator[None]:
        assert self.sender is not None
        # Immediately: the broker may become leader again, and send, before all is unloaded.
        self.sender.drop_shard(shard.index)
        return _forget(shard.machine)

    def _send_when_committed(self, transactional_id: str, shard: Shard[TransactionMachine]) -> None:
        """Sends markers once the decision is committed: a later coordinator must find it."""

        def deliver(error: ErrorCode) -> None:
            known = shard.machine.transactions.get(transactional_id)
            if error or known is None or not known.is_prepared or self.sender is None:
                return
            prepared = shard.machine.markers_of(known)
            marker = _marker(prepared, shard.leader_epoch)
            self.sender.add(shard.index, transactional_id, marker, prepared.partitions)

        shard.defer(deliver, math.inf)

    def take_marker_requests(self, at: Timestamps) -> list[MarkerRequest]:
        """Returns the requests to send now; call `markers_answered` with their responses."""
        return [] if self.sender is None else self.sender.take_requests(at.monotonic_ms)

    def markers_answered(
        self,
        number: int,
        errors: Mapping[tuple[int, TopicPartition], ErrorCode] | None,
        at: Timestamps,
    ) -> None:
        """Takes a broker's response to a request, or `None` if there is none."""
        assert self.sender is not None
        self.sender.answered(number, errors or {}, at.monotonic_ms)

    def _complete(self, at: Timestamps) -> None:
        assert self.sender is not None
        for key in self.sender.take_complete():
            shard = self._shard_of(key)
            known = None if shard is None else shard.machine.transactions.get(key)
            if shard is None or known is None or not known.is_prepared:
                continue
            if self._run(shard.machine.complete(key, at), at).error:
                # The markers are sent again; partitions that have them accept that.
                self._send_when_committed(key, shard)

    # Producers

    def init_producer(self, request: InitRequest, at: Timestamps) -> ProducerAnswer:
        """Returns an id and epoch; aborts an open transaction of an earlier producer first.

        Raises `StorageError` if the abort could not be written.
        """
        machine = self.machine_of(request.transactional_id, at)
        if isinstance(machine, ErrorCode):
            return ProducerAnswer(error=machine)
        decision = machine.init_producer(request, at)
        answer = self._run(decision, at)
        if (
            self.shards is None
            and decision.records
            and answer.error is ErrorCode.CONCURRENT_TRANSACTIONS
        ):
            # Kafka has the producer retry, since the markers take time.
            self._broker.write_out()
            answer = self._run(machine.init_producer(request, at), at)
        return answer

    def add_partitions(
        self,
        claim: ProducerClaim,
        partitions: Iterable[TopicPartition],
        at: Timestamps,
        *,
        client_version: int = 0,
    ) -> Outcome:
        machine = self.machine_of(claim.transactional_id, at)
        if isinstance(machine, ErrorCode):
            return Outcome(error=machine)
        decision = machine.add_partitions(claim, partitions, at, client_version=client_version)
        return self._run(decision, at)

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Returns the partition that stores a group's commits, for a producer to add."""
        return TopicPartition(CONSUMER_OFFSETS, self._groups.partition_of(group_id))

    def verify(
        self, claim: ProducerClaim, partitions: Iterable[TopicPartition], at: Timestamps
    ) -> dict[TopicPartition, ErrorCode]:
        """Returns whether each partition belongs to the open transaction; see the machine's
        `verify`.
        """
        machine = self.machine_of(claim.transactional_id, at)
        if isinstance(machine, ErrorCode):
            return dict.fromkeys(partitions, machine)
        return machine.verify(claim, partitions)

    def admit(
        self, claim: ProducerClaim, where: TopicPartition, at: Timestamps, *, can_add: bool
    ) -> ErrorCode:
        """Returns NONE if a producer may write to a partition in a transaction, or the error.

        The partition must have been added; with `can_add` it is added here, as producers of
        transactions version 2 expect. Unlike in Kafka, a broker does not ask another broker that is
        the transaction's coordinator.
        """
        if self.shards is not None and self._shard_of(claim.transactional_id) is None:
            return ErrorCode.NONE
        if can_add:
            return self.add_partitions(
                claim, [where], at, client_version=FIRST_EPOCH_BUMP_VERSION
            ).error
        if not self._must_verify():
            return ErrorCode.NONE
        return self.verify(claim, [where], at)[where]

    def end(
        self, claim: ProducerClaim, at: Timestamps, *, is_commit: bool, client_version: int = 0
    ) -> ProducerAnswer:
        machine = self.machine_of(claim.transactional_id, at)
        if isinstance(machine, ErrorCode):
            return ProducerAnswer(error=machine)
        decision = machine.end(claim, at, is_commit=is_commit, client_version=client_version)
        return self._run(decision, at)

    # Time

    def advance(self, at: Timestamps) -> None:
        """Aborts transactions that have timed out, forgets unused ids, and retries markers.

        The `write_out` that must follow completes this.
        """
        if self.shards is not None:
            self._at = at
            self.shards.advance(at.monotonic_ms)
            self._complete(at)
            if (membership := self._broker.membership) is not None:
                for request in self.take_marker_requests(at):
                    membership.send_markers(request)
        elif not self._is_loaded:
            return
        self._at = at
        is_spent = self._broker.budget.is_spent
        for machine in self.machines(at):
            while (due := machine.advance(at)) is not None:
                self._run_all(due, at)
                if is_spent():
                    break
        if self._retry.take_due(at.monotonic_ms) is not None:
            self._try_some_again(at)

    # After a decision: called by `Broker.write_out` when what was appended is written

    @property
    def has_decided(self) -> bool:
        """Whether there are transactions whose markers should be written now."""
        return bool(self._decided)

    def append_markers(self) -> None:
        """Appends the markers of all written decisions."""
        assert self._at is not None
        decided, self._decided = self._decided, {}
        for prepared in self.machine.prepared_among(decided):
            key = prepared.transactional_id
            if self._topic.is_online(key) and self._mark(prepared, self._at):
                self._marked.append(key)
            else:
                self._postpone(key)

    def _mark(self, prepared: MarkersToWrite, at: Timestamps) -> bool:
        """Appends the missing markers; returns whether all are there."""
        key = prepared.transactional_id
        marker = _marker(prepared, self._topic.leader_epoch_of(key))
        is_complete = True
        for topic, index in sorted(prepared.partitions):
            try:
                if key not in self._late or self.markers.is_missing(marker, topic, index):
                    self.markers.write(marker, topic, index, now_ms=at.now_ms)
            except ApiError as error:
                if error.code in NOTHING_TO_END:
                    continue
                logger.error("%s: no marker in %s-%d yet: %s", key, topic, index, error)
                is_complete = False
        return is_complete

    def append_completions(self) -> None:
        """Appends the completions of transactions whose markers are written."""
        assert self._at is not None
        marked, self._marked = self._marked, []
        for key in marked:
            self._late.pop(key, None)
            outcome = self._run(self.machine.complete(key, self._at), self._at)
            if outcome.error:
                self._postpone(key)
        if not self._late:
            self._retry.cancel(NEXT)

    def postpone(self) -> None:
        """Schedules a retry, after appends could not be written."""
        for key in (*self._decided, *self._marked):
            self._postpone(key)
        self._decided.clear()
        self._marked.clear()

    def _postpone(self, key: str) -> None:
        assert self._at is not None
        self._late[key] = None
        if NEXT not in self._retry:
            self._retry.set(NEXT, self._at.monotonic_ms + RETRY_MS)

    def _try_again(self, at: Timestamps) -> None:
        """Retries the transactions in `_late`, which stay there until complete, so that existing
        markers are not repeated.
        """
        if not self._late:
            return
        self._decided.update(self._late)
        self._retry.set(NEXT, at.monotonic_ms + RETRY_MS)

    def _try_some_again(self, at: Timestamps) -> None:
        """As `_try_again`, a few in each round."""
        if not self._to_try_again:
            self._to_try_again.extend(self._late)
        for _ in range(min(RETRIES_PER_ROUND, len(self._to_try_again))):
            key = self._to_try_again.popleft()
            if key in self._late:
                self._decided[key] = None
        if self._late:
            delay_ms = 0 if self._to_try_again else RETRY_MS
            self._retry.set(NEXT, at.monotonic_ms + delay_ms)

    # Running a decision

    def _run(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT:
        answer = self._run_all(decision, at)
        assert answer is not None
        return answer

    def _run_all(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT | None:
        shard, machine = None, self.machine
        if self.shards is not None:
            shard = self._shard_of(decision.key)
            if shard is None:
                answer = decision.answer
                return None if answer is None else answer.refused(ErrorCode.NOT_COORDINATOR)
            machine = shard.machine
        if decision.records:
            try:
                end = self._append(decision, at)
            except ApiError as error:
                logger.error("transaction %s: cannot write: %s", decision.key, error)
                refusal = REFUSALS.get(error.code, error.code)
                return machine.refused(decision, refusal, at).answer
            if shard is not None:
                shard.appended_end = end
            self._replay(decision, machine, shard)
        for event in decision.events:
            self._broker.on_event(event)
        return decision.answer

    def _append(self, decision: Decision[Any], at: Timestamps) -> int:
        """Returns the offset after the last record."""
        encoded = []
        for record in decision.records:
            assert isinstance(record.key, TransactionLogKey)
            assert record.value is None or isinstance(record.value, TransactionLogValue)
            value = None if record.value is None else encode_value(record.value)
            encoded.append(EncodedRecord(encode_key(record.key), value))
        return self._topic.append(decision.key, encoded, now_ms=at.now_ms) + len(encoded)

    def _replay(
        self,
        decision: Decision[Any],
        machine: TransactionMachine,
        shard: Shard[TransactionMachine] | None,
    ) -> None:
        for record in decision.records:
            assert isinstance(record.key, TransactionLogKey)
            assert record.value is None or isinstance(record.value, TransactionLogValue)
            machine.replay(record.key, record.value)
        known = machine.transactions.get(decision.key)
        if known is not None and known.is_prepared:
            if shard is None:
                self._decided[decision.key] = None
            else:
                self._send_when_committed(decision.key, shard)


def _forget(machine: TransactionMachine) -> Iterator[None]:
    """Forgets a machine's transactions in short steps."""
    known = machine.transactions
    while known:
        for _ in range(min(PART_SIZE, len(known))):
            known.popitem()
        yield


def _marker(prepared: MarkersToWrite, coordinator_epoch: int) -> Marker:
    return Marker(
        producer_id=prepared.producer_id,
        epoch=prepared.epoch,
        is_commit=prepared.is_commit,
        coordinator_epoch=coordinator_epoch,
    )


def state_topic(config: TransactionConfig) -> NewTopic:
    """`__transaction_state` with Kafka's settings (`transactionStateTopicConfigs`)."""
    return NewTopic(
        name=TRANSACTION_STATE,
        partition_count=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        overrides={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
