"""What a handler is told beside the request itself, and how it says "later".

Kafka's counterpart: `RequestContext`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ottla.base.timestamps import Timestamps
from ottla.base.turns import TurnsNeededError
from ottla.broker.broker import Broker
from ottla.broker.waiting import Waiting
from ottla.codec.schema import Message
from ottla.protocol.headers import RequestHeader

ResultT = TypeVar("ResultT")


class ClientAddress(NamedTuple):
    """The two ends of a client's connection: where it is sent back to, and its own host."""

    address: tuple[str, int]
    host: str


class RequestContext:
    """One request at work. `address` is where this client is sent back to.

    `can_be_long`: what would take long may still ask for turns.
    """

    __slots__ = (
        "address",
        "api_version",
        "at",
        "broker",
        "can_be_long",
        "client_host",
        "client_id",
    )

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.address: tuple[str, int] = ("", 0)
        self.api_version = 0
        self.client_host = ""
        self.client_id: str | None = None
        self.at = Timestamps(now_ms=0, monotonic_ms=0.0)
        self.can_be_long = False

    def may_take_long(self) -> None:
        """A handler says so before it has changed anything: it is called again, in turns."""
        if self.can_be_long:
            raise TurnsNeededError


class PendingResponse:
    """An answer that is not known yet: `pending_id` is what the broker will hand back.

    The connection is held until then. `response` is one that goes before that all the same.
    `takes_long`: what makes the response of the pending_id is to have turns.
    """

    __slots__ = ("_respond", "header", "pending_id", "takes_long")

    response: Message | None = None

    def __init__(
        self, pending_id: Waiting[ResultT], respond: Callable[[ResultT], Message | None]
    ) -> None:
        self.pending_id: Waiting[Any] = pending_id
        self._respond: Callable[[Any], Message | None] = respond
        self.header: RequestHeader | None = None
        self.takes_long = False

    def finish(self) -> "Message | PendingResponse | None":
        """What a handler returns, when the pending_id has come back."""
        assert self.pending_id.result is not None, "the broker hands back only what is over"
        return self._respond(self.pending_id.result)


def respond(
    answer: ResultT | Waiting[ResultT], make_response: Callable[[ResultT], Message]
) -> Message | PendingResponse:
    """The response to an answer, now or when it comes."""
    if isinstance(answer, Waiting):
        return PendingResponse(answer, make_response)
    return make_response(answer)


Handler = Callable[[Any, RequestContext], Message | PendingResponse | None]
"""`handle(request, context)`: the response, a promise of one, or none at all (acks=0)."""
