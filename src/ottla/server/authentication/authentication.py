"""A connection that must log in before its requests are answered: SaslHandshake, SaslAuthenticate.

Until then only those and ApiVersions are taken; anything else closes the connection. After a
handshake in version 0 the client's texts come as frames without headers. A login may have an end
(`connections.max.reauth.ms`, a token's time): the client logs in again on the same connection, or
the next request closes it (KIP-368). A refusal waits for
`connection.failed.authentication.delay.ms`, so that guessing is slow.

Kafka's counterpart: `SaslServerAuthenticator`.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum, auto
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError
from ottla.base.extras import needed_for
from ottla.base.files import Buffer
from ottla.base.scram import HASHES
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    Check,
    Login,
    LoginError,
    OAuthBearerServer,
    PlainServer,
    SaslServer,
)
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.config.security import SASL_MECHANISMS, jaas_of
from ottla.config.setting import SettingError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import FRAME_SIZE, RequestHeader, encode_response, read_request_header
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.server.dispatching.apis import APIS
from ottla.server.dispatching.request_context import Client, PendingResponse
from ottla.server.network.connection_events import LoginOutcome

MIN_REAUTHENTICATION_MS = 1000.0
"""A client may not log in again more often than this. As in Kafka the first time may come at
once: a token that is used late in its life leaves little time (`KafkaChannel`)."""

MAX_VERSIONS_REQUESTS: Final = 3
"""How many ApiVersions requests an unauthenticated client may send, since the response costs
more than the request: a client sends one, and another if its first version is not supported.
Kafka answers one in a supported version.
"""


STRANGER_CAPACITY: Final = 32 * 1024
"""Size of the buffer of a client that has not logged in; enough for most logins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """How clients of one listener log in."""

    mechanisms: tuple[str, ...]
    max_reauthentication_ms: int = 0
    failure_delay_ms: int = 0
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    check_token: Check | None = None


logger = logging.getLogger(__name__)

ENABLED_MECHANISMS = "sasl.enabled.mechanisms"


def login_settings(config: BrokerConfig, listener: str) -> LoginSettings:
    """Raises `SettingError`."""
    own = config.of_listener(listener)
    mechanisms = own.login_mechanisms
    if not mechanisms:
        given, known = ", ".join(own.sasl_enabled_mechanisms), ", ".join(SASL_MECHANISMS)
        raise SettingError(
            ENABLED_MECHANISMS,
            f"{ENABLED_MECHANISMS}={given}: listener {listener} needs one of {known}",
            f"No mechanism is known: {given}",
        )
    for one in own.unknown_mechanisms:
        logger.warning("listener %s: %s: %s is left out", listener, ENABLED_MECHANISMS, one)
    jaas = jaas_of(config.given, listener, PLAIN)
    check_token: Check | None = None
    if OAUTHBEARER in mechanisms:
        from ottla.server.authentication.oauth import TokenCheck

        check_token = TokenCheck(own)
    if not HASHES.keys().isdisjoint(mechanisms):
        with needed_for("sasl.enabled.mechanisms=SCRAM-SHA-512"):
            import ottla.broker.security.scram  # noqa: F401
    return LoginSettings(
        mechanisms=mechanisms,
        max_reauthentication_ms=own.connections_max_reauth_ms,
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
        plain_users={} if jaas is None else jaas.plain_users,
        check_token=check_token,
    )


class State(Enum):
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    AUTHENTICATE_RAW = auto()
    COMPLETE = auto()
    FAILED = auto()


class Dispatches(Protocol):
    """The dispatcher, as far as a login needs it."""

    @property
    def at(self) -> Timestamps: ...

    def dispatch(self, frame: Buffer, client: Client, output: Output) -> PendingResponse | None: ...


class Holds(Protocol):
    """The connection, which is another client's after a login."""

    peer: Client
    reader: FrameReader

    def has_logged_in(self) -> None: ...

    def has_failed_to_log_in(self) -> None: ...


class Authentication:
    """Stands between a connection and the dispatcher."""

    def __init__(
        self,
        broker: Broker,
        settings: LoginSettings,
        counts: Counter[LoginOutcome],
        connection: Holds,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._counts = counts
        self._connection = connection
        self._state = State.HANDSHAKE
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._login: Login | None = None
        self._expires_ms: float | None = None
        self._begun_again_ms: float | None = None
        self._versions_requests = 0

    @property
    def has_login(self) -> bool:
        """Whether the client has logged in; a certificate is not a login."""
        return self._login is not None

    def dispatch(
        self, frame: Buffer, output: Output, dispatcher: Dispatches
    ) -> PendingResponse | None:
        """Like the dispatcher's; raises `ProtocolError` for a request that is not allowed in this
        state.
        """
        at = dispatcher.at
        if self._state is State.AUTHENTICATE_RAW:
            return self._take_raw(bytes(frame), output, at)
        api_key = frame[0] << 8 | frame[1] if len(frame) > 1 else -1
        if self._state is State.COMPLETE and not self._begins_again(api_key, at):
            return dispatcher.dispatch(frame, self._connection.peer, output)
        if self._state is State.FAILED:
            raise ProtocolError("a request after a login that failed")
        if api_key == ApiKey.API_VERSIONS and self._state is State.HANDSHAKE:
            self._versions_requests += 1
            if self._versions_requests > MAX_VERSIONS_REQUESTS:
                raise ProtocolError("a client that has not logged in asks for versions on and on")
            return dispatcher.dispatch(frame, self._connection.peer, output)
        wanted = (
            ApiKey.SASL_AUTHENTICATE if self._state is State.AUTHENTICATE else ApiKey.SASL_HANDSHAKE
        )
        if api_key != wanted:
            raise ProtocolError(f"{wanted.name} must come before any other request")
        header, position = read_request_header(frame)
        if not APIS[wanted].oldest <= header.api_version <= APIS[wanted].newest:
            raise ProtocolError(f"{wanted.name} has no version {header.api_version} here")
        if wanted is ApiKey.SASL_HANDSHAKE:
            handshake, _ = reader(SaslHandshakeRequest, header.api_version)(frame, position)
            return self._shake_hands(handshake.mechanism, header, output, dispatcher)
        request, _ = reader(SaslAuthenticateRequest, header.api_version)(frame, position)
        return self._authenticate(bytes(request.auth_bytes), header, output, at)

    def _begins_again(self, api_key: int, at: Timestamps) -> bool:
        """Whether a client that has logged in does so again; raises `ProtocolError`."""
        if self._expires_ms is None:
            return False
        begun_ms = self._begun_again_ms
        is_soon = begun_ms is not None and at.monotonic_ms - begun_ms < MIN_REAUTHENTICATION_MS
        if api_key == ApiKey.SASL_HANDSHAKE and not is_soon:
            self._begun_again_ms = at.monotonic_ms
            self._state = State.HANDSHAKE
            return True
        if at.monotonic_ms > self._expires_ms:
            self._counts[LoginOutcome.EXPIRED] += 1
            raise ProtocolError(f"the login of {self._connection.peer.principal} has expired")
        return False

    def _shake_hands(
        self, mechanism: str, header: RequestHeader, output: Output, dispatcher: Dispatches
    ) -> PendingResponse | None:
        response = SaslHandshakeResponse(mechanisms=list(self._settings.mechanisms))
        is_other = self._login is not None and mechanism != self._mechanism
        if mechanism not in self._settings.mechanisms or is_other:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._refuse(response, header, dispatcher.at)
        self._mechanism = mechanism
        self._server = self._new_server(mechanism, dispatcher)
        is_raw = header.api_version == 0
        self._state = State.AUTHENTICATE_RAW if is_raw else State.AUTHENTICATE
        encode_response(header, response, output)
        return None

    def _new_server(self, mechanism: str, dispatcher: Dispatches) -> SaslServer:
        if mechanism == PLAIN:
            return PlainServer(self._settings.plain_users)
        if mechanism == OAUTHBEARER:
            assert self._settings.check_token is not None
            return OAuthBearerServer(self._settings.check_token)
        find = self._broker.security.find_account(
            mechanism, lambda: dispatcher.at.now_ms, lambda: secrets.token_bytes(16)
        )
        from ottla.broker.security.scram import ScramServer

        return ScramServer(mechanism, find, secrets.token_hex(16))

    def _authenticate(
        self, text: bytes, header: RequestHeader, output: Output, at: Timestamps
    ) -> PendingResponse | None:
        try:
            challenge = self._answer(text, at)
        except LoginError as error:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
            )
            return self._refuse(response, header, at)
        answer = SaslAuthenticateResponse(auth_bytes=challenge, error_message=None)
        if self._expires_ms is not None and self._state is State.COMPLETE:
            answer.session_lifetime_ms = round(self._expires_ms - at.monotonic_ms)
        encode_response(header, answer, output)
        return None

    def _take_raw(self, text: bytes, output: Output, at: Timestamps) -> PendingResponse | None:
        try:
            challenge = self._answer(text, at)
        except LoginError:
            return self._refuse(None, None, at)
        output.data += FRAME_SIZE.pack(len(challenge)) + challenge
        return None

    def _answer(self, text: bytes, at: Timestamps) -> bytes:
        assert self._server is not None
        challenge = self._server.answer(text)
        login = self._server.login
        if login is not None:
            if self._login is not None and login.principal != self._login.principal:
                raise LoginError("Cannot change principals during re-authentication")
            self._complete(login, at)
        return challenge

    def _complete(self, login: Login, at: Timestamps) -> None:
        is_first = self._login is None
        self._counts[LoginOutcome.SUCCEEDED if is_first else LoginOutcome.AGAIN] += 1
        self._login = login
        self._server = None
        self._state = State.COMPLETE
        longest = self._settings.max_reauthentication_ms or None
        ends = [one for one in (longest, login.lifetime_ms) if one is not None]
        self._expires_ms = at.monotonic_ms + min(ends) if ends else None
        connection = self._connection
        connection.peer = connection.peer._replace(
            principal=login.principal, is_by_token=login.is_token
        )
        connection.has_logged_in()

    def _refuse(
        self, response: Message | None, header: RequestHeader | None, at: Timestamps
    ) -> PendingResponse:
        self._state = State.FAILED
        self._counts[LoginOutcome.FAILED] += 1
        until_ms = at.monotonic_ms + self._settings.failure_delay_ms
        return DelayedRefusal(self._broker, until_ms, response, header, self._connection)


class Logins:
    """Handles the logins of a listener's connections.

    Its settings are read once, since none can change at run time.
    """

    def __init__(self, broker: Broker, counts: Counter[LoginOutcome]) -> None:
        self._broker = broker
        self._counts = counts
        self._settings: dict[str, LoginSettings] = {}

    def begin(self, connection: Holds, listener: str) -> Authentication:
        """Returns what handles the requests of a client before its login."""
        max_size = self._broker.settings.config.sasl_server_max_receive_size
        connection.reader.limit(max_size, STRANGER_CAPACITY)
        return Authentication(self._broker, self._settings[listener], self._counts, connection)

    def prepare(self, listeners: Sequence[Listener], config: BrokerConfig) -> None:
        """Reads the settings of new listeners; raises `UserError` if nobody could log in."""
        for listener in listeners:
            if listener.has_login and listener.name not in self._settings:
                self._settings[listener.name] = login_settings(config, listener.name)


class DelayedRefusal(PendingResponse):
    """Sends a refusal after a delay, and then closes the connection."""

    __slots__ = ("_connection", "_refusal")

    def __init__(
        self,
        broker: Broker,
        until_ms: float,
        refusal: Message | None,
        header: RequestHeader | None,
        connection: Holds,
    ) -> None:
        super().__init__(broker.throttled_clients.add(until_ms))
        self._refusal = refusal
        self._connection = connection
        self.header = header or RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0)

    def finish(self, at: Timestamps) -> Message | None:
        self._connection.has_failed_to_log_in()
        return self._refusal
