"""Requests of one kind to other brokers, each over its own connection and thread."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

from ottla.base.clock import Clock, read_clock
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.replicas.replicas import Replicas
from ottla.cluster.peers import Connect, Peer, PeerError, endpoint_of
from ottla.metadata.brokers import Endpoint

logger = logging.getLogger(__name__)


class BrokerRequest(Protocol):
    @property
    def broker(self) -> int: ...


RequestT = TypeVar("RequestT", bound=BrokerRequest)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelParts:
    """The collaborators; `replicas` is used under the lock."""

    replicas: Replicas
    lock: AbstractContextManager[object]
    wake: Callable[[], None]
    connect: Connect
    clock: Clock
    listener: str


class Channels(Generic[RequestT, AnswerT]):
    """`send` returns at once; `deliver` is called under the lock with the answer, or with `None`
    without one: the broker may have done what it was asked. All threads end with `stop`.
    """

    def __init__(
        self,
        parts: ChannelParts,
        name: str,
        ask: Callable[[RequestT, Peer, Endpoint | None], AnswerT],
        deliver: Callable[[RequestT, AnswerT | None, Timestamps], None],
    ) -> None:
        """`ask` sends a request and may raise `PeerError`; `name` is the client id."""
        self._parts = parts
        self._name = name
        self._ask_peer = ask
        self._deliver = deliver
        self._queues: dict[int, SimpleQueue[RequestT | None]] = {}
        self._peers: dict[int, Peer] = {}
        self._threads: list[Thread] = []
        self._is_stopping = False

    def send(self, request: RequestT) -> None:
        """Queues a request; called under the lock."""
        if self._is_stopping:
            return
        queue = self._queues.get(request.broker)
        if queue is None:
            queue = self._queues[request.broker] = SimpleQueue()
            peer = self._peers[request.broker] = Peer(self._parts.connect, self._name)
            thread = Thread(
                target=self._run,
                args=(queue, peer),
                name=f"ottla-{self._name}-to-{request.broker}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()
        queue.put(request)

    def stop(self) -> None:
        """Must not be called under the broker's lock."""
        self._is_stopping = True
        for queue in self._queues.values():
            queue.put(None)
        for peer in self._peers.values():
            peer.close()
        for thread in self._threads:
            thread.join()

    # The threads

    def _run(self, queue: SimpleQueue[RequestT | None], peer: Peer) -> None:
        parts = self._parts
        while (request := queue.get()) is not None:
            answer = self._ask(request, peer)
            with parts.lock:
                self._deliver(request, answer, read_clock(parts.clock))
            parts.wake()
        peer.close()

    def _ask(self, request: RequestT, peer: Peer) -> AnswerT | None:
        parts = self._parts
        with parts.lock:
            broker = parts.replicas.metadata.brokers.get(request.broker)
        try:
            return self._ask_peer(request, peer, endpoint_of(broker, parts.listener))
        except PeerError:
            return None
        except Exception:
            # If this thread ended, whoever waits for its answers would wait forever.
            logger.exception("could not handle a response of broker %d", request.broker)
            return None
