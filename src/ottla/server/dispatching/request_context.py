"""What a handler gets besides the request, and what it returns for a delayed response.

Kafka's counterpart: `RequestContext`.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from ottla.base.principal import ANONYMOUS, Principal
from ottla.base.timestamps import Timestamps
from ottla.base.turns import TurnsNeededError, in_a_turn, turn_list
from ottla.broker.waiting.rooms import Later, Waiting
from ottla.codec.schema import Message
from ottla.metadata.cluster_view import Reach
from ottla.protocol.headers import RequestHeader

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ResultT = TypeVar("ResultT")


class Client(NamedTuple):
    """The client: the address that it is sent to, its host, its principal, and its listener.

    Immutable: a login makes another one. `is_by_token`: authenticated by a delegation token.
    `connection` is the same for all requests of one connection, and of no other.
    """

    address: tuple[str, int]
    host: str
    principal: Principal = ANONYMOUS
    listener: str = "PLAINTEXT"
    protocol: str = "PLAINTEXT"
    is_by_token: bool = False
    connection: Hashable = None

    @property
    def reach(self) -> Reach:
        return Reach(self.listener, self.address)


class RequestContext:
    """One request: its client, time, version and broker. Immutable.

    `can_be_long`: a request that would take long may still ask for turns.
    """

    __slots__ = ("api_version", "at", "broker", "can_be_long", "client", "client_id", "header")

    def __init__(
        self,
        broker: "Broker",
        at: Timestamps,
        header: RequestHeader,
        client: Client,
        can_be_long: bool,
    ) -> None:
        self.broker: Final = broker
        self.at: Final = at
        self.header: Final = header
        self.api_version: Final = header.api_version
        self.client_id: Final = header.client_id
        self.client: Final = client
        self.can_be_long: Final = can_be_long

    @property
    def principal(self) -> Principal:
        return self.client.principal

    @property
    def who(self) -> str:
        """Describes the client for people."""
        return f"{self.client_id or 'a client'} on {self.client.host}"

    def later(self, at: Timestamps) -> "RequestContext":
        """The same request at another time, since its response was delayed."""
        return RequestContext(self.broker, at, self.header, self.client, False)

    def may_take_long(self) -> None:
        """Called by a handler before it has changed anything: it is then called again, in turns."""
        if self.can_be_long and not in_a_turn():
            raise TurnsNeededError


class PendingResponse:
    """A response that is not available yet: the broker will return `pending_id`.

    The connection is held until then. `response` is a response to send before that, and
    `is_answered` that no other follows. `takes_long`: `finish` must be called in turns.
    `received_ms` and `begun_ms`: when the request came, and when its response began to wait.
    `logged` is its entry for the request log.
    """

    __slots__ = (
        "begun_ms",
        "header",
        "logged",
        "pending_id",
        "received_ms",
        "takes_long",
    )

    response: Message | None = None
    is_answered: bool = False

    def __init__(self, pending_id: Waiting[Any]) -> None:
        self.pending_id = pending_id
        self.header: RequestHeader | None = None
        self.takes_long = False
        self.received_ms = 0.0
        self.begun_ms = 0.0
        self.logged: object = None

    def finish(self, at: Timestamps) -> "Message | PendingResponse | None":
        """Returns the handler's result, after the broker has returned the pending id."""
        raise NotImplementedError


class PendingAnswer(PendingResponse):
    """A response that is built only from the broker's result."""

    __slots__ = ("_make_response",)

    def __init__(
        self,
        pending_id: Waiting[Any],
        make_response: Callable[[Any], Message | PendingResponse],
        *,
        takes_long: bool = False,
    ) -> None:
        super().__init__(pending_id)
        self.takes_long = takes_long
        self._make_response = make_response

    def finish(self, at: Timestamps) -> Message | PendingResponse:
        assert self.pending_id.result is not None, "the broker returns only what is over"
        return self._make_response(self.pending_id.result)


class AmendedResponse(PendingResponse):
    """Another handler's response, to which something is added when it is ready."""

    __slots__ = ("_amend", "_inner")

    def __init__(self, inner: PendingResponse, amend: Callable[[Any], None]) -> None:
        super().__init__(inner.pending_id)
        self.takes_long = inner.takes_long
        self._inner = inner
        self._amend = amend

    def finish(self, at: Timestamps) -> Message | PendingResponse | None:
        return amended(self._inner.finish(at), self._amend)


def amended(
    answer: Message | PendingResponse | None, amend: Callable[[Any], None]
) -> Message | PendingResponse | None:
    """Returns a response after `amend` has changed it, now or when it is ready."""
    if isinstance(answer, PendingResponse):
        return AmendedResponse(answer, amend)
    if answer is not None:
        if in_a_turn():
            _let_arrays_yield(answer)
        amend(answer)
    return answer


def _let_arrays_yield(response: Message) -> None:
    for field in response.FIELDS:
        if field.kind == "array":
            items = getattr(response, field.name)
            if items is not None:
                setattr(response, field.name, turn_list(items))


class LongPendingAnswer(PendingResponse):
    """A handler that continues, in turns unless that is short, when the broker has returned the
    pending id.
    """

    __slots__ = ("_go_on",)

    def __init__(
        self,
        pending_id: Waiting[Any],
        go_on: Callable[[Timestamps], Message | PendingResponse],
        *,
        takes_long: bool = True,
    ) -> None:
        super().__init__(pending_id)
        self.takes_long = takes_long
        self._go_on = go_on

    def finish(self, at: Timestamps) -> Message | PendingResponse:
        return self._go_on(at)


def respond(
    answer: ResultT | Waiting[ResultT] | Later[ResultT],
    make_response: Callable[[ResultT], Message],
) -> Message | PendingResponse:
    """Returns the response for a result, now or when it is ready."""
    if isinstance(answer, Waiting):
        return PendingAnswer(answer, make_response)
    if isinstance(answer, Later):
        make = answer.make

        def made(brought: Any) -> Message | PendingResponse:
            return respond(make(brought), make_response)

        return PendingAnswer(answer.waiting, made, takes_long=True)
    if type(answer) is list:
        answer = cast(ResultT, turn_list(cast(list[Any], answer)))
    return make_response(answer)


Handler = Callable[[Any, RequestContext], Message | PendingResponse | None]
"""`handle(request, context)`: the response, a promise of one, or none at all (acks=0)."""
