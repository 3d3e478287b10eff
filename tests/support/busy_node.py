"""A node of a KRaft cluster whose quorum's thread is elsewhere: what it does by itself."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TypeVar

from benchmarks.fairness import KNOWN, Burden, largest_of
from benchmarks.wire import frame_of
from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.principal import ANONYMOUS, Principal
from ottla.broker.controlling.active_controller import ActiveController
from ottla.broker.waiting.rooms import Waiting
from ottla.client.connecting.socket_connection import SocketConnection
from ottla.cluster.quorum.forwarding import Forwarding, ForwardingParts
from ottla.config.listeners import client_listeners, controller_listeners
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.principal_data import encode_principal
from ottla.quorum.messages import Known, Request, Response, refusal_of
from ottla.server.dispatching.apis import APIS_OF, QUORUM_APIS, Door
from ottla.server.network.listener import Server
from tests.support.busy_member import elsewhere
from tests.support.lonely_node import LonelyNode
from tests.support.scripted_images import ME
from tests.support.serving import serving

T = TypeVar("T")

ASKED = [
    *sorted(ApiKey(one) for one in QUORUM_APIS if one != ApiKey.ENVELOPE),
    ApiKey.ALLOCATE_PRODUCER_IDS,
    *sorted(FORWARDED - QUORUM_APIS.keys()),
]
"""What a controller does with others' requests: those of nodes, and of clients in Envelopes."""


class BusyNode(LonelyNode):
    """The quorum refuses; what the controller decides is decided in another thread, and the image
    that handlers ask has it at once.
    """

    def receive(self, request: Request) -> Waiting[Response]:
        waiting: Waiting[Response] = Waiting()
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        waiting.result = refusal_of(request, refusal, Known(0))
        self._done.append(waiting)
        return waiting

    def decide(self, verb: Callable[[ActiveController], T]) -> Waiting[T | ApiError]:
        def decided() -> Waiting[T | ApiError]:
            waiting = LonelyNode.decide(self, verb)
            self.quorum.commit()
            self.quorum.log.clear()
            return waiting

        self.shows_at_once = False
        waiting = elsewhere(decided)
        self.broker.image_store.follow(self.quorum.controller.image)
        return waiting

    def serving(self) -> AbstractContextManager[Server]:
        """Serves other nodes."""
        return serving(self.broker, listeners=controller_listeners(self.broker.settings.config))

    @contextmanager
    def passing_on(self) -> Iterator[Server]:
        """Serves clients, whose requests go in Envelopes to itself, over a socket."""
        config = self.broker.settings.config
        listeners = [*client_listeners(config), *controller_listeners(config)]
        with serving(self.broker, listeners=listeners) as server:
            host, port = server.addresses[-1]
            own = Endpoint(listener="", host=host, port=port, security_protocol="PLAINTEXT")

            def answered(waiting: Waiting[Buffer | ApiError], answer: Buffer | ApiError) -> None:
                waiting.result = answer
                self._done.append(waiting)
                server.wake()

            self._forwarding = Forwarding(
                ForwardingParts(
                    connect=lambda *_: SocketConnection(host, port),
                    quick_connect=lambda *_: SocketConnection(host, port),
                    client_id="1",
                    controller=lambda: own,
                    answered=answered,
                    clock=SystemClock(),
                    timeout_ms=60_000.0,
                    complain=self.complaints.append,
                )
            )
            self._forwarding.start()
            try:
                yield server
            finally:
                self._forwarding.stop()

    def forward(
        self, request: Buffer, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Waiting[Buffer | ApiError]:
        return self._forwarding.forward(request, principal, host, is_by_token=is_by_token)

    def burdens(self, key: ApiKey, count: int) -> Iterator[Burden]:
        """The largest requests of an API; those of clients come in Envelopes."""
        known = {**KNOWN, "broker_id": ME, "broker_epoch": self.epoch}
        for one in largest_of(APIS_OF[Door.CONTROLLER][key], "t", count, known):
            if key not in FORWARDED or one.is_pipelined:
                yield one
                continue
            envelope = EnvelopeRequest(
                request_data=one.frame[4:],
                request_principal=encode_principal(ANONYMOUS, is_by_token=False),
                client_host_address=bytes(4),
            )
            yield replace(one, frame=frame_of(envelope, 0))
