"""The log of requests for `ottla serve --log-requests`; without it none of this runs.

Kafka's counterpart: `RequestChannel`'s request logger.
"""

import logging
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase

from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.codec.primitives import Output
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, read_request_header
from ottla.server.dispatching.dispatch import Dispatcher
from ottla.server.dispatching.request_context import Client, PendingResponse
from ottla.server.dispatching.request_counts import api_title
from ottla.server.dispatching.turns import LongAnswer, LongRequests

logger = logging.getLogger("ottla.requests")

GRAMMAR = (
    "all, or names of APIs, client=PATTERN, host=PATTERN, slower=MS and errors, with commas between"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswered:
    """Sizes are of whole frames; `errors` counts the error codes in the answer."""

    api: str
    version: int
    client_id: str
    host: str
    correlation_id: int
    duration_ms: float
    request_size: int
    response_size: int
    errors: dict[str, int]

    @property
    def message(self) -> str:
        errors = ", ".join(f"{name} ({count})" for name, count in self.errors.items())
        return (
            f"{self.api} v{self.version} of {self.client_id or 'a client'} on {self.host}, "
            f"correlation id {self.correlation_id}: {self.duration_ms:.2f} ms, {self.request_size} "
            f"bytes in, {self.response_size} out" + (f"; {errors}" if errors else "")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """Selects the requests to log; empty fields match all."""

    apis: frozenset[str] = frozenset()
    client: str = ""
    host: str = ""
    slower_ms: float = 0.0
    has_errors: bool = False

    def wants(self, one: RequestAnswered) -> bool:
        return (
            (not self.apis or one.api.lower() in self.apis)
            and (not self.client or fnmatchcase(one.client_id, self.client))
            and (not self.host or fnmatchcase(one.host, self.host))
            and one.duration_ms >= self.slower_ms
            and (bool(one.errors) or not self.has_errors)
        )


def parse_filter(text: str) -> RequestFilter:
    """Of an empty text, or `all`, a filter that matches all; raises `UserError`."""
    known = {api_title(key).lower() for key in ApiKey}
    apis: set[str] = set()
    client = host = ""
    slower_ms, has_errors = 0.0, False
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        match name.lower():
            case "client" if value:
                client = value
            case "host" if value:
                host = value
            case "all" if not value:
                pass
            case "slower" if value.replace(".", "", 1).isdecimal():
                slower_ms = float(value)
            case "errors" if not value:
                has_errors = True
            case api if api.replace("_", "") in known and not value:
                apis.add(api.replace("_", ""))
            case _:
                raise UserError(f"--log-requests {text}: {part} is not valid; use {GRAMMAR}")
    return RequestFilter(
        apis=frozenset(apis),
        client=client,
        host=host,
        slower_ms=slower_ms,
        has_errors=has_errors,
    )


class LoggedRequest:
    """A request whose response is pending."""

    def __init__(self, header: RequestHeader, client: Client, size: int) -> None:
        self.header = header
        self.client = client
        self.size = size
        self.received_ms = 0.0
        self.errors: Counter[str] = Counter()
        self.before: Counter[int] | None = None
        """For a request that is handled in turns: the errors of its API when it began."""

    def answered(self, response_size: int, now_ms: float) -> RequestAnswered:
        return RequestAnswered(
            api=api_title(self.header.api_key),
            version=self.header.api_version,
            client_id=self.header.client_id or "",
            host=self.client.host,
            correlation_id=self.header.correlation_id,
            duration_ms=now_ms - self.received_ms,
            request_size=self.size,
            response_size=response_size,
            errors=dict(self.errors),
        )


class LoggingDispatcher(Dispatcher):
    """Dispatches as without it, and logs each request that passes the filter when it is answered.

    Errors are what the counts of the API grow by meanwhile. A request that is answered in turns may
    so be given errors of another one of its API, which was answered between two of its turns.
    """

    def __init__(
        self, broker: Broker, clock: Clock, long_requests: LongRequests, wanted: RequestFilter
    ) -> None:
        super().__init__(broker, clock, long_requests)
        self._wanted = wanted
        self._now_ms: Callable[[], float] = clock.monotonic_ms

    def dispatch(self, frame: Buffer, client: Client, output: Output) -> PendingResponse | None:
        logged = LoggedRequest(read_request_header(frame)[0], client, len(frame))
        logged.received_ms = self.counts.received_ms
        size, errors = output.size, self._errors_of(logged)
        later = super().dispatch(frame, client, output)
        return self._note(logged, later, output.size - size, errors)

    def finish(self, later: PendingResponse, output: Output) -> PendingResponse | None:
        logged = later.logged
        if not isinstance(logged, LoggedRequest):
            return super().finish(later, output)
        later.logged = None  # What takes long is finished once more, in turns.
        size = output.size
        errors = self._errors_of(logged) if logged.before is None else logged.before
        further = super().finish(later, output)
        return self._note(logged, further, output.size - size, errors)

    def _errors_of(self, logged: LoggedRequest) -> Counter[int]:
        return Counter(self.counts.of(logged.header.api_key).errors)

    def _note(
        self,
        logged: LoggedRequest,
        later: PendingResponse | None,
        response_size: int,
        before: Counter[int],
    ) -> PendingResponse | None:
        for code, count in (self._errors_of(logged) - before).items():
            logged.errors[ErrorCode(code).name] += count
        if later is not None and not later.is_answered:
            later.logged = logged
            logged.before = before if isinstance(later, LongAnswer) else None
            return later
        answered = logged.answered(response_size, self._now_ms())
        if self._wanted.wants(answered):
            logger.info("%s", answered.message, extra={"event": answered})
        return later
