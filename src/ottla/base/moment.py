"""One reading of both clocks, as a shell hands it down to what has timers and writes times.

Deadlines are counted on the monotonic clock, so that setting the wall clock expires nobody; what is
written into records is wall time.
"""

from dataclasses import dataclass

COME_BACK_MS = 3_600_000
"""What is left, behind a start, to whoever was heard of before: enough to send a retry in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`now_ms` is Kafka's timestamp, `monotonic_ms` the clock that never steps."""

    now_ms: int
    monotonic_ms: float


def silent_since_ms(at: Moment, heard_ms: int, limit_ms: int) -> float:
    """When the silence began, on the monotonic clock, of one last heard of before a start.

    Only wall time, `heard_ms`, tells that, and it may have been set since, or be a client's. So it
    counts, but never so much that less than an hour is left of `limit_ms`.
    """
    most_ms = max(limit_ms - COME_BACK_MS, 0)
    return at.monotonic_ms - min(max(at.now_ms - heard_ms, 0), most_ms)
