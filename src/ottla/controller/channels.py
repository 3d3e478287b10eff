"""The queues of requests for each broker.

A request is sent again after a lost connection, so a broker may see it twice. Kafka's counterpart:
`ControllerChannelManager`, `RequestSendThread`.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from ottla.controller.context import LiveBroker
from ottla.controller.requests import Outgoing


class Channels:
    def __init__(self) -> None:
        self._waiting: dict[int, deque[Outgoing]] = {}

    def put(self, outgoing: Iterable[Outgoing]) -> None:
        for one in outgoing:
            self._waiting.setdefault(one.broker, deque()).append(one)

    def keep(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Drops requests for brokers that are gone or have restarted."""
        for broker, waiting in list(self._waiting.items()):
            known = brokers.get(broker)
            while waiting and (known is None or waiting[0].broker_epoch != known.epoch):
                waiting.popleft()
            if not waiting:
                del self._waiting[broker]

    def clear(self) -> None:
        """Drops all requests, when this broker is no longer the controller."""
        self._waiting.clear()

    def next_for(self, broker: int) -> Outgoing | None:
        """The first request for a broker; it stays first until it is answered."""
        waiting = self._waiting.get(broker)
        return waiting[0] if waiting else None

    def brokers(self) -> list[int]:
        """The brokers with pending requests."""
        return list(self._waiting)

    def answered(self, request: Outgoing) -> None:
        """Removes an answered request, if it is still queued."""
        waiting = self._waiting.get(request.broker)
        if waiting and waiting[0] is request:
            waiting.popleft()
            if not waiting:
                del self._waiting[request.broker]
