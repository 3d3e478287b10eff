"""Clients that are throttled because they exceeded their quota.

Kafka's counterparts: `ThrottledChannel` and its `ThrottledChannelReaper`.
"""

from ottla.base.timers import AllTimers, Timers
from ottla.broker.waiting.rooms import Waiting


class ThrottledClient(Waiting[None]):
    """One client, until its throttle time ends."""


class ThrottledClients:
    """All throttled clients, including those that have disconnected since."""

    def __init__(self, timers: AllTimers) -> None:
        self._until: Timers[ThrottledClient] = timers.new_room()
        self.total = 0
        """The number of throttles since the start."""

    def __len__(self) -> int:
        return len(self._until)

    def add(self, until_ms: float) -> ThrottledClient:
        """Throttles a client until a time on the monotonic clock."""
        client = ThrottledClient()
        self.total += 1
        self._until.set(client, until_ms)
        return client

    def take_over(self, monotonic_ms: float) -> list[ThrottledClient]:
        """Returns the clients whose throttle time has ended."""
        return self._until.take_all_due(monotonic_ms)
