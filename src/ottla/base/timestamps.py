"""A reading of both clocks, passed to code with timers and timestamps.

Deadlines use the monotonic clock, so that setting the wall clock expires nothing; timestamps in
records use the wall clock.
"""

from typing import Final

from ottla.base.values import dataclass

COME_BACK_MS: Final = 3_600_000
"""The least remaining time after a start for producers known before: enough for a retry."""


@dataclass(slots=True, init=False)
class Timestamps:
    """`now_ms` is Kafka's timestamp; `monotonic_ms` is a clock that never steps.

    Not frozen, because one is created in every round.
    """

    now_ms: int
    monotonic_ms: float

    def __init__(self, *, now_ms: int, monotonic_ms: float) -> None:
        self.now_ms = now_ms
        self.monotonic_ms = monotonic_ms


def silent_since_ms(at: Timestamps, heard_ms: int, limit_ms: int) -> float:
    """The monotonic time of a client's last sign of life, which was before the start.

    Only the wall time `heard_ms` is known, which may be a client's, and the clock may have been set
    since. So at least an hour of `limit_ms` is left, whatever `heard_ms` is.
    """
    most_ms = max(limit_ms - COME_BACK_MS, 0)
    return at.monotonic_ms - min(max(at.now_ms - heard_ms, 0), most_ms)
