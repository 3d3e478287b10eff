"""What a handler is told beside the request itself, and how it says "later".

Kafka's counterpart: `RequestContext`.
"""

from collections.abc import Callable
from typing import Any

from ottla.broker.broker import Broker
from ottla.codec.schema import Message
from ottla.protocol.headers import RequestHeader


class Call:
    """One request at work. `address` is where this client is sent back to."""

    __slots__ = ("address", "api_version", "broker", "client_id", "monotonic_ms", "now_ms")

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.address: tuple[str, int] = ("", 0)
        self.api_version = 0
        self.client_id: str | None = None
        self.now_ms = 0
        self.monotonic_ms = 0.0


class Later:
    """An answer that is not known yet: `ticket` is what the broker will hand back.

    The connection is held until then; `finish` makes the response of the ticket.
    """

    __slots__ = ("finish", "header", "ticket")

    def __init__(self, ticket: object, finish: Callable[[], Message]) -> None:
        self.ticket = ticket
        self.finish = finish
        self.header: RequestHeader | None = None


Handler = Callable[[Any, Call], Message | Later | None]
"""`handle(request, call)`: the response, a promise of one, or none at all (acks=0)."""
