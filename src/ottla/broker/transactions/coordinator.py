"""Runs the machine of transactions: decide, append to `__transaction_state`, replay, respond.

When a decision is durable, the transaction's markers are written (`endings`), and then the record
that all of them are. Kafka's counterpart: `TransactionCoordinator`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE, in_turns
from ottla.broker.coordination.internal_topic import (
    CoordinatorBroker,
    EncodedRecord,
    InternalTopic,
)
from ottla.broker.coordination.losses import TRANSACTIONS
from ottla.broker.coordination.producer_ids import ProducerIdSource
from ottla.broker.coordination.runtime import REFUSALS, CoordinatorRuntime
from ottla.broker.coordination.shards import Shard
from ottla.broker.coordination.stored_records import StoredRecord
from ottla.broker.groups.coordinator import GroupCoordinator
from ottla.broker.membership.admission_requests import AdmissionRequest, AskedPartitions
from ottla.broker.membership.marker_requests import NO_LEADER, MarkerErrors, MarkerRequest
from ottla.broker.topics.partition import Partition
from ottla.broker.transactions.admissions import (
    RETRIED_FOR_MS,
    RETRY_MS,
    Admission,
    Admissions,
    Errors,
)
from ottla.broker.transactions.endings import Endings
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
    Outcome,
    ProducerAnswer,
    ProducerClaim,
)
from ottla.coordinator.transaction.transaction import FIRST_EPOCH_BUMP_VERSION
from ottla.metadata.deciding.topics import NewTopic

logger = logging.getLogger(__name__)

ENDED_AT_ONCE: Final = 8
"""The transactions that time out in one round of a server's loop. The records that end them, their
markers and the records that they are complete are written in the same round, each transaction's in
a log of its own if there are many: 32 take 6 ms.
"""

AnswerT = TypeVar("AnswerT", bound=Answer)


class TransactionMembership(Protocol):
    def send_markers(self, request: MarkerRequest) -> None:
        """Sends markers to the broker in the request; `markers_answered` gets the response."""

    def ask_for_admission(self, request: AdmissionRequest) -> None:
        """Sends questions to the broker in the request; `admissions.answered` gets the response."""


class TransactionBroker(CoordinatorBroker, Protocol):
    """The parts of the broker that the coordinator needs."""

    node_id: int
    producer_ids: ProducerIdSource

    @property
    def membership(self) -> TransactionMembership: ...


class TransactionCoordinator(CoordinatorRuntime[TransactionMachine]):
    """The transactions of this broker; `must_verify` returns a setting that may change.

    `markers` writes markers into the logs of this broker.
    """

    def __init__(
        self,
        broker: TransactionBroker,
        groups: GroupCoordinator,
        config: TransactionConfig,
        must_verify: Callable[[], bool],
        timers: AllTimers,
    ) -> None:
        def new_machine(its_timers: Timers[Any]) -> TransactionMachine:
            return TransactionMachine(config, broker.producer_ids.allocate, its_timers)

        topic = InternalTopic(broker, state_topic(config), Compression.NONE, TRANSACTIONS)
        super().__init__(topic, config.offsets_commit_timeout_ms, groups.queue_answer)
        self.shards = broker.replicas.shards(timers, new_machine, self)
        self.markers = Markers(broker, groups)
        self._sender = MarkerSender(self._leader_of, timers)
        self._endings = Endings(self.shards, self._sender, self._send, timers, self._run)
        self._broker = broker
        self._must_verify = must_verify
        self.admissions = Admissions(self._send_questions)
        self._again: Timers[Admission] = timers.new_room()
        self._groups = groups

    def _leader_of(self, transactional_id: str, partition: TopicPartition) -> int | None:
        # A decision that could not be written, as its disk has failed, must not be carried out.
        if not self._topic.is_online(transactional_id):
            return NO_LEADER
        leader = self._broker.replicas.topics.leader_of(partition)
        is_here = leader == self._broker.node_id
        return NO_LEADER if is_here and not self._broker.topics.is_online(partition) else leader

    def _send(self, request: MarkerRequest, at: Timestamps) -> MarkerErrors | None:
        """Writes the markers of this broker's partitions, without a connection, and sends others.

        Returns `None` if the errors come later: from another broker, or once replicas have what was
        written here.
        """

        def committed(errors: MarkerErrors) -> None:
            self.markers_answered(request.number, errors, self._now())

        if request.broker == self._broker.node_id:
            return self.markers.write_all(request, at, committed)
        self._broker.membership.send_markers(request)
        return None

    def _send_questions(self, request: AdmissionRequest) -> None:
        self._broker.membership.ask_for_admission(request)

    def machine_of(self, transactional_id: str, at: Timestamps) -> TransactionMachine | ErrorCode:
        """Returns the machine of an id, or why this broker does not serve the id; raises
        `UserError` as `load`.
        """
        self.load(at)
        if refusal := self.shards.refusal(transactional_id):
            return refusal
        shard = self.shards.serving(transactional_id)
        return ErrorCode.NOT_COORDINATOR if shard is None else shard.machine

    def load_all(self, shard: Shard[TransactionMachine]) -> None:
        machine, at = shard.machine, self._now()
        self._replay_all(machine, "how transactions stand", "abort what is open by hand")
        machine.loaded(at)
        self._shard_loaded(shard)

    def _replay_stored(self, record: StoredRecord, machine: TransactionMachine) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(record.value)
        except ProtocolError as error:
            logger.error("%s, offset %d: %s", TRANSACTION_STATE, record.offset, error)
            return
        if key is not None:
            machine.replay(key, value)

    def _shard_loaded(self, shard: Shard[TransactionMachine]) -> None:
        """The next `write_out`, or the commit of what was read, ends what is prepared."""
        self._endings.resume(shard)

    def unload_in_steps(self, shard: Shard[TransactionMachine]) -> Iterator[None]:
        # Immediately: the broker may become leader again, and send, before all is unloaded.
        self._endings.drop(shard)
        return _forget(shard.machine)

    def markers_answered(
        self,
        number: int,
        errors: Mapping[tuple[int, TopicPartition], ErrorCode] | None,
        at: Timestamps,
    ) -> None:
        """Takes a broker's response to a request, or `None` if there is none."""
        self._sender.answered(number, errors or {}, at.monotonic_ms)

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
            self.has_decided
            and decision.records
            and answer.error is ErrorCode.CONCURRENT_TRANSACTIONS
        ):
            # Kafka has the producer retry, since the markers take time. Those that are written
            # here do not.
            self._broker.appends.write_out()
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

    def admission(
        self,
        claim: ProducerClaim,
        partitions: Iterable[Partition],
        at: Timestamps,
        *,
        can_add: bool,
    ) -> Admission:
        """Asks the transaction's coordinator, here or on another broker, whether a producer may
        write to partitions that are led here.

        The partitions must have been added; with `can_add` they are added now, as producers of
        transactions version 2 expect, and admitted once that is committed.
        """
        admission = Admission(
            claim,
            can_add=can_add,
            is_needed=can_add or self._must_verify(),
            deadline_ms=at.monotonic_ms + RETRIED_FOR_MS,
        )
        if admission.is_needed:
            machine = self.machine_of(claim.transactional_id, at)
            is_vouched = isinstance(machine, ErrorCode) and self.admissions.has_vouched(claim)
            for one in in_turns(partitions):
                admission.take(one, is_vouched=is_vouched)
            if admission.is_pending:
                self._ask(admission, at)
            admission.is_awaited = admission.is_pending
        return admission

    def _ask(self, admission: Admission, at: Timestamps) -> None:
        claim, places = admission.claim, admission.asked
        machine = self.machine_of(claim.transactional_id, at)
        if machine is ErrorCode.NOT_COORDINATOR:
            self._ask_elsewhere(admission, at)
        elif isinstance(machine, ErrorCode):
            self._said(admission, dict.fromkeys(places, machine), at)
        elif admission.can_add:
            version = FIRST_EPOCH_BUMP_VERSION
            decision = machine.add_partitions(claim, places, at, client_version=version)
            error = self._run(decision, at).error
            shard = None if error else self.shards.serving(claim.transactional_id)
            if shard is None:
                self._said(admission, dict.fromkeys(places, error), at)
                return

            def committed(failure: ErrorCode) -> None:
                refusal = REFUSALS.get(failure, failure)
                self._said(admission, dict.fromkeys(places, refusal), self._now())

            shard.defer(committed, at.monotonic_ms + self._commit_timeout_ms)
        else:
            self._said(admission, machine.verify(claim, places), at)

    def _ask_elsewhere(self, admission: Admission, at: Timestamps) -> None:
        claim = admission.claim
        place = TopicPartition(TRANSACTION_STATE, self.partition_of(claim.transactional_id))
        broker = self._broker.replicas.topics.leader_of(place)
        if broker in (self._broker.node_id, NO_LEADER, None):
            self._said(admission, {}, at)
            return
        asked = AskedPartitions(claim, admission.asked, admission.can_add)
        self.admissions.ask(broker, asked, partial(self._said, admission))

    def _said(self, admission: Admission, errors: Errors, at: Timestamps) -> None:
        """The next transaction may begin before the last one's markers are written: instead of the
        producer, as in Kafka, the coordinator is asked again, a few times.
        """
        is_too_early = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if admission.can_add and is_too_early and at.monotonic_ms < admission.deadline_ms:
            self._again.set(admission, at.monotonic_ms + RETRY_MS)
            return
        admission.settle(errors)
        if admission.is_awaited:
            self._queue_answer(admission.waiting)

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
        """Aborts transactions that have timed out, forgets unused ids, and sends markers.

        The `write_out` that must follow completes this.
        """
        self._at = at
        self.shards.advance(at.monotonic_ms)
        self._endings.advance(at)
        for admission in self._again.take_all_due(at.monotonic_ms):
            self._ask(admission, at)
        budget, ended = self._broker.budget, 0
        for machine in self.known:
            while (due := machine.advance(at)) is not None:
                self._run_all(due, at)
                ended += bool(due.records)
                if budget.is_limited and ended >= ENDED_AT_ONCE:
                    return  # the others in the next round
                if budget.is_spent():
                    break

    # After a decision: called by `Appends.write_out` when what was appended is written

    @property
    def has_decided(self) -> bool:
        """Whether there are transactions whose markers should be written now."""
        return self._sender.has_news

    def end_decided(self, write_out: Callable[[], None]) -> None:
        """Sends the markers of all written decisions, or writes them, and then that they are
        complete, each with `write_out`; raises `StorageError`, and tries again later.
        """
        self._endings.write(self._now(), write_out)

    # Running a decision

    def _run(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT:
        answer = self._run_all(decision, at)
        assert answer is not None
        return answer

    def _run_all(self, decision: Decision[AnswerT], at: Timestamps) -> AnswerT | None:
        shard = self.shards.serving(decision.key)
        if shard is None:
            answer = decision.answer
            return None if answer is None else answer.refused(ErrorCode.NOT_COORDINATOR)
        if decision.records:
            try:
                end = self._append(decision, at)
            except ApiError as error:
                refusal = REFUSALS.get(error.code, error.code)
                return shard.machine.refused(decision, refusal, at).answer
            shard.appended_end = end
            self._replay(decision, shard)
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

    def _replay(self, decision: Decision[Any], shard: Shard[TransactionMachine]) -> None:
        machine = shard.machine
        for record in decision.records:
            assert isinstance(record.key, TransactionLogKey)
            assert record.value is None or isinstance(record.value, TransactionLogValue)
            machine.replay(record.key, record.value)
        known = machine.transactions.get(decision.key)
        if known is not None and known.is_prepared:
            self._endings.end(decision.key, shard)


def _forget(machine: TransactionMachine) -> Iterator[None]:
    """Forgets a machine's transactions in short steps."""
    known = machine.transactions
    while known:
        for _ in range(min(PART_SIZE, len(known))):
            known.popitem()
        yield


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
