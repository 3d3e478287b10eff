"""Repeated work that fails: when it is tried again, and whether its cause was already reported."""

from collections.abc import Hashable
from typing import Final

from ottla.base.values import dataclass

MAX_WAIT_MS: Final = 3_600_000
"""The longest wait between two attempts."""


def wait_after(failure_count: int, first_wait_ms: float) -> float:
    """How long to wait after so many consecutive failures: twice as long after each."""
    return min(first_wait_ms * float(1 << min(failure_count - 1, 20)), MAX_WAIT_MS)


@dataclass(slots=True)
class _Failing:
    cause: str
    count: int
    retry_ms: float


class Failures:
    """The work that has failed since it last succeeded, by any key; times are monotonic."""

    def __init__(self) -> None:
        self._failing: dict[Hashable, _Failing] = {}

    def note(
        self, key: Hashable, error: BaseException, now_ms: float, first_wait_ms: float
    ) -> bool:
        """Records a failure; returns whether it has another cause than the last one."""
        known = self._failing.get(key)
        cause = f"{type(error).__name__}: {error}"
        count = 1 if known is None else known.count + 1
        retry_ms = now_ms + wait_after(count, first_wait_ms)
        self._failing[key] = _Failing(cause, count, retry_ms)
        return known is None or known.cause != cause

    def retry_ms(self, key: Hashable) -> float | None:
        """When to try again; `None` for work that has not failed."""
        known = self._failing.get(key)
        return None if known is None else known.retry_ms

    def over(self, key: Hashable) -> None:
        """Records a success."""
        self._failing.pop(key, None)
