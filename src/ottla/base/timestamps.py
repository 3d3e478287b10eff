"""One reading of both clocks, passed down to code with timers and timestamps.

Deadlines are counted on the monotonic clock, so that setting the wall clock expires nobody; what is
written into records is wall time.
"""

from typing import Final

from ottla.base.values import dataclass

COME_BACK_MS: Final = 3_600_000
"""The least time left after a start to producers known before: enough to send a retry in."""


@dataclass(slots=True, init=False)
class Timestamps:
    """`now_ms` is Kafka's timestamp, `monotonic_ms` the clock that never steps.

    Not frozen, since one is made for every round.
    """

    now_ms: int
    monotonic_ms: float

    def __init__(self, *, now_ms: int, monotonic_ms: float) -> None:
        self.now_ms = now_ms
        self.monotonic_ms = monotonic_ms


def silent_since_ms(at: Timestamps, heard_ms: int, limit_ms: int) -> float:
    """When the silence began, on the monotonic clock, of one last heard of before a start.

    Only wall time, `heard_ms`, shows that, and it may have been set since, or be a client's. So it
    counts, but never so much that less than an hour is left of `limit_ms`.
    """
    most_ms = max(limit_ms - COME_BACK_MS, 0)
    return at.monotonic_ms - min(max(at.now_ms - heard_ms, 0), most_ms)
