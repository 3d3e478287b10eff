"""This broker's requests to the controller, sent by one thread.

Changes of ISRs, topics that clients request, blocks of producer ids, and controlled shutdown. A
request is repeated, also to the next controller, until it is answered. Before 2.7 leaders write
ISRs to ZooKeeper themselves, and before 3.0 brokers allocate producer ids there. Kafka's
counterparts: `BrokerToControllerChannelManager`, `AlterPartitionManager`,
`KafkaServer.controlledShutdown`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass
from ottla.broker.replication.alter_partitions import (
    IsrChangePropagation,
    place_of,
    write_states,
)
from ottla.cluster.altering import isr_request
from ottla.cluster.member import ClusterMember
from ottla.cluster.own_requests import LeadingReplicas, OwnRequests
from ottla.cluster.peers import BACKOFF_S, Connect, Peer, PeerError
from ottla.cluster.worker import Worker
from ottla.codec.schema import Message
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.controller.events import AlteredAnswer, AlteredIsr, RebalanceDue
from ottla.controller.operations import Batch, Create, Get, Set, Steps
from ottla.controller.tokens import drop_expired_tokens
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.zookeeper import paths
from ottla.zookeeper.controllers import (
    ProducerIdBlock,
    decode_producer_ids,
    encode_producer_ids,
    next_producer_ids,
)
from ottla.zookeeper.notices import encode_log_dir_event

POLL_S: Final = 0.05
"""The interval of checks for changed ISRs."""


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
        self._own = OwnRequests(parts)
        self._worker = Worker("ottla-to-controller", self._work)
        self._propagation = IsrChangePropagation()
        self._reported_failures = parts.replicas.storage_failures
        self._next_rebalance_ms = self._now_ms + (parts.rebalance_interval_ms or 0.0)
        self._next_token_check_ms = self._now_ms + (parts.token_check_interval_ms or 0.0)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Must not be called under the broker's lock, for which the thread may wait."""
        self._worker.begin_stop()
        self._peer.close()
        self._worker.stop()

    @property
    def _now_ms(self) -> float:
        return self._parts.clock.monotonic_ms()

    # From any thread

    def create_topics(self, names: Sequence[str]) -> None:
        self._own.create_topics(names)
        self._worker.wake()

    def allocate_producer_ids(self, done: Callable[[ProducerIdBlock], None]) -> None:
        self._own.allocate_producer_ids(done)
        self._worker.wake()

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
                self._worker.pause(backoff_s)
        return False

    # The thread

    def _work(self) -> float:
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
        if self._own.has_isr_changes:
            self._alter_partitions()
        if not self._parts.version.has_alter_partition:
            self._propagate(now_ms)
        failures = self._parts.replicas.storage_failures
        if failures != self._reported_failures:
            self._reported_failures = failures
            self._report_failed_directory()
        self._own.ask_for_topics(self._ask)
        self._allocate()
        return POLL_S

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
        attempt, changes = self._own.isr_changes(again=parts.version.has_alter_partition)
        if not changes:
            return
        if parts.version.has_alter_partition:
            self._own.altered(attempt, self._ask_for(changes))
            return
        broker, epoch = parts.member.broker_id, parts.replicas.manager.controller_epoch

        def written(answers: tuple[AlteredAnswer, ...]) -> None:
            for one in answers:
                if one.error is ErrorCode.NONE:
                    self._propagation.record(place_of(one.change), self._now_ms)
            self._own.altered(attempt, answers)

        parts.member.run(lambda: write_states(changes, broker, epoch), written)

    def _ask_for(self, changes: Sequence[AlteredIsr]) -> list[AlteredAnswer]:
        """Sends AlterPartition; returns nothing if the request failed as a whole and must be
        repeated.
        """
        parts = self._parts
        newest = sent_version(ApiKey.ALTER_PARTITION, parts.version)
        endpoint = self._controller()
        version = self._peer.version_of(endpoint, ApiKey.ALTER_PARTITION, newest)
        broker = parts.member.broker_id, parts.member.broker_epoch
        request = isr_request(changes, parts.replicas.manager, version, broker)
        response = self._ask(request.message, version)
        if response.error_code:
            self._worker.pause(BACKOFF_S)
            return []
        return request.answers(response)

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

    def _allocate(self) -> None:
        parts = self._parts
        broker = parts.member.broker_id
        if parts.version.has_producer_id_requests:
            self._own.ask_for_ids(self._ask, (broker, parts.member.broker_epoch))
            return
        while (done := self._own.take_allocation()) is not None:
            parts.member.run(lambda: take_producer_ids(broker), done)


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
