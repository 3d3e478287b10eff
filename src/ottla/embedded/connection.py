"""A connection to an open log of the same process: its handlers get the request object itself.

Nothing is encoded for the wire. A handler runs under the log's lock, and what it appended is
written before its response is returned. A later response is awaited in the calling thread. A long
request lets other threads take the lock in between, at the places where the server would suspend it
(`base/turns.py`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from ottla.base.closing import Closing
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError, UserError
from ottla.base.files import FileSlice
from ottla.base.timestamps import Timestamps
from ottla.base.turns import CURRENT, Turn
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages import request_class
from ottla.server.dispatching.apis import APIS
from ottla.server.dispatching.dispatch import handler_of
from ottla.server.dispatching.request_context import (
    Client,
    Handler,
    PendingResponse,
    RequestContext,
)
from ottla.server.dispatching.turns import MAX_ELEMENTS, MAX_RESPONSE_SIZE, SLICE_S

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.embedded.log import Log
    from ottla.protocol.messages.fetch import FetchResponse
    from ottla.protocol.messages.produce import ProduceRequest
    from ottla.protocol.messages.share_fetch import ShareFetchResponse

HOST = "in-process"
CLIENT = Client((HOST, 0), HOST)
FETCHES = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Requests whose records are read after the lock is released."""

YIELD_S = 50e-6
"""Long enough for a waiting thread to get the lock."""


class LocalConnection(Closing):
    """A `client.connection.Connection` to what answers in this process."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._is_closed = False

    @property
    def has_all_transactions(self) -> bool:
        return True

    @property
    def address(self) -> str:
        """The data directory."""
        raise NotImplementedError

    def close(self) -> None:
        self._is_closed = True

    def answers(self, api_key: ApiKey) -> bool:
        return api_key in APIS and APIS[api_key].is_listed

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        api, known = APIS.get(api_key), request_class(api_key).VERSIONS
        if api is None:
            raise UserError(f"{ApiKey(api_key).name} is not supported by this log")
        return min(api.newest, known.last, known.last if newest is None else newest)

    def _header_of(self, request: Message, newest: int | None) -> RequestHeader:
        if self._is_closed:
            raise UserError(f"the connection to {self.address} is closed; open another")
        assert request.API_KEY is not None
        version = self.version_of(request.API_KEY, newest=newest)
        return RequestHeader(request.API_KEY, version, 0, self._client_id)

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        return self.send(request, newest=newest)()

    def send(self, request: Message, *, newest: int | None = None) -> Callable[[], Any]:
        raise NotImplementedError

    def send_all(
        self, requests: Sequence[Message], *, newest: int | None = None
    ) -> list[Callable[[], Any]]:
        return [self.send(one, newest=newest) for one in requests]


class InProcessConnection(LocalConnection):
    """A connection to an open log.

    Any thread may use it; `close` does not close the log.
    """

    def __init__(self, log: "Log", *, client_id: str = "ottla") -> None:
        super().__init__(client_id)
        self._log = log
        self._handlers: dict[int, Handler] = {}
        self._waiting: set[_Request] = set()
        self._has_share_session = False

    @property
    def address(self) -> str:
        return self._log.broker.directories[0].path

    def close(self) -> None:
        """Also ends the waits of other threads, like the shutdown of a socket."""
        self._is_closed = True
        for one in list(self._waiting):
            one.cancel()
        if self._has_share_session:
            self._has_share_session = False
            with suppress(UserError, StorageError):  # With a closed log the session has ended too.
                self._log.hold(lambda broker, at: broker.disconnected(self, at))

    def send(self, request: Message, *, newest: int | None = None) -> Callable[[], Any]:
        """Runs the handler now; the returned function waits for a response that comes later."""
        header = self._header_of(request, newest)
        handle = self._handlers.get(header.api_key)
        if handle is None:
            find = self._log.environment.handlers or handler_of
            handle = find(ApiKey(header.api_key))
            self._handlers[header.api_key] = handle
        is_produce = header.api_key == ApiKey.PRODUCE
        if is_produce:
            request = _patchable(request)  # type: ignore[arg-type]
        asked = _Request(self._log, request, header, handle, self)
        self._has_share_session |= header.api_key == ApiKey.SHARE_FETCH
        self._log.hold(asked.begin)
        answer = partial(self._answer_to, asked) if asked.is_waiting else asked.answer
        return partial(self._stored, answer) if is_produce else answer

    def _stored(self, answer: Callable[[], Any]) -> Any:
        """Returns the response, unless the log has just lost its last directory."""
        response = answer()
        if response is not None and any(
            one.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            for topic in response.responses
            for one in topic.partition_responses
        ):
            self._check_any_online()
        return response

    def _check_any_online(self) -> None:
        """Raises `StorageError`: an embedded broker is not restarted, so waiting is useless."""
        failures = [one.health.failure for one in self._log.broker.directories]
        failure = failures[0]
        if failure is not None and all(failures):
            raise StorageError(failure.directory, failure.reason) from failure.__cause__

    def _answer_to(self, asked: "_Request") -> Any:
        self._waiting.add(asked)
        try:
            if self._is_closed:
                asked.cancel()
            return asked.answer()
        finally:
            self._waiting.discard(asked)


class _Request:
    """One request from its handler to its response, which may be awaited in between."""

    __slots__ = (
        "_broker",
        "_connection",
        "_handle",
        "_header",
        "_is_cancelled",
        "_is_fetch",
        "_log",
        "_result",
    )

    def __init__(
        self,
        log: "Log",
        request: Message,
        header: RequestHeader,
        handle: Handler,
        connection: InProcessConnection,
    ) -> None:
        self._log = log
        self._connection = connection
        self._header = header
        self._handle: Callable[[RequestContext], Any] = partial(handle, request)
        self._result: Message | PendingResponse | None = None
        self._broker: Broker | None = None
        self._is_cancelled = False
        self._is_fetch = header.api_key in FETCHES

    @property
    def is_waiting(self) -> bool:
        return isinstance(self._result, PendingResponse)

    def cancel(self) -> None:
        """Cancels the request; a thread that waits for it gets a `UserError`."""
        self._is_cancelled = True
        if isinstance(self._result, PendingResponse) and self._broker is not None:
            self._log.stop_waiting(self._result.pending_id, self._broker)

    def begin(self, broker: "Broker", at: Timestamps) -> None:
        """Under the log's lock."""
        self._broker = broker
        client = CLIENT._replace(connection=self._connection)
        context = RequestContext(broker, at, self._header, client, False)
        self._take(self._in_turns(lambda: self._handle(context)))

    def answer(self) -> Any:
        while isinstance(self._result, PendingResponse):
            later = self._result
            assert self._broker is not None
            self._log.wait_for(later.pending_id, self._broker)
            if self._is_cancelled:
                raise UserError("the connection was closed before the response came")
            self._log.hold(partial(self._finish, later))
        if self._is_fetch and self._result is not None:
            _read_records(self._result)  # type: ignore[arg-type]
        return self._result

    def _finish(self, later: PendingResponse, broker: "Broker", at: Timestamps) -> None:
        assert self._broker is not None
        # An interrupted call may have replaced the broker since it returned the pending id.
        self._log.check_same(self._broker)
        if later.takes_long:
            self._take(self._in_turns(lambda: later.finish(at)))
        else:
            self._take(later.finish(at))

    def _take(self, result: Message | PendingResponse | None) -> None:
        self._result = result
        if isinstance(result, PendingResponse):
            self._log.pending.enter(result.pending_id)
        elif self._is_fetch and result is not None:
            _keep_records(result)  # type: ignore[arg-type]

    def _in_turns(
        self, deed: Callable[[], Message | PendingResponse | None]
    ) -> Message | PendingResponse | None:
        turn: Turn
        turn = Turn(
            lambda: self._yield_turn(turn),
            perf_counter,
            max_elements=MAX_ELEMENTS,
            max_size=MAX_RESPONSE_SIZE,
        )
        turn.until_s = perf_counter() + SLICE_S
        token = CURRENT.set(turn)
        try:
            return deed()
        finally:
            CURRENT.reset(token)
            turn.end()

    def _yield_turn(self, turn: Turn) -> None:
        assert self._broker is not None
        with self._log.let_others_in(self._broker):
            sleep(YIELD_S)
        turn.until_s = perf_counter() + SLICE_S


def _patchable(request: "ProduceRequest") -> "ProduceRequest":
    """Copies batches: the log writes base offsets and epochs into them, and the client may retry
    its own.
    """
    from ottla.protocol.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

    return ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[
                    PartitionProduceData(
                        index=one.index,
                        records=None if one.records is None else bytearray(one.records),
                    )
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )


def _keep_records(response: "FetchResponse | ShareFetchResponse") -> None:
    """Keeps the files open that are read after the lock is released."""
    for topic in response.responses:
        for partition in topic.partitions:
            if isinstance(partition.records, FileSlice):
                partition.records = partition.records.duplicate()


def _read_records(response: "FetchResponse | ShareFetchResponse") -> None:
    for topic in response.responses:
        for partition in topic.partitions:
            if isinstance(partition.records, FileSlice):
                partition.records = memoryview(partition.records.read())
