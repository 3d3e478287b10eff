"""The membership of a KRaft cluster as a node's handlers use it.

`broker/membership/membership.py: QuorumMembership`.
"""

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.principal import Principal
from ottla.base.turns import InParts
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.common_membership import CommonMembership, Connected
from ottla.cluster.quorum.quorum_thread import Deciding
from ottla.quorum.messages import Request, Response
from ottla.quorum.status import QuorumStatus

T = TypeVar("T")
ControllerT = TypeVar("ControllerT", bound=Deciding)
AsksController = TypeVar("AsksController", bound=Deciding, covariant=True)


class Quorum(Protocol[AsksController]):
    """The node in the quorum (`quorum_thread.py: QuorumThread`)."""

    def receive(self, request: Request, answered: Callable[[Response], None]) -> None: ...

    def ask(
        self, verb: Callable[[AsksController], InParts[T]], done: Callable[[T | ApiError], None]
    ) -> None: ...

    def status(self) -> QuorumStatus: ...


class Forwarder(Protocol):
    """Sends requests of clients to the active controller (`forwarding.py: Forwarding`)."""

    @property
    def newest(self) -> Mapping[int, int]: ...

    def forward(
        self, request: Buffer, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Waiting[Buffer | ApiError]: ...


class InQuorum(Connected, Protocol[AsksController]):
    """A node that listens."""

    @property
    def quorum(self) -> Quorum[AsksController]: ...

    @property
    def forwarding(self) -> Forwarder: ...


class QuorumMembership(CommonMembership, Generic[ControllerT]):
    """`running` is available once the node listens, which is before the first request."""

    def __init__(
        self, is_active: Callable[[], bool], running: Callable[[], InQuorum[ControllerT]]
    ) -> None:
        super().__init__(running)
        self._is_active = is_active
        self._running = running

    @property
    def is_controller(self) -> bool:
        return self._is_active()

    def receive(self, request: Request) -> Waiting[Response]:
        waiting: Waiting[Response] = Waiting()
        self._running().quorum.receive(request, lambda answer: self.finish(waiting, answer))
        return waiting

    def status(self) -> QuorumStatus:
        return self._running().quorum.status()

    def controller_versions(self) -> Mapping[int, int]:
        return self._running().forwarding.newest

    def decide(self, verb: Callable[[ControllerT], InParts[T]]) -> Waiting[T | ApiError]:
        waiting: Waiting[T | ApiError] = Waiting()

        def done(result: T | ApiError) -> None:
            self.finish(waiting, result)

        self._running().quorum.ask(verb, done)
        return waiting

    def forward(
        self, request: Buffer, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Waiting[Buffer | ApiError]:
        forwarding = self._running().forwarding
        return forwarding.forward(request, principal, host, is_by_token=is_by_token)
