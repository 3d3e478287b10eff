"""Wall clocks that are wrong: a trial sets the broker's, in every life of it, and clients misread
theirs. Monotonic clocks are the machine's, as they are when an administrator sets the time."""

import mmap
import random
import struct
from pathlib import Path

from ottla.base.clock import SystemClock

FAST = struct.Struct("<q")  # milliseconds that a clock is fast

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
RIGHT_SHARE = 0.2


def wrong_ms(chance: random.Random) -> int:
    """How fast a clock is, or slow if negative: minutes, hours, two days, or not at all."""
    if chance.random() < RIGHT_SHARE:
        return 0
    size_ms = MINUTE_MS * (48 * 60) ** chance.random()
    return round(chance.choice((-1, 1)) * size_ms)


class WallClock:
    """Sets the clock of whoever runs by a `SteppedClock` of the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(FAST.pack(0))

    def set(self, fast_ms: int) -> None:
        with self.path.open("r+b", buffering=0) as file:
            file.write(FAST.pack(fast_ms))


class SteppedClock:
    """The machine's clock, as fast as a `WallClock` says at the moment."""

    def __init__(self, path: Path) -> None:
        self._right = SystemClock()
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), FAST.size, access=mmap.ACCESS_READ)

    def now_ms(self) -> int:
        (fast_ms,) = FAST.unpack(self._map[:])
        return self._right.now_ms() + int(fast_ms)

    def monotonic_ms(self) -> float:
        return self._right.monotonic_ms()
