"""Wraps handlers under quotas: measures what a client did, and throttles a client that is too fast.
Its response is sent at once, with the time in `throttle_time_ms`; then its connection is muted for
that time. Handlers are only wrapped while there are quotas (`Dispatcher.set_time`). Differs from
Kafka for Fetch: the response that exceeds the quota has its records, and the client waits
afterwards; it gets none only while it is over its quota, for example by another connection
meanwhile. In Kafka the response that exceeds the quota has no records.

Kafka's counterparts: `KafkaApis.handleFetchRequest`, `ClientRequestQuotaManager` (KIP-219).
"""

from collections.abc import Callable

from ottla.base.timestamps import Timestamps
from ottla.broker.quotas.throttled_clients import ThrottledClient
from ottla.codec.primitives import records_size
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.server.dispatching.request_context import Handler, PendingResponse, RequestContext

MonotonicMs = Callable[[], float]


class Held(PendingResponse):
    """A response that is sent now, or `None`; the client's next request waits."""

    __slots__ = ("response",)

    is_answered: bool = True

    def __init__(self, client: ThrottledClient, response: Message | None) -> None:
        super().__init__(client)
        self.response = response

    def finish(self, at: Timestamps) -> None:
        """The time is over, and the response was sent before."""


class DelayedRequest(PendingResponse):
    """A request that is handled after a delay, for a test."""

    __slots__ = ("_context", "_handle", "_request")

    def __init__(
        self, handle: Handler, request: Message, context: RequestContext, delay_ms: float
    ) -> None:
        until_ms = context.at.monotonic_ms + delay_ms
        super().__init__(context.broker.throttled_clients.add(until_ms))
        self._handle = handle
        self._request = request
        self._context = context

    def finish(self, at: Timestamps) -> Message | PendingResponse | None:
        return self._handle(self._request, self._context.later(at))


class MeteredResponse(PendingResponse):
    """A delayed response, which is measured when it is ready."""

    __slots__ = ("_inner", "_meter")

    def __init__(self, inner: PendingResponse, meter: "Meter") -> None:
        super().__init__(inner.pending_id)
        self.takes_long = inner.takes_long
        self._inner = inner
        self._meter = meter

    def finish(self, at: Timestamps) -> Message | PendingResponse | None:
        self._meter.resume()
        return self._meter.answered(self._inner.finish(at), at)


class Meter:
    """Measures one request of a client."""

    __slots__ = (
        "_broker",
        "_busy_ms",
        "_client_id",
        "_clock",
        "_produced_size",
        "_started_ms",
        "_user",
    )

    def __init__(
        self, context: RequestContext, clock: MonotonicMs, produced_size: int | None
    ) -> None:
        self._broker = context.broker
        self._client_id = context.client_id or ""
        self._user = context.principal.name
        self._clock = clock
        self._produced_size = produced_size
        self._busy_ms = 0.0
        self._started_ms = clock()

    def resume(self) -> None:
        self._started_ms = self._clock()

    def answered(
        self, answer: Message | PendingResponse | None, at: Timestamps
    ) -> Message | PendingResponse | None:
        """Returns the response, and how long the client must wait after it."""
        self._busy_ms += self._clock() - self._started_ms
        if isinstance(answer, PendingResponse):
            return MeteredResponse(answer, self)
        throttle_ms = self._throttle_ms(answer, at.monotonic_ms)
        if throttle_ms <= 0:
            return answer
        if answer is not None and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = throttle_ms
        throttled = self._broker.throttled_clients.add(at.monotonic_ms + throttle_ms)
        return Held(throttled, answer)

    def _throttle_ms(self, answer: Message | None, now_ms: float) -> int:
        quotas = self._broker.quotas
        throttle_ms = quotas.kept_busy(self._client_id, self._busy_ms, now_ms, self._user)
        if self._produced_size is not None:
            produced = quotas.produced(self._client_id, self._produced_size, now_ms, self._user)
            return max(throttle_ms, produced)
        if isinstance(answer, ShareFetchResponse):
            size = fetched_size(answer)
            return max(throttle_ms, quotas.fetched(self._client_id, size, now_ms, self._user))
        if isinstance(answer, FetchResponse):
            pause_ms = quotas.fetch_pause_ms(self._client_id, now_ms, self._user)
            if pause_ms > 0:
                leave_out_records(answer)
            else:
                size = fetched_size(answer)
                pause_ms = quotas.fetched(self._client_id, size, now_ms, self._user)
            return max(throttle_ms, pause_ms)
        return throttle_ms


def _is_of_follower(request: FetchRequest, context: RequestContext) -> bool:
    """Followers have their own quota, for throttled replicas (`ReplicationQuota`)."""
    if not context.broker.view.has_peers:
        return False
    state = request.replica_state
    return (request.replica_id if state is None else state.replica_id) >= 0


def metered(handle: Handler, clock: MonotonicMs) -> Handler:
    """Wraps a handler, which then works under quotas."""

    def measure(request: Message, context: RequestContext) -> Message | PendingResponse | None:
        if isinstance(request, FetchRequest) and _is_of_follower(request, context):
            return handle(request, context)
        size = produced_size(request) if isinstance(request, ProduceRequest) else None
        meter = Meter(context, clock, size)
        if isinstance(request, ShareFetchRequest):
            _limit(request, context)
        if isinstance(request, FetchRequest):
            max_size = context.broker.quotas.max_fetch_size(
                context.client_id or "", context.principal.name
            )
            if max_size is not None:
                request.max_bytes = min(request.max_bytes, max_size)
        return meter.answered(handle(request, context), context.at)

    return measure


def _limit(request: ShareFetchRequest, context: RequestContext) -> None:
    """Has a client that is over its quota get nothing: what it has acquired cannot be left out."""
    quotas, client_id, user = context.broker.quotas, context.client_id or "", context.principal.name
    max_size = quotas.max_fetch_size(client_id, user)
    if max_size is None:
        return
    request.max_bytes = min(request.max_bytes, max_size)
    if quotas.fetch_pause_ms(client_id, context.at.monotonic_ms, user) > 0:
        request.max_bytes = request.max_wait_ms = 0


def produced_size(request: ProduceRequest) -> int:
    """The bytes of all records in a request."""
    return sum(
        len(partition.records or b"")
        for topic in request.topic_data
        for partition in topic.partition_data
    )


def fetched_size(response: FetchResponse | ShareFetchResponse) -> int:
    """The bytes of all records in a response."""
    return sum(
        records_size(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )


def leave_out_records(response: FetchResponse) -> None:
    """The client repeats the request, since its offsets have not moved."""
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.records:
                partition.records = b""
