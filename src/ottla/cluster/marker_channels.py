"""Sends the markers of this broker's transactions to other brokers, each over its own connection
and thread. Kafka's counterpart: `TransactionMarkerChannelManager`.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ottla.base.clock import Clock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.values import dataclass
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.transactions.coordinator import TransactionCoordinator
from ottla.cluster.peers import Connect, Peer, PeerError, endpoint_of
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerParts:
    """The collaborators; `transactions` and `replicas` are used under the lock."""

    transactions: TransactionCoordinator
    replicas: Replicas
    lock: AbstractContextManager[object]
    wake: Callable[[], None]
    connect: Connect
    clock: Clock
    version: InterBrokerVersion
    listener: str


class MarkerChannels:
    """`send` returns at once; the coordinator gets the response. All threads end with `stop`."""

    def __init__(self, parts: MarkerParts) -> None:
        self._parts = parts
        self._queues: dict[int, SimpleQueue[MarkerRequest | None]] = {}
        self._peers: dict[int, Peer] = {}
        self._threads: list[Thread] = []
        self._is_stopping = False

    def send(self, request: MarkerRequest) -> None:
        """Queues a request; called by the server's loop."""
        if self._is_stopping:
            return
        queue = self._queues.get(request.broker)
        if queue is None:
            queue = self._queues[request.broker] = SimpleQueue()
            peer = self._peers[request.broker] = Peer(self._parts.connect, "transaction-markers")
            thread = Thread(
                target=self._run,
                args=(queue, peer),
                name=f"ottla-markers-to-{request.broker}",
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

    def _run(self, queue: SimpleQueue[MarkerRequest | None], peer: Peer) -> None:
        parts = self._parts
        while (request := queue.get()) is not None:
            errors = self._ask(request, peer)
            with parts.lock:
                at = read_clock(parts.clock)
                parts.transactions.markers_answered(request.number, errors, at)
            parts.wake()
        peer.close()

    def _ask(
        self, request: MarkerRequest, peer: Peer
    ) -> Mapping[tuple[int, TopicPartition], ErrorCode] | None:
        """Sends a request; `None` without a response: the broker may have written the markers."""
        parts = self._parts
        with parts.lock:
            broker = parts.replicas.metadata.brokers.get(request.broker)
        version = sent_version(ApiKey.WRITE_TXN_MARKERS, parts.version)
        try:
            answer = peer.ask(endpoint_of(broker, parts.listener), _message(request), version)
            return _errors(answer)
        except PeerError:
            return None
        except Exception:
            # If this thread ended, the transactions would stay open on that broker.
            logger.exception("could not handle a response of broker %d", request.broker)
            return None


def _message(request: MarkerRequest) -> WriteTransactionMarkersRequest:
    markers = []
    for sent in request.markers:
        markers.append(
            WritableTransactionMarker(
                producer_id=sent.marker.producer_id,
                producer_epoch=sent.marker.epoch,
                transaction_result=sent.marker.is_commit,
                coordinator_epoch=sent.marker.coordinator_epoch,
                topics=[
                    WritableTransactionMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(sent.partitions).items()
                ],
            )
        )
    return WriteTransactionMarkersRequest(markers=markers)


def _errors(answer: Any) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, one.partition_index)): ErrorCode(
            one.error_code
        )
        for marker in answer.markers
        for topic in marker.topics
        for one in topic.partitions
    }
