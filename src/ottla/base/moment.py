"""One reading of both clocks, as a shell hands it down to what has timers and writes times.

Deadlines are counted on the monotonic clock, so that setting the wall clock expires nobody; what is
written into records is wall time.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`now_ms` is Kafka's timestamp, `monotonic_ms` the clock that never steps."""

    now_ms: int
    monotonic_ms: float
