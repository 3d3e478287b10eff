"""The requests that wait for each broker: in their order, each until it is answered.

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
        """Drops requests for brokers that are gone, or were restarted since."""
        for broker, waiting in list(self._waiting.items()):
            known = brokers.get(broker)
            while waiting and (known is None or waiting[0].broker_epoch != known.epoch):
                waiting.popleft()
            if not waiting:
                del self._waiting[broker]

    def clear(self) -> None:
        """This broker is not the controller any more."""
        self._waiting.clear()

    def next_for(self, broker: int) -> Outgoing | None:
        """The one to send, and the same one again until it is answered."""
        waiting = self._waiting.get(broker)
        return waiting[0] if waiting else None

    def brokers(self) -> list[int]:
        """Those that requests wait for."""
        return list(self._waiting)

    def answered(self, request: Outgoing) -> None:
        """It may be gone already."""
        waiting = self._waiting.get(request.broker)
        if waiting and waiting[0] is request:
            waiting.popleft()
            if not waiting:
                del self._waiting[request.broker]
