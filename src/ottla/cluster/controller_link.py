"""This broker's requests to the controller, sent by one thread.

Changes of ISRs, topics that clients request, blocks of producer ids, and controlled shutdown. A
request is repeated, also to the next controller, until it is answered. Before 2.7 leaders write
ISRs to ZooKeeper themselves, and before 3.0 brokers allocate producer ids there. Kafka's
counterparts: `BrokerToControllerChannelManager`, `AlterPartitionManager`,
`KafkaServer.controlledShutdown`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from threading import Condition, Thread
from typing import Any, Final, Protocol

from ottla.base.clock import Clock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.replication.alter_partitions import (
    AlterPartitions,
    IsrChangePropagation,
    place_of,
    write_states,
)
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.cluster.member import ClusterMember
from ottla.cluster.peers import BACKOFF_S, Connect, Peer, PeerError
from ottla.codec.schema import Message
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.controller.events import AlteredAnswer, AlteredIsr, RebalanceDue
from ottla.controller.operations import Batch, Create, Get, Set, Steps
from ottla.controller.tokens import drop_expired_tokens
from ottla.metadata.image import MetadataImage
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredPartitionResult,
    AlteredTopic,
    AlterPartitionRequest,
    BrokerState,
)
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.zookeeper import paths
from ottla.zookeeper.controllers import (
    ProducerIdBlock,
    decode_producer_ids,
    encode_producer_ids,
    next_producer_ids,
)
from ottla.zookeeper.notices import encode_log_dir_event
from ottla.zookeeper.topics import PartitionState

logger = logging.getLogger(__name__)

POLL_S: Final = 0.05
"""The interval of checks for changed ISRs."""

JOIN_S: Final = 5.0
"""How long `stop` waits for the thread."""

FIRST_TOPIC_ID_VERSION: Final = 2
FIRST_EPOCHS_VERSION: Final = 3
"""Versions of AlterPartition."""


class LeadingReplicas(Protocol):
    """The broker's replicas; methods are called under its lock."""

    @property
    def manager(self) -> ReplicaManager: ...

    @property
    def metadata(self) -> MetadataImage: ...

    @property
    def alter_partitions(self) -> AlterPartitions: ...

    @property
    def directory_failures(self) -> int: ...

    def altered(self, attempt: int, answers: Iterable[AlteredAnswer], at: Timestamps) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkParts:
    """The collaborators of the link. `wake` makes the server answer waiting clients.

    `new_topic` gives the request to create a topic that a client has named.
    """

    member: ClusterMember
    replicas: LeadingReplicas
    lock: AbstractContextManager[object]
    connect: Connect
    clock: Clock
    version: InterBrokerVersion
    listener: str
    wake: Callable[[], None]
    new_topic: Callable[[str], CreatableTopic]
    complain: Callable[[str], None]
    rebalance_interval_ms: float | None = None
    """leader.imbalance.check.interval.seconds in ms; `None` if rebalancing is disabled."""
    token_check_interval_ms: float | None = None
    """delegation.token.expiry.check.interval.ms; `None` if tokens are disabled."""


class ControllerLink:
    """The thread that sends this broker's requests, from `start` to `stop`."""

    def __init__(self, parts: LinkParts) -> None:
        self._parts = parts
        self._peer = Peer(parts.connect, str(parts.member.broker_id))
        self._changed = Condition()
        self._topics: dict[str, None] = {}
        self._blocks_for: deque[Callable[[ProducerIdBlock], None]] = deque()
        self._propagation = IsrChangePropagation()
        self._reported_failures = parts.replicas.directory_failures
        self._next_rebalance_ms = self._now_ms + (parts.rebalance_interval_ms or 0.0)
        self._next_token_check_ms = self._now_ms + (parts.token_check_interval_ms or 0.0)
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="ottla-to-controller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Must not be called under the broker's lock, for which the thread may wait."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._peer.close()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    @property
    def _now_ms(self) -> float:
        return self._parts.clock.monotonic_ms()

    # From any thread

    def create_topics(self, names: Sequence[str]) -> None:
        with self._changed:
            self._topics.update(dict.fromkeys(names))
            self._changed.notify_all()

    def allocate_producer_ids(self, done: Callable[[ProducerIdBlock], None]) -> None:
        with self._changed:
            self._blocks_for.append(done)
            self._changed.notify_all()

    def leave(self, *, tries: int, backoff_s: float) -> bool:
        """Moves leaderships away before the broker stops; returns whether all have moved.

        Uses a connection of its own, because the thread may be waiting for a response.
        """
        parts, peer = self._parts, Peer(self._parts.connect, str(self._parts.member.broker_id))
        request = ControlledShutdownRequest(
            broker_id=parts.member.broker_id, broker_epoch=parts.member.broker_epoch
        )
        version = sent_version(ApiKey.CONTROLLED_SHUTDOWN, parts.version)
        for left in reversed(range(tries)):
            if parts.replicas.manager.is_fenced:
                return True  # it leads nothing, and ZooKeeper may be gone
            try:
                answer = peer.ask(self._controller(), request, version)
                if not answer.error_code and not answer.remaining_partitions:
                    return True
            except PeerError as error:
                parts.complain(f"the controller could not be asked to move leaderships: {error}")
            if left:
                with self._changed:
                    self._changed.wait(backoff_s)
        return False

    # The thread

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._work()
            except PeerError:
                self._pause(BACKOFF_S)
            except Exception:
                # If this thread ended, ISRs would no longer change.
                logger.exception("could not handle a response of the controller")
                self._pause(BACKOFF_S)
            else:
                self._pause(POLL_S)

    def _pause(self, longest_s: float) -> None:
        with self._changed:
            if not self._is_stopping:
                self._changed.wait(longest_s)

    def _work(self) -> None:
        """Does all pending work; raises `PeerError` for a request that must be repeated."""
        now_ms = self._now_ms
        interval_ms = self._parts.rebalance_interval_ms
        if interval_ms is not None and now_ms >= self._next_rebalance_ms:
            self._next_rebalance_ms = now_ms + interval_ms
            self._parts.member.post(RebalanceDue())
        interval_ms = self._parts.token_check_interval_ms
        if interval_ms is not None and now_ms >= self._next_token_check_ms:
            self._next_token_check_ms = now_ms + interval_ms
            self._drop_expired_tokens()
        changes = self._parts.replicas.alter_partitions
        if changes.unsent or changes.in_flight:
            self._alter_partitions()
        if not self._parts.version.has_alter_partition:
            self._propagate(now_ms)
        failures = self._parts.replicas.directory_failures
        if failures != self._reported_failures:
            self._reported_failures = failures
            self._report_failed_directory()
        if self._topics:
            self._create_topics()
        while self._blocks_for:
            self._allocate()

    def _drop_expired_tokens(self) -> None:
        parts = self._parts
        if parts.member.is_controller:
            now_ms = parts.clock.now_ms()
            parts.member.run(lambda: drop_expired_tokens(now_ms), lambda _: None)

    def _controller(self) -> Any:
        metadata = self._parts.replicas.metadata
        return metadata.endpoint(metadata.controller, self._parts.listener)

    def _ask(self, request: Message, newest: int | None) -> Any:
        """Sends a request; raises `PeerError`, also if that broker is no longer the controller."""
        answer = self._peer.ask(self._controller(), request, newest)
        if getattr(answer, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            raise PeerError(ErrorCode.NOT_CONTROLLER.description)
        return answer

    # ISRs

    def _alter_partitions(self) -> None:
        parts = self._parts
        with parts.lock:
            sent = parts.replicas.alter_partitions
            if sent.in_flight and parts.version.has_alter_partition:
                changes = sent.again()
            else:
                changes = sent.next_request()
            attempt = sent.attempt
            epoch = parts.replicas.manager.controller_epoch
        if not changes:
            return
        if parts.version.has_alter_partition:
            self._altered(attempt, self._ask_for(changes))
            return
        broker = parts.member.broker_id

        def written(answers: tuple[AlteredAnswer, ...]) -> None:
            for one in answers:
                if one.error is ErrorCode.NONE:
                    self._propagation.record(place_of(one.change), self._now_ms)
            self._altered(attempt, answers)

        parts.member.run(lambda: write_states(changes, broker, epoch), written)

    def _altered(self, attempt: int, answers: Iterable[AlteredAnswer]) -> None:
        parts = self._parts
        with parts.lock:
            parts.replicas.altered(attempt, answers, read_clock(parts.clock))
        parts.wake()

    def _ask_for(self, changes: Sequence[AlteredIsr]) -> list[AlteredAnswer]:
        """Sends AlterPartition; returns nothing if the request failed as a whole and must be
        repeated.
        """
        parts = self._parts
        newest = sent_version(ApiKey.ALTER_PARTITION, parts.version)
        endpoint = self._controller()
        version = self._peer.version_of(endpoint, ApiKey.ALTER_PARTITION, newest)
        hosted = parts.replicas.manager.partitions
        ids = {
            place.topic: its.topic_id or ZERO_UUID
            for place in map(place_of, changes)
            if (its := hosted.get(place)) is not None
        }
        topics: dict[str, AlteredTopic] = {}
        for one in changes:
            name = one.topic or ""
            topic = topics.setdefault(
                name,
                AlteredTopic(topic_name=name, topic_id=ids.get(name, ZERO_UUID), partitions=[]),
            )
            topic.partitions.append(_altered_partition(one, version))
        request = AlterPartitionRequest(
            broker_id=parts.member.broker_id,
            broker_epoch=parts.member.broker_epoch,
            topics=list(topics.values()),
        )
        response = self._ask(request, version)
        if response.error_code:
            self._pause(BACKOFF_S)
            return []
        names = {topic_id: name for name, topic_id in ids.items()}
        by_place = {place_of(one): one for one in changes}
        answers = []
        for result in response.topics:
            has_id = version >= FIRST_TOPIC_ID_VERSION
            name = names.get(result.topic_id, "") if has_id else result.topic_name
            for one in result.partitions:
                change = by_place.get(TopicPartition(name, one.partition_index))
                if change is not None:
                    answers.append(_answer(change, one))
        return answers

    def _propagate(self, now_ms: float) -> None:
        """Before 2.7, creates a node that makes the controller read the changed states."""
        content = self._propagation.due(now_ms)
        if content is None:
            return
        self._propagation.propagated(now_ms)
        create = Create(paths.ISR_CHANGE_PREFIX, content, is_sequential=True)
        self._parts.member.run(lambda: _create(create), lambda _: None)

    def _report_failed_directory(self) -> None:
        """Makes the controller ask this broker which of its replicas are still online.

        Kafka: `KafkaZkClient.propagateLogDirEvent`.
        """
        content = encode_log_dir_event(self._parts.member.broker_id)
        create = Create(paths.LOG_DIR_EVENT_PREFIX, content, is_sequential=True)
        self._parts.member.run(lambda: _create(create), lambda _: None)

    # Topics and producer ids

    def _create_topics(self) -> None:
        with self._changed:
            names, self._topics = list(self._topics), {}
        missing = [one for one in names if one not in self._parts.replicas.metadata.topics]
        if not missing:
            return
        request = CreateTopicsRequest(
            topics=[self._parts.new_topic(name) for name in missing], timeout_ms=30_000
        )
        try:
            response = self._ask(request, None)
            codes = {ErrorCode(one.error_code) for one in response.topics}
            if ErrorCode.NOT_CONTROLLER in codes:
                raise PeerError(ErrorCode.NOT_CONTROLLER.description)
        except PeerError:
            self.create_topics(missing)
            raise
        for one in response.topics:
            if one.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                reason = one.error_message or ErrorCode(one.error_code).description
                self._parts.complain(f"topic {one.name} cannot be created: {reason}")

    def _allocate(self) -> None:
        parts = self._parts
        if not parts.version.has_producer_id_requests:
            done = self._blocks_for.popleft()
            broker = parts.member.broker_id
            parts.member.run(lambda: take_producer_ids(broker), done)
            return
        request = AllocateProducerIdsRequest(
            broker_id=parts.member.broker_id, broker_epoch=parts.member.broker_epoch
        )
        answer = self._ask(request, 0)
        if answer.error_code:
            raise PeerError(ErrorCode(answer.error_code).description)
        block = ProducerIdBlock(
            broker_id=parts.member.broker_id,
            start=answer.producer_id_start,
            end=answer.producer_id_start + answer.producer_id_len - 1,
        )
        self._blocks_for.popleft()(block)


def _altered_partition(change: AlteredIsr, version: int) -> AlteredPartition:
    wanted = AlteredPartition(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        leader_recovery_state=change.recovery_state,
        partition_epoch=change.partition_epoch,
    )
    if version < FIRST_EPOCHS_VERSION:
        wanted.new_isr = list(change.isr)
    else:
        wanted.new_isr_with_epochs = [BrokerState(broker_id=one) for one in change.isr]
    return wanted


def _answer(change: AlteredIsr, result: AlteredPartitionResult) -> AlteredAnswer:
    error = ErrorCode(result.error_code)
    if error is not ErrorCode.NONE:
        return AlteredAnswer(change=change, error=error)
    state = PartitionState(
        leader=result.leader_id,
        leader_epoch=result.leader_epoch,
        controller_epoch=0,
        isr=tuple(result.isr),
        recovery_state=result.leader_recovery_state,
    )
    return AlteredAnswer(change=change, state=state, partition_epoch=result.partition_epoch)


def _create(operation: Create) -> Steps[bool]:
    (result,) = yield Batch(operations=(operation,))
    return result.is_done


def take_producer_ids(broker_id: int) -> Steps[ProducerIdBlock]:
    """Allocates the next block as brokers before 3.0 do; retries if another broker was faster."""
    path = paths.PRODUCER_ID_BLOCK
    while True:
        (known,) = yield Batch(operations=(Get(path),))
        block = next_producer_ids(decode_producer_ids(known.content), broker_id)
        content = encode_producer_ids(block)
        write = Set(path, content, known.version) if known.is_done else Create(path, content)
        (result,) = yield Batch(operations=(write,))
        if result.is_done:
            return block
