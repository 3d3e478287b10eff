"""Faults that a test injects into requests: errors, delays, closed connections."""

import threading
from collections import Counter
from typing import Any

from ottla.base.arguments import check_count, check_seconds
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError, UserError, nearest
from ottla.base.values import dataclass
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.produce import ProduceRequest
from ottla.server.dispatching.apis import APIS
from ottla.server.dispatching.dispatch import handler_of
from ottla.server.dispatching.metering import DelayedRequest
from ottla.server.dispatching.request_context import Handler, PendingResponse, RequestContext
from ottla.testing.error_responses import check_place, error_response

DROPPED = "the test closes this connection"


@dataclass(slots=True)
class Injection:
    """A fault for requests of one API; `left` is `None` for all further requests."""

    left: int | None
    error: ErrorCode | None = None
    delay_ms: float = 0.0
    is_dropped: bool = False
    is_handled: bool = False


class Injections:
    """The faults by API, and the handlers that apply them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_api: dict[ApiKey, list[Injection]] = {}
        self._counts: Counter[ApiKey] = Counter()

    def fail(self, api: str | ApiKey, error: str | ErrorCode, *, times: int | None) -> None:
        code = error if isinstance(error, ErrorCode) else _error_code(error)
        key = api_key(api)
        # Fail now rather than at the first request if there is no place for an error.
        check_place(key, APIS[key].newest)
        self._add(key, Injection(times, error=code))

    def delay(self, api: str | ApiKey, seconds: float, *, times: int | None) -> None:
        self._add(api_key(api), Injection(times, delay_ms=check_seconds(seconds) * 1000))

    def drop(self, api: str | ApiKey, *, times: int | None, is_handled: bool) -> None:
        self._add(api_key(api), Injection(times, is_dropped=True, is_handled=is_handled))

    def clear(self) -> None:
        with self._lock:
            self._by_api.clear()
            self._counts.clear()

    def count(self, api: str | ApiKey) -> int:
        return self._counts[api_key(api)]

    def _add(self, key: ApiKey, injection: Injection) -> None:
        if injection.left is not None:
            check_count(injection.left, "requests (times)", least=1)
        with self._lock:
            self._by_api.setdefault(key, []).append(injection)

    def handler_of(self, key: ApiKey) -> Handler:
        """The handler of an API, which first applies its faults."""
        handle = handler_of(key)

        # With an authorizer, some handlers also get the client's permissions as arguments.
        def injected(
            request: Any, context: RequestContext, *allowed: Any
        ) -> Message | PendingResponse | None:
            def go_on(request: Any, context: RequestContext) -> Message | PendingResponse | None:
                return handle(request, context, *allowed)

            found = self._next(key)
            if found is None:
                return go_on(request, context)
            if found.is_dropped:
                if found.is_handled:
                    go_on(request, context)
                    context.broker.appends.write_out()
                raise ProtocolError(DROPPED)
            if found.error is not None:
                if isinstance(request, ProduceRequest) and request.acks == 0:
                    return None
                return error_response(key, context.api_version, request, found.error)
            return DelayedRequest(go_on, request, context, found.delay_ms)

        return injected

    def _next(self, key: ApiKey) -> Injection | None:
        """The fault for the next request; faults are used in the order of their injection."""
        with self._lock:
            self._counts[key] += 1
            waiting = self._by_api.get(key)
            if not waiting:
                return None
            first = waiting[0]
            if first.left is not None:
                first.left -= 1
                if not first.left:
                    waiting.pop(0)
            return first


def api_key(api: str | ApiKey) -> ApiKey:
    """The API by Kafka's name in any spelling: `produce`, `ListOffsets`, `LIST_OFFSETS`."""
    if isinstance(api, ApiKey):
        found: ApiKey | None = api
    else:
        wanted = api.replace("_", "").replace("-", "").upper()
        found = next((one for one in ApiKey if one.name.replace("_", "") == wanted), None)
    if found is None or found not in APIS:
        close = nearest(str(api).upper(), (one.name for one in ApiKey if one in APIS))
        hint = f"did you mean {close[0]}?" if close else "name one such as produce or LIST_OFFSETS"
        raise UserError(f"the broker has no API {api}; {hint}")
    return found


def _error_code(name: str) -> ErrorCode:
    try:
        return ErrorCode[name.upper()]
    except KeyError:
        close = nearest(name.upper(), ErrorCode.__members__)
        hint = f"did you mean {close[0]}?" if close else "use one such as NOT_LEADER_OR_FOLLOWER"
        raise UserError(f"Kafka has no error {name}; {hint}") from None
