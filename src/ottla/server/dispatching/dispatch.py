"""Decodes a frame for its handler, and encodes the handler's response.

Kafka's counterpart: `KafkaApis.handle`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Scout, TurnsNeededError
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.headers import RequestHeader, encode_response, read_request_header
from ottla.protocol.messages import module_name, request_class
from ottla.server.dispatching.apis import (
    APIS_OF,
    EVERY_API,
    NOT_METERED,
    Api,
    Door,
    controller_names,
    door_of,
)
from ottla.server.dispatching.request_context import (
    Client,
    Handler,
    PendingResponse,
    RequestContext,
)
from ottla.server.dispatching.request_counts import ApiCounts, RequestCounts
from ottla.server.dispatching.turns import LongAnswer, LongRequests

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SHORT_SIZE: Final = 1024
"""Maximum size of requests that are read without counting their elements."""

MAX_SHORT_ELEMENTS: Final = 256
"""Maximum number of elements of a request that is not treated as long."""


ASKED_BY_ALL: Final = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH)

CHANGES_OF_GROUPS: Final = (
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
)

OF_NEW_PROTOCOLS: Final = (
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)

NEEDED_SOON: Final = (
    "ottla.coordinator.transaction.requests",
    "ottla.storage.compaction.planning",
    "ottla.storage.compaction.replacement",
    "ottla.storage.retention.retention",
)


class Route:
    """One API in one version: its decoder and its handler."""

    __slots__ = ("counts", "handle", "looks_into_logs", "read")

    def __init__(self, api: Api, api_version: int, handle: Handler, counts: ApiCounts) -> None:
        self.counts = counts
        self.read: Callable[..., tuple[Any, int]]
        self.read = reader(request_class(api.key), api_version)
        self.handle = handle
        self.looks_into_logs = api.looks_into_logs


class Dispatcher:
    """Decodes requests, calls handlers, encodes answers. Raises `ProtocolError`.

    Long requests are left to `long_requests`; without, everything is done at once. `handlers` are
    this package's, unless a test puts others in their place.
    """

    def __init__(
        self,
        broker: "Broker",
        clock: Clock | None = None,
        long_requests: LongRequests | None = None,
        handlers: Callable[[ApiKey], Handler] | None = None,
    ) -> None:
        self._broker = broker
        self._handlers = handlers or handler_of
        self._clock = clock or SystemClock()
        self._is_metering = False
        self._routes: dict[tuple[int, int], Route] = {}
        self._controllers = controller_names(broker.settings.config)
        self._routes_to_controller: dict[tuple[int, int], Route] = {}
        self._at = Timestamps(now_ms=0, monotonic_ms=0.0)
        self._long_requests = long_requests
        self._scout = Scout(MAX_SHORT_ELEMENTS)
        self.counts = RequestCounts()
        self._answered = self.counts.in_round

    @property
    def at(self) -> Timestamps:
        """The time of the current round."""
        return self._at

    def set_time(self, at: Timestamps) -> None:
        """One reading of the clocks is used for a whole round."""
        self._at = at
        self.counts.begin_round(at.monotonic_ms)
        if self._broker.quotas.is_active is not self._is_metering:
            self._is_metering = self._broker.quotas.is_active
            self._routes.clear()
            self._routes_to_controller.clear()

    def dispatch(self, frame: Buffer, client: Client, output: Output) -> PendingResponse | None:
        """Handles one request and appends the response to `output`, or returns what it waits for.

        Records in the frame must stay there until `Appends.write_out`. Raises `ProtocolError` for a
        request that Kafka, too, answers by closing the connection, and `StorageError` when appends
        of earlier requests could not be written.
        """
        header, position = read_request_header(frame)
        routes = self._routes
        if client.listener in self._controllers:
            routes = self._routes_to_controller
        route = routes.get((header.api_key, header.api_version))
        if route is None:
            route, header = self._find_route(header, client.listener, routes)
        long_requests = self._long_requests
        try:
            if long_requests is None or len(frame) <= SHORT_SIZE:
                request, _ = route.read(frame, position)
            else:
                self._scout.begin()
                request, _ = route.read(frame, position, self._scout)
            if route.looks_into_logs and self._broker.appends.has_pending:
                self._broker.appends.write_out()  # a client must be able to read its earlier writes
            answer = route.handle(
                request,
                RequestContext(self._broker, self._at, header, client, long_requests is not None),
            )
        except TurnsNeededError:
            return self._answer_in_turns(route, header, frame, position, client)
        if isinstance(answer, PendingResponse):
            return self._begin(answer, header, output, self.counts.received_ms)
        counts = route.counts
        if answer is not None:
            encode_response(header, answer, output)
            if output.error_codes:
                counts.take_errors(output.error_codes)
        # Inlined, since every request passes here.
        if not counts.in_round:
            self._answered.append(counts)
        counts.in_round += 1
        return None

    def _answer_in_turns(
        self,
        route: Route,
        header: RequestHeader,
        frame: Buffer,
        position: int,
        client: Client,
    ) -> LongAnswer:
        """Restarts a request that turned out to be long, when its turn comes."""
        assert self._long_requests is not None
        received_ms = self.counts.received_ms

        def work(output: Output) -> PendingResponse | None:
            request, _ = route.read(frame, position, output.turn)
            if route.looks_into_logs and self._broker.appends.has_pending:
                self._broker.appends.write_out()
            context = RequestContext(self._broker, self._at, header, client, False)
            return self._take(route.handle(request, context), header, output, received_ms)

        return self._long_requests.add(work, len(frame))

    def finish(self, later: PendingResponse, output: Output) -> PendingResponse | None:
        """Encodes a delayed response, or returns what it waits for next."""
        if isinstance(later, LongAnswer):
            return later.deliver(output)
        if later.takes_long and self._long_requests is not None:
            later.takes_long = False
            return self._long_requests.add(lambda own: self.finish(later, own), 0)
        assert later.header is not None
        try:
            answer = later.finish(self._at)
        except TurnsNeededError:
            assert self._long_requests is not None
            return self._long_requests.add(lambda own: self.finish(later, own), 0)
        if later.is_answered:
            return None
        counts = self.counts.of(later.header.api_key)
        counts.waits.add(self._at.monotonic_ms - later.begun_ms)
        return self._take(answer, later.header, output, later.received_ms)

    def _take(
        self,
        answer: Message | PendingResponse | None,
        header: RequestHeader,
        output: Output,
        received_ms: float,
    ) -> PendingResponse | None:
        if isinstance(answer, PendingResponse):
            return self._begin(answer, header, output, received_ms)
        if answer is not None:
            encode_response(header, answer, output)
        self._answered_late(header, output, received_ms)
        return None

    def _begin(
        self, later: PendingResponse, header: RequestHeader, output: Output, received_ms: float
    ) -> PendingResponse:
        later.header = header
        later.received_ms = received_ms
        later.begun_ms = self._at.monotonic_ms
        if later.response is not None:
            encode_response(header, later.response, output)
        if later.is_answered:
            self._answered_late(header, output, received_ms)
        return later

    def _answered_late(self, header: RequestHeader, output: Output, received_ms: float) -> None:
        counts = self.counts.of(header.api_key)
        counts.take_errors(output.error_codes)
        self.counts.answered_late(counts, received_ms)

    def _find_route(
        self, header: RequestHeader, listener: str, routes: dict[tuple[int, int], Route]
    ) -> tuple[Route, RequestHeader]:
        """Returns the route, and the header of the response."""
        key, version = header.api_key, header.api_version
        door = door_of(self._broker, listener)
        api = APIS_OF[door].get(key)
        if api is None:
            raise ProtocolError(f"request {name_of(key)} is not supported")
        if api.oldest <= version <= api.newest:
            handle = self._handler(api, door)
            route = routes[key, version] = Route(api, version, handle, self.counts.of(key))
            if door is Door.QUORUM and api.key in FORWARDED:
                from ottla.server.dispatching.forwarding import forwarded, whole_frame

                route.read, route.looks_into_logs = whole_frame, False
                route.handle = forwarded(api.key, version, handle)
            if door is not Door.CONTROLLER and self._is_metering and api.key not in NOT_METERED:
                # Created on demand: most brokers have no quotas.
                from ottla.server.dispatching.metering import metered

                route.handle = metered(route.handle, self._clock.monotonic_ms)
            return route, header
        if key != ApiKey.API_VERSIONS:
            raise ProtocolError(f"request {name_of(key)} has no version {version} here")
        return _UnsupportedApiVersions(self.counts.of(key)), header.in_version(0)

    def _handler(self, api: Api, door: Door) -> Handler:
        """The handler of an API, which answers what its client may ask, and when it may know."""
        if api.key is ApiKey.ENVELOPE:
            from ottla.server.dispatching.enveloped import enveloped

            handle = enveloped(self)
        else:
            handle = handler_in(api) if api.module else self._handlers(api.key)
        if door is Door.CONTROLLER:
            from ottla.server.dispatching.enveloped import noting_refusals

            handle = noting_refusals(handle)
        if door is not Door.ALONE:
            from ottla.server.handling.committing import committed

            handle = committed(api.key, handle)
        if api.key in CHANGES_OF_GROUPS:
            from ottla.server.handling.group_changes import one_at_a_time

            handle = one_at_a_time(handle)
        authorizer = self._broker.security.authorizer
        if authorizer is not None:
            # Created on demand: most brokers never need it.
            from ottla.server.authorization.guards import guarded

            handle = guarded(api.key, handle, authorizer, by_nodes=door is Door.CONTROLLER)
        if api.key in OF_NEW_PROTOCOLS:
            from ottla.server.handling.enabled_protocols import while_enabled

            handle = while_enabled(api.key, handle)
        if door is Door.CONTROLLER:
            from ottla.server.dispatching.own_decisions import ASK_THE_IMAGE, after_own_decisions

            if api.key in ASK_THE_IMAGE:
                handle = after_own_decisions(handle)
        return handle


class _UnsupportedApiVersions(Route):
    """ApiVersions in an unknown later version: answered in version 0, unread (KIP-511)."""

    def __init__(self, counts: ApiCounts) -> None:
        self.counts = counts
        self.read = lambda _, position, pace=None: (None, position)
        self.handle = _answer_unsupported
        self.looks_into_logs = False


def _answer_unsupported(_: None, context: RequestContext) -> Message:
    return handler_of(ApiKey.API_VERSIONS)(None, context)  # type: ignore[return-value]


def load_first_modules() -> None:
    """Imports what nearly every client needs, 3 to 5 ms each, before the first one waits, and
    what the broker's jobs and transactions need, for which the first clients would wait.
    """
    for key in ASKED_BY_ALL:
        handler_of(key)
    for name in NEEDED_SOON:
        import_module(name)


def handler_of(api_key: ApiKey) -> Handler:
    """A handler is imported when its API is first used, as its messages are."""
    return handler_in(EVERY_API[api_key])


def handler_in(api: Api) -> Handler:
    name = api.module or module_name(api.key)
    module: Any = import_module(f"ottla.server.{api.room}.{name}")
    handle: Handler = module.handle
    return handle


def name_of(api_key: int) -> str:
    try:
        return f"{ApiKey(api_key).name} ({api_key})"
    except ValueError:
        return str(api_key)
