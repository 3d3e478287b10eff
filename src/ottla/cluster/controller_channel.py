"""Sends the controller's requests to the brokers, each over its own connection and thread.

A broker gets its requests in order, each until it is answered, or until the broker's node is gone
or another broker is the controller. Kafka's counterparts: `ControllerChannelManager`,
`RequestSendThread`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.cluster.orders import OrderWriter
from ottla.cluster.peers import BACKOFF_S, Connect, Peer, PeerError, endpoint_of
from ottla.controller.channels import Channels
from ottla.controller.context import LiveBroker
from ottla.controller.events import DeletionAnswered, Event, LeaderAndIsrAnswered
from ottla.controller.requests import LeaderAndIsr, Outgoing, StopReplica

logger = logging.getLogger(__name__)

JOIN_S = 5.0
"""How long `stop` waits for a thread that waits for a broker."""


class ControllerChannels:
    """The threads that send requests; all end with `stop`.

    `listener` is the listener that `connect` uses: control.plane.listener.name if set. `post`
    passes events to the controller.
    """

    def __init__(
        self,
        writer: OrderWriter,
        connect: Connect,
        listener: str,
        post: Callable[[Event], None],
    ) -> None:
        self._writer = writer
        self._connect = connect
        self._listener = listener
        self._post = post
        self._changed = Condition()
        self._channels = Channels()
        self._brokers: Mapping[int, LiveBroker] = {}
        self._threads: dict[int, Thread] = {}
        self._peers: dict[int, Peer] = {}
        self._is_stopping = False

    def send(self, outgoing: Sequence[Outgoing], brokers: Mapping[int, LiveBroker] | None) -> None:
        """Queues requests for the live `brokers`; `None` if this broker is not the controller."""
        with self._changed:
            before = self._brokers
            if brokers is None or self._is_stopping:
                self._channels.clear()
                self._brokers = {}
            else:
                self._channels.put(outgoing)
                self._channels.keep(brokers)
                self._brokers = brokers
                for broker in brokers.keys() - self._threads.keys():
                    self._begin(broker)
            gone = [one for one, live in before.items() if self._brokers.get(one) != live]
            peers = [self._peers[one] for one in gone if one in self._peers]
            self._changed.notify_all()
        for peer in peers:
            # A broker that was restarted or is down may never answer.
            peer.close()

    def _begin(self, broker: int) -> None:
        self._peers[broker] = Peer(self._connect, str(self._writer.controller_id))
        thread = Thread(
            target=self._run, args=(broker,), name=f"ottla-controller-to-{broker}", daemon=True
        )
        self._threads[broker] = thread
        thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._channels.clear()
            self._changed.notify_all()
            peers, threads = list(self._peers.values()), list(self._threads.values())
        for peer in peers:
            peer.close()
        for thread in threads:
            thread.join(JOIN_S)

    # The threads

    def _run(self, broker: int) -> None:
        peer = self._peers[broker]
        while (request := self._next(broker)) is not None:
            try:
                self._ask(peer, request)
            except PeerError:
                self._pause()
                continue
            except Exception:
                # If this thread ended, the broker would get no further requests.
                logger.exception("could not handle a response of broker %d", broker)
                self._pause()
                continue
            with self._changed:
                self._channels.answered(request)
        peer.close()

    def _pause(self) -> None:
        with self._changed:
            if not self._is_stopping:
                self._changed.wait(BACKOFF_S)

    def _next(self, broker: int) -> Outgoing | None:
        """The next request to send; `None` if this thread is no longer needed."""
        with self._changed:
            while not self._is_stopping:
                request = self._channels.next_for(broker)
                if request is not None:
                    return request
                if broker not in self._brokers:
                    break
                self._changed.wait()
            self._threads.pop(broker, None)
            self._peers.pop(broker, None)
            return None

    def _ask(self, peer: Peer, request: Outgoing) -> None:
        """Sends a request and posts its result; raises `PeerError`."""
        live = self._brokers.get(request.broker)
        known = None if live is None else live.registration
        endpoint = endpoint_of(known, self._listener)
        errors: dict[TopicPartition, ErrorCode] = {}
        for wire in self._writer.requests(request):
            answer = peer.ask(endpoint, wire.message, wire.version)
            errors |= _errors(answer, request)
        broker, epoch = request.broker, request.broker_epoch
        match request.order:
            case LeaderAndIsr() if errors:
                self._post(LeaderAndIsrAnswered(broker=broker, broker_epoch=epoch, errors=errors))
            case StopReplica(orders=orders):
                deleted = {one: code for one, code in errors.items() if orders[one].delete}
                if deleted:
                    self._post(DeletionAnswered(broker=broker, broker_epoch=epoch, errors=deleted))
            case _:
                pass


def _errors(answer: Any, request: Outgoing) -> dict[TopicPartition, ErrorCode]:
    """The error of each partition; none if the request failed as a whole, such as for a stale
    epoch.
    """
    if answer.error_code or not isinstance(request.order, LeaderAndIsr | StopReplica):
        return {}
    found = {
        TopicPartition(one.topic_name, one.partition_index): ErrorCode(one.error_code)
        for one in answer.partition_errors
    }
    if isinstance(request.order, LeaderAndIsr):
        names = {topic_id: name for name, topic_id in request.order.topic_ids.items()}
        found |= {
            TopicPartition(names[topic.topic_id], one.partition_index): ErrorCode(one.error_code)
            for topic in answer.topics
            if topic.topic_id in names
            for one in topic.partition_errors
        }
    return {one: code for one, code in found.items() if one in request.order.orders}
