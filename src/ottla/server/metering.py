"""Handlers under quotas: what a client did is measured, and a client that is too fast is held back.

Its answer goes at once, with the time in `throttle_time_ms`; then its connection is muted for that
time. Only while there are quotas are handlers wrapped so (`Dispatcher.set_time`); otherwise none of
this is run. Differs from Kafka for Fetch: the records go with the answer, rather than none with the
answer and the same with the next; the rate comes out the same.

Kafka's counterparts: `KafkaApis.handleFetchRequest`, `ClientRequestQuotaManager` (KIP-219).
"""

from collections.abc import Callable

from ottla.broker.quotas.throttled_clients import Pause
from ottla.codec.primitives import records_size
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.server.request_context import Call, Handler, Later

MonotonicMs = Callable[[], float]


class Held(Later):
    """An answer that goes now, `None` for none at all; the client's next request waits."""

    __slots__ = ("response",)

    def __init__(self, pause: Pause, response: Message | None) -> None:
        super().__init__(pause, _nothing)
        self.response = response

    def finish(self) -> None:
        """The time is over; all was said before."""


class MeteredLater(Later):
    """An answer that comes later and is measured when it does."""

    __slots__ = ("_inner", "_meter")

    def __init__(self, inner: Later, meter: "Meter") -> None:
        super().__init__(inner.ticket, _nothing)
        self.takes_long = inner.takes_long
        self._inner = inner
        self._meter = meter

    def finish(self) -> Message | Later | None:
        self._meter.resume()
        return self._meter.answered(self._inner.finish())


class Meter:
    """Measures one request of a client."""

    __slots__ = ("_busy_ms", "_call", "_client_id", "_clock", "_produced_size", "_started_ms")

    def __init__(self, call: Call, clock: MonotonicMs, produced_size: int | None) -> None:
        self._call = call
        self._client_id = call.client_id or ""  # the call is soon another one's
        self._clock = clock
        self._produced_size = produced_size
        self._busy_ms = 0.0
        self._started_ms = clock()

    def resume(self) -> None:
        self._started_ms = self._clock()

    def answered(self, answer: Message | Later | None) -> Message | Later | None:
        """The answer, and what the client has to wait for behind it."""
        self._busy_ms += self._clock() - self._started_ms
        if isinstance(answer, Later):
            return MeteredLater(answer, self)
        throttle_ms = self._throttle_ms(answer)
        if throttle_ms <= 0:
            return answer
        if answer is not None and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = throttle_ms
        call = self._call
        return Held(call.broker.pauses.add(call.at.monotonic_ms + throttle_ms), answer)

    def _throttle_ms(self, answer: Message | None) -> int:
        quotas, now_ms = self._call.broker.quotas, self._call.at.monotonic_ms
        throttle_ms = quotas.kept_busy(self._client_id, self._busy_ms, now_ms)
        if self._produced_size is not None:
            produced = quotas.produced(self._client_id, self._produced_size, now_ms)
            return max(throttle_ms, produced)
        if isinstance(answer, FetchResponse):
            fetched = quotas.fetched(self._client_id, fetched_size(answer), now_ms)
            return max(throttle_ms, fetched)
        return throttle_ms


def _nothing(_: object) -> Message:
    raise AssertionError("`finish` is another one")


def metered(handle: Handler, clock: MonotonicMs) -> Handler:
    """A handler that does the same, under quotas."""

    def measure(request: Message, call: Call) -> Message | Later | None:
        size = produced_size(request) if isinstance(request, ProduceRequest) else None
        meter = Meter(call, clock, size)
        if isinstance(request, FetchRequest):
            max_size = call.broker.quotas.max_fetch_size(call.client_id or "")
            if max_size is not None:
                request.max_bytes = min(request.max_bytes, max_size)
        return meter.answered(handle(request, call))

    return measure


def produced_size(request: ProduceRequest) -> int:
    """The bytes of all records in a request."""
    return sum(
        len(partition.records or b"")
        for topic in request.topic_data
        for partition in topic.partition_data
    )


def fetched_size(response: FetchResponse) -> int:
    """The bytes of all records in a response."""
    return sum(
        records_size(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )
