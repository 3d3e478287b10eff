"""Limits how many topics clients create implicitly, by requesting them.

A Metadata request may name 100,000 topics, and each creates directories and files. For topics above
the limit the response reports LEADER_NOT_AVAILABLE, and clients retry. Kafka limits the rate only
by a client quota (KIP-599), which is not set by default.
"""

from collections.abc import Callable

from ottla.config.broker import BrokerConfig

MINUTE_MS = 60_000.0
UNLIMITED = -1


class AutoCreation:
    """Counts the creations of one request and of one minute."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._minute_began_ms = 0.0
        self._made_in_minute = 0

    def take(self, made_in_request: int, monotonic_ms: float) -> bool:
        """Returns whether one more topic may be created, and then counts it."""
        config = self._config()
        if monotonic_ms - self._minute_began_ms >= MINUTE_MS:
            self._minute_began_ms = monotonic_ms
            self._made_in_minute = 0
        if not _is_below(made_in_request, config.max_auto_create_topics_per_request):
            return False
        if not _is_below(self._made_in_minute, config.max_auto_create_topics_per_minute):
            return False
        self._made_in_minute += 1
        return True


def _is_below(count: int, limit: int) -> bool:
    return limit == UNLIMITED or count < limit
