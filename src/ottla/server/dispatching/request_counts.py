"""Statistics of the requests of each API: their number, durations and errors.

The loop counts in plain integers, and the requests of one round, which came in together and whose
answers leave together, share one reading of the clock at its end. A request that came earlier, or
whose answer had to wait, is timed by itself.

Kafka's counterpart: `RequestMetrics`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from ottla.base.turns import in_turns
from ottla.protocol.api_keys import ApiKey

BOUNDS_MS: Final = (
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0,
    1000.0, 2500.0, 5000.0, 10000.0, 30000.0,
)  # fmt: skip
"""The upper bounds of the histograms' buckets; one more bucket counts longer durations."""


class Histogram:
    """A histogram of durations."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0.0

    def add(self, duration_ms: float, times: int = 1) -> None:
        self.counts[bisect_left(BOUNDS_MS, duration_ms)] += times
        self.sum_ms += duration_ms * times


class ApiCounts:
    """The requests of one API that were answered since the start.

    `durations`: from the receipt to the answer's leaving (Kafka's TotalTimeMs). `waits`: of those
    whose answer had to wait for something, how long it did (RemoteTimeMs). `queued_ms`: how long
    requests lay in the receive buffer until it was their connection's turn (RequestQueueTimeMs).
    `in_round` were answered in the round under way, and are not in the others yet.
    """

    __slots__ = ("durations", "errors", "in_round", "name", "queued_ms", "waits")

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: dict[int, int] = {}
        self.durations = Histogram()
        self.waits = Histogram()
        self.queued_ms = 0.0
        self.in_round = 0

    def take_errors(self, codes: list[int]) -> None:
        """Counts the codes, and clears the list."""
        for code in in_turns(codes):
            self.errors[code] = self.errors.get(code, 0) + 1
        codes.clear()


class RequestCounts:
    """Counts for all APIs. `in_round` are the APIs of requests answered in the current round.

    `received_ms` is when the current request was received: in this round, unless `begin_queued` was
    called for it.
    """

    __slots__ = ("_alone", "_apis", "_at_ms", "in_round", "received_ms")

    def __init__(self) -> None:
        self._apis: dict[int, ApiCounts] = {}
        self._alone: list[tuple[ApiCounts, float, int]] = []
        self._at_ms = 0.0
        self.in_round: list[ApiCounts] = []
        self.received_ms = 0.0

    def __iter__(self) -> Iterator[ApiCounts]:
        return iter(list(self._apis.values()))

    def of(self, api_key: int) -> ApiCounts:
        counts = self._apis.get(api_key)
        if counts is None:
            counts = self._apis[api_key] = ApiCounts(api_title(api_key))
        return counts

    def begin_round(self, at_ms: float) -> None:
        self._at_ms = at_ms
        self.received_ms = at_ms

    def begin_queued(self, received_ms: float) -> None:
        """The next requests were received earlier, but not read until now."""
        self.received_ms = received_ms

    def end_queued(self) -> None:
        """Requests answered since then are timed from their receipt."""
        for counts in self.in_round:
            counts.queued_ms += (self._at_ms - self.received_ms) * counts.in_round
            self._alone.append((counts, self.received_ms, counts.in_round))
            counts.in_round = 0
        self.in_round.clear()
        self.received_ms = self._at_ms

    def answered_late(self, counts: ApiCounts, received_ms: float) -> None:
        """A delayed response is ready."""
        self._alone.append((counts, received_ms, 1))

    def end_round(self, now_ms: float) -> None:
        """The responses were sent."""
        for counts in self.in_round:
            counts.durations.add(now_ms - self._at_ms, counts.in_round)
            counts.in_round = 0
        self.in_round.clear()
        if self._alone:
            for counts, received_ms, count in self._alone:
                counts.durations.add(now_ms - received_ms, count)
            self._alone = []


def api_title(api_key: int) -> str:
    """Kafka's spelling: `Produce`, `OffsetCommit`."""
    return "".join(part.capitalize() for part in ApiKey(api_key).name.split("_"))
