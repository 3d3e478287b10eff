"""Limits the replication rate of throttled replicas, of a leader and of a follower.

Only replicas in the topic's list are throttled, and only until they are in sync, so that a
reassignment leaves bandwidth to clients. Kafka's counterpart: `ReplicationQuotaManager` (KIP-73).
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.quotas.client_quotas import WindowedRate

ALL: Final = "*"


class ReplicationQuota:
    """`limit` is called each time, since administrators change it."""

    def __init__(self, limit: Callable[[], int], window_count: int, window_size_ms: int) -> None:
        self._limit = limit
        self._rate = WindowedRate(window_count, window_size_ms)

    def record(self, size: int, now_ms: float) -> None:
        self._rate.record(size, now_ms)

    def is_exceeded(self, now_ms: float) -> bool:
        return self._rate.per_second(now_ms) > self._limit()


def is_throttled(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's list (`PARTITION:BROKER`, or `*`) contains a broker's replica."""
    return bool(replicas) and (ALL in replicas or f"{partition}:{broker_id}" in replicas)
