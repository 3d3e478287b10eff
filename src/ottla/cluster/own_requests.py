"""What a member of any cluster asks of the controller for itself, as the controller's broker
answers it: changes of ISRs, topics that clients have named, and blocks of producer ids.

A request is repeated, also to the next controller, until it is answered. Kafka's counterparts:
`AlterPartitionManager`, `AutoTopicCreationManager`, `RPCProducerIdManager`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Protocol

from ottla.base.clock import Clock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.broker.replication.alter_partitions import AlterPartitions
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.cluster.peers import PeerError
from ottla.codec.schema import Message
from ottla.controller.events import AlteredAnswer, AlteredIsr
from ottla.metadata.image import MetadataImage
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.zookeeper.controllers import ProducerIdBlock

TOPICS_TIMEOUT_MS = 30_000

Ask = Callable[[Message, int | None], Any]
"""Sends a request to the controller, in a version at most; raises `PeerError`."""

Done = Callable[[ProducerIdBlock], None]


class LeadingReplicas(Protocol):
    """The broker's replicas; methods are called under its lock."""

    @property
    def manager(self) -> ReplicaManager: ...

    @property
    def metadata(self) -> MetadataImage: ...

    @property
    def alter_partitions(self) -> AlterPartitions: ...

    @property
    def storage_failures(self) -> int: ...

    def altered(self, attempt: int, answers: Iterable[AlteredAnswer], at: Timestamps) -> None: ...


class RequestParts(Protocol):
    """`wake` makes the server answer waiting clients; `new_topic` gives the request to create a
    topic that a client has named.
    """

    @property
    def replicas(self) -> LeadingReplicas: ...
    @property
    def lock(self) -> AbstractContextManager[object]: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def wake(self) -> Callable[[], None]: ...
    @property
    def new_topic(self) -> Callable[[str], CreatableTopic]: ...
    @property
    def complain(self) -> Callable[[str], None]: ...


class OwnRequests:
    """What waits to be asked. One thread asks; any thread may add to it."""

    def __init__(self, parts: RequestParts) -> None:
        self._parts = parts
        self._adding = Lock()
        self._topics: dict[str, None] = {}
        self._blocks_for: deque[Done] = deque()

    def create_topics(self, names: Sequence[str]) -> None:
        with self._adding:
            self._topics.update(dict.fromkeys(names))

    def allocate_producer_ids(self, done: Done) -> None:
        self._blocks_for.append(done)

    # ISRs

    @property
    def has_isr_changes(self) -> bool:
        changes = self._parts.replicas.alter_partitions
        return bool(changes.unsent or changes.in_flight)

    def isr_changes(self, *, again: bool = True) -> tuple[int, tuple[AlteredIsr, ...]]:
        """The number of the attempt, and what to ask for; `again` if nobody else answers what is
        under way.
        """
        with self._parts.lock:
            sent = self._parts.replicas.alter_partitions
            changes = sent.again() if sent.in_flight and again else sent.next_request()
            return sent.attempt, changes

    def altered(self, attempt: int, answers: Iterable[AlteredAnswer]) -> None:
        parts = self._parts
        with parts.lock:
            parts.replicas.altered(attempt, answers, read_clock(parts.clock))
        parts.wake()

    # Topics and producer ids

    def ask_for_topics(self, ask: Ask) -> None:
        """Raises `PeerError` if they must be asked for again."""
        if not self._topics:
            return
        with self._adding:
            names, self._topics = list(self._topics), {}
        missing = [one for one in names if one not in self._parts.replicas.metadata.topics]
        if not missing:
            return
        request = CreateTopicsRequest(
            topics=[self._parts.new_topic(name) for name in missing], timeout_ms=TOPICS_TIMEOUT_MS
        )
        try:
            response = ask(request, None)
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

    def take_allocation(self) -> Done | None:
        """Who waits for a block, to be answered otherwise."""
        return self._blocks_for.popleft() if self._blocks_for else None

    def ask_for_ids(self, ask: Ask, broker: tuple[int, int]) -> None:
        """For all who wait for a block; `broker` is this one's id and epoch. Raises `PeerError` if
        it must be asked again.
        """
        broker_id, epoch = broker
        while self._blocks_for:
            answer = ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch), 0)
            if answer.error_code:
                raise PeerError(ErrorCode(answer.error_code).description)
            start, count = answer.producer_id_start, answer.producer_id_len
            if start < 0 or count < 1:
                raise PeerError(f"the controller gave {count} producer ids from {start} on")
            block = ProducerIdBlock(broker_id=broker_id, start=start, end=start + count - 1)
            self._blocks_for.popleft()(block)
