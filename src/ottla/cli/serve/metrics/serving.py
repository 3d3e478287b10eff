"""The metrics of one `ottla serve`, served from before the recovery of the directories until it
stops.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.base.clock import Clock
from ottla.broker.broker import Broker
from ottla.cli.metrics.families import Families
from ottla.cli.metrics.http import MetricsServer
from ottla.cli.metrics.tables import TableCollector
from ottla.cli.serve.metrics.collector import BrokerCollector, Collected
from ottla.server.network.listener import Server

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ottla.loading.follow import FollowStatus


class RecoveryCollector:
    """What is left to recover, also before there is a broker."""

    def __init__(self, left: Callable[[], Mapping[str, tuple[int, int]]]) -> None:
        self._left = left

    def collect(self) -> "Iterator[Metric]":
        families = Families()
        for directory, (logs, segments) in self._left().items():
            families.add("ottla_recovery_remaining_logs", (directory,), logs)
            families.add("ottla_recovery_remaining_segments", (directory,), segments)
        yield from families.metrics()


class ServedMetrics:
    """`progress` is the last step of the startup, which `/readyz` reports until clients are
    served.
    """

    def __init__(
        self,
        address: tuple[str, int],
        clock: Clock,
        progress: Callable[[], str],
        *,
        has_internal_topics: bool = False,
        events: Callable[[], dict[str, int]] = dict,
        left: Callable[[], Mapping[str, tuple[int, int]]] = dict,
    ) -> None:
        """`left` returns the logs and segments to recover by directory. Raises `UserError`."""
        self._clock = clock
        self._progress = progress
        self._has_internal_topics = has_internal_topics
        self._events = events
        self._started_ms = clock.monotonic_ms()
        self._of: Collected | None = None
        self._server = MetricsServer(address, self.why_not_ready)
        self._server.serve(RecoveryCollector(left))
        self.port = self._server.port
        self.close = self._server.close

    def serve(self, broker: Broker, server: Server) -> None:
        """Called when the directories are open."""
        self._of = Collected(
            broker=broker,
            server=server,
            clock=self._clock,
            lock=server.lock,
            has_internal_topics=self._has_internal_topics,
            start_s=(self._clock.monotonic_ms() - self._started_ms) / 1000,
            events=self._events,
            is_ready=lambda: self.why_not_ready() is None,
        )
        self._server.serve(BrokerCollector(self._of))

    def serve_tables(self, statuses: "Callable[[], Iterable[FollowStatus]]") -> None:
        """Adds the lag of tables that are kept fresh beside the broker."""
        self._server.serve(TableCollector(statuses, self._clock))

    def why_not_ready(self) -> str | None:
        """Why clients are not served; `None` if they are."""
        of = self._of
        if of is None:
            return self._progress() or "starting"
        if of.broker.directories.is_offline:
            return "every log directory is offline"
        if not of.server.is_serving:
            return "starting, or stopping"
        return None
