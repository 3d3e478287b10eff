"""The thread `ottla-forwarding`: requests of clients in Envelopes to the active controller.

They are sent one after another, as Kafka's brokers do. Who is no controller any more says so, and
a connection may be lost: then the present controller is asked, until the request's deadline. What
a controller was asked before its connection was lost may have been done. Kafka's counterparts:
`ForwardingManagerImpl`, `NodeToControllerChannelManager`.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from threading import Condition, Thread
from typing import Final

from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.memory_files import uncopied
from ottla.base.principal import Principal
from ottla.base.values import dataclass
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.peers import BACKOFF_S, Connect, Peer, PeerError
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal_data import encode_principal

logger = logging.getLogger(__name__)

JOIN_S: Final = 5.0
"""How long `stop` waits for a thread that waits for a controller."""

LEADERLESS_MS: Final = 8000.0
"""How long an election may take: a quorum without a majority elects nobody, and whoever asks is
told so while he still listens, at once if nobody has led for longer. Kafka lets him wait until he
gives up.
"""

ASKING_MS: Final = 2000.0
"""The same for who only asks about the quorum, and wants to see that nobody leads."""

LEARNING_S: Final = 1.0
"""The time between attempts to learn what a controller answers."""

Answered = Waiting[Buffer | ApiError]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingParts:
    """The collaborators. `controller` says where the active controller is, as far as is known,
    `leaderless_since_ms` the monotonic time since which no leader is known, if so, and `timeout_ms`
    is how long a request is tried. Responses of `connect` stay valid when others come;
    `quick_connect` gives up soon. `answered` is called in the forwarding thread, `complain` gets a
    line for people.
    """

    connect: Connect
    quick_connect: Connect
    client_id: str
    controller: Callable[[], Endpoint | None]
    leaderless_since_ms: Callable[[], float | None] = lambda: None
    answered: Callable[[Answered, Buffer | ApiError], None]
    clock: Clock
    timeout_ms: float
    complain: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Forwarded:
    waiting: Answered
    envelope: EnvelopeRequest
    deadline_ms: float
    leaderless_ms: float


class Forwarding:
    """`forward` returns at once; the thread ends with `stop`, and what still waits is refused."""

    def __init__(self, parts: ForwardingParts) -> None:
        self._parts = parts
        self._peer = Peer(parts.connect, parts.client_id)
        self._learner = Peer(parts.quick_connect, parts.client_id)
        self._changed = Condition()
        self._queue: deque[_Forwarded] = deque()
        self._is_stopping = False
        self._leaderless_ms: float | None = None
        """Since when requests have been waiting for a controller, without a pause."""
        self._refusal = ErrorCode.NONE
        """What people have been told of."""
        self._newest: Mapping[int, int] = {}
        self._newest_of: Endpoint | None = None
        self._thread = Thread(target=self._run, name="ottla-forwarding", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Must not be called under the broker's lock."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._peer.close()
        self._learner.close()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def forward(
        self, request: Buffer, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Answered:
        """Sends a request with its header, which must stay unchanged until the answer, which has
        one too. `ApiError` without an answer:
        NOT_CONTROLLER if no controller answers for as long as an election may take,
        REQUEST_TIMED_OUT, or the error of the Envelope.
        """
        waiting: Answered = Waiting()
        envelope = EnvelopeRequest(
            request_data=uncopied(request),
            request_principal=encode_principal(principal, is_by_token=is_by_token),
            client_host_address=ip_address(host).packed,
        )
        deadline_ms = self._parts.clock.monotonic_ms() + self._parts.timeout_ms
        is_asking = int.from_bytes(memoryview(request)[:2]) == ApiKey.DESCRIBE_QUORUM
        leaderless_ms = ASKING_MS if is_asking else LEADERLESS_MS
        with self._changed:
            self._queue.append(_Forwarded(waiting, envelope, deadline_ms, leaderless_ms))
            self._changed.notify()
        self._learner.close()  # whoever asks must not wait for what is only good to know
        return waiting

    def leader_changed(self) -> None:
        """Has the present controller asked what an earlier one has not answered, which may be
        stopped and keep its connections.
        """
        self._peer.close()

    @property
    def newest(self) -> Mapping[int, int]:
        """The newest version that the controller answers of each API in `FORWARDED`, as far as is
        known: a controller of an older Kafka may not know all that this node does.
        """
        return self._newest

    # The thread

    def _run(self) -> None:
        while (one := self._next()) is not None:
            self._parts.answered(one.waiting, self._answer_to(one))
        for one in self._queue:
            self._parts.answered(one.waiting, ApiError(ErrorCode.NOT_CONTROLLER))
        self._peer.close()

    def _next(self) -> _Forwarded | None:
        while True:
            with self._changed:
                if self._is_stopping:
                    return None
                if self._queue:
                    return self._queue.popleft()
                self._leaderless_ms = None
            self._learn()
            with self._changed:
                if not (self._queue or self._is_stopping):
                    self._changed.wait(None if self._newest else LEARNING_S)

    def _learn(self) -> None:
        """Asks a controller that was not asked before which versions it answers, while nobody waits
        for anything else.
        """
        endpoint = self._parts.controller()
        if endpoint is None or endpoint == self._newest_of or self._is_stopping:
            return
        newest: dict[int, int] = {}
        for api_key in FORWARDED:
            try:
                newest[api_key] = self._learner.version_of(endpoint, api_key, None)
            except PeerError as error:
                logger.debug("%s", error)  # not reached, or older than the API
                if not newest:
                    return
            except Exception:
                # If this thread ended, clients would wait for nothing.
                logger.exception("could not read which versions the controller answers")
                break
        self._learner.close()
        self._newest, self._newest_of = newest, endpoint

    def _answer_to(self, one: _Forwarded) -> Buffer | ApiError:
        try:
            while self._parts.clock.monotonic_ms() < one.deadline_ms:
                response = self._ask(one)
                if response is None or response.error_code == ErrorCode.NOT_CONTROLLER:
                    if self._is_leaderless(one) or self._is_ending_after_pause():
                        return ApiError(ErrorCode.NOT_CONTROLLER)
                    continue
                self._leaderless_ms = None
                return self._read(response)
        except Exception as error:
            # If this thread ended, clients would wait for nothing.
            logger.exception("could not pass on a request of a client")
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT, "No controller of the cluster has answered in time."
        )

    def _is_leaderless(self, one: _Forwarded) -> bool:
        """Whether no controller has answered for as long as an election may take."""
        now_ms = self._parts.clock.monotonic_ms()
        if self._leaderless_ms is None:
            since_ms = self._parts.leaderless_since_ms()
            self._leaderless_ms = now_ms if since_ms is None else since_ms
        return now_ms - self._leaderless_ms >= one.leaderless_ms

    def _ask(self, one: _Forwarded) -> EnvelopeResponse | None:
        """`None` without a response."""
        try:
            response: EnvelopeResponse = self._peer.ask(self._parts.controller(), one.envelope)
        except PeerError as error:
            logger.debug("the controller does not answer: %s", error)
            return None
        return response

    def _is_ending_after_pause(self) -> bool:
        with self._changed:
            if not self._is_stopping:
                self._changed.wait_for(lambda: self._is_stopping, BACKOFF_S)
            return self._is_stopping

    def _read(self, response: EnvelopeResponse) -> Buffer | ApiError:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            self._refusal = code
            data = response.response_data
            assert data is None or isinstance(data, Buffer), "as it is read"
            return b"" if data is None else data
        if code is not self._refusal:
            self._refusal = code
            self._parts.complain(
                "the controller does not answer what this broker passes on for clients: "
                f"{code.name}: {code.description}"
            )
        return ApiError(code)
