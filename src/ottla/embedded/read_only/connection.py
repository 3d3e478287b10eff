"""A connection to log directories: the server's handlers answer what changes nothing."""

from collections.abc import Callable
from typing import Any, Final

from ottla.base.clock import Clock, SystemClock, read_clock
from ottla.base.errors import UserError
from ottla.base.principal import Principal
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.codec.schema import Message
from ottla.embedded.connection import CLIENT, LocalConnection
from ottla.embedded.read_only.broker import ReadOnlyBroker
from ottla.embedded.read_only.known_settings import check_known
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.server.dispatching.dispatch import handler_of
from ottla.server.dispatching.request_context import PendingResponse

USERS_AND_ACLS: Final = "users and ACLs"

READS: Final[dict[int, str | None]] = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: None,
    ApiKey.DESCRIBE_ACLS: USERS_AND_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "quotas",
    ApiKey.DESCRIBE_CLUSTER: None,
    ApiKey.DESCRIBE_CONFIGS: None,
    ApiKey.DESCRIBE_GROUPS: None,
    ApiKey.DESCRIBE_LOG_DIRS: None,
    ApiKey.DESCRIBE_PRODUCERS: None,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: None,
    ApiKey.DESCRIBE_TRANSACTIONS: None,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: USERS_AND_ACLS,
    ApiKey.FETCH: None,
    ApiKey.FIND_COORDINATOR: None,
    ApiKey.LIST_GROUPS: None,
    ApiKey.LIST_OFFSETS: None,
    ApiKey.LIST_TRANSACTIONS: None,
    ApiKey.METADATA: None,
    ApiKey.OFFSET_FETCH: None,
    ApiKey.SHARE_GROUP_DESCRIBE: None,
}
"""The requests that are answered, with what each shows that only a metadata log has."""


class ReadOnlyContext:
    """As `server.request_context.RequestContext`, for a broker that only reads."""

    can_be_long = False
    client = CLIENT

    def __init__(self, broker: ReadOnlyBroker, at: Timestamps, header: RequestHeader) -> None:
        self.broker = broker
        self.at = at
        self.header = header
        self.api_version = header.api_version
        self.client_id = header.client_id

    @property
    def principal(self) -> Principal:
        return self.client.principal

    def may_take_long(self) -> None:
        """Nobody else waits."""


class ReadOnlyConnection(LocalConnection):
    """Requests that would change something raise `UserError`."""

    def __init__(
        self, path: str, broker_for: Callable[[int], ReadOnlyBroker], *, client_id: str
    ) -> None:
        """`broker_for` is called with the API key of each request."""
        super().__init__(client_id)
        self._path = path
        self._broker_for = broker_for
        self._clock: Clock = SystemClock()

    @property
    def address(self) -> str:
        return self._path

    def answers(self, api_key: ApiKey) -> bool:
        return api_key in READS

    @property
    def has_all_transactions(self) -> bool:
        return self._broker_for(ApiKey.LIST_TRANSACTIONS).transactions.is_complete

    def send(self, request: Message, *, newest: int | None = None) -> Callable[[], Any]:
        """The returned function returns the response that there is already; raises
        `CorruptionError` for damage that prevents it.
        """
        header = self._header_of(request, newest)
        self._check_is_read(ApiKey(header.api_key))
        broker = self._broker_for(header.api_key)
        _check_known(broker, request, header.api_key)
        handle: Callable[[Message, Any], Any] = handler_of(ApiKey(header.api_key))
        at = read_clock(self._clock)
        answer = handle(request, ReadOnlyContext(broker, at, header))
        while isinstance(answer, PendingResponse):  # for what there is already
            answer = answer.finish(at)
        return lambda: answer

    def _check_is_read(self, api_key: ApiKey) -> None:
        if api_key in READS:
            return
        if api_key.name.startswith(("DESCRIBE_", "LIST_")):
            why, mend = "is answered by a running broker alone", "ask one"
        else:
            why, mend = "would change it", "open it without read_only, or ask a broker on it"
        raise UserError(f"{self._path} is only read, and {api_key.name} {why}; {mend}: HOST:PORT")


def _check_known(broker: ReadOnlyBroker, request: Message, api_key: int) -> None:
    """Raises `UserError` for what a directory cannot tell."""
    what = READS[api_key]
    if api_key == ApiKey.DESCRIBE_CONFIGS:
        kinds = {one.resource_type for one in request.resources}  # type: ignore[attr-defined]
        if ResourceKind.BROKER_LOGGER in kinds:
            raise no_loggers()
        if kinds - {ResourceKind.TOPIC}:
            what = "settings of brokers and groups"
    if what is not None:
        check_known(broker.opened, what)


def no_loggers() -> UserError:
    """Returns the error for the loggers of a broker that does not run."""
    return UserError("a directory has no loggers; name a broker that runs: HOST:PORT")
