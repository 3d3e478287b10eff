"""Metrics of a running broker for Prometheus, over HTTP.

`ottla serve --metrics HOST:PORT`; needs the extra `metrics`. Values are read when they are asked
for, under the broker's lock, so that serving clients costs nothing. Kafka's counterparts, by JMX:
`OfflineLogDirectoryCount`, `Size`, `uncleanable-partitions-count`, `max-dirty-percent`.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ottla.base.clock import Clock
from ottla.base.errors import UserError
from ottla.broker.broker import Broker

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class BrokerCollector:
    """A collector as `prometheus_client` takes it."""

    def __init__(self, broker: Broker, clock: Clock, lock: AbstractContextManager[object]) -> None:
        self._broker = broker
        self._clock = clock
        self._lock = lock

    def collect(self) -> Iterator["Metric"]:
        with self._lock:
            metrics = [*self._directories(), *self._logs(), *self._cleaner()]
        yield from metrics

    def _directories(self) -> Iterator["Metric"]:
        from prometheus_client.core import GaugeMetricFamily

        offline = GaugeMetricFamily(
            "ottla_log_directory_offline",
            "1 when a directory of log.dirs has failed.",
            labels=["directory"],
        )
        for directory in self._broker.directories:
            offline.add_metric([directory.path], float(directory.is_offline))
        yield offline

    def _logs(self) -> Iterator["Metric"]:
        from prometheus_client.core import GaugeMetricFamily

        labels = ["topic", "partition"]
        size = GaugeMetricFamily("ottla_log_size_bytes", "Bytes in all segments.", labels=labels)
        start = GaugeMetricFamily("ottla_log_start_offset", "The first offset.", labels=labels)
        end = GaugeMetricFamily("ottla_log_end_offset", "The next offset.", labels=labels)
        for topic in self._broker.topics:
            for index, partition in sorted(topic.partitions.items()):
                names = [topic.name, str(index)]
                size.add_metric(names, partition.log.size)
                start.add_metric(names, partition.log.log_start_offset)
                end.add_metric(names, partition.log.log_end_offset)
        yield from (size, start, end)

    def _cleaner(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        cleaner, labels = self._broker.cleaner, ["topic", "partition"]
        ratio = GaugeMetricFamily(
            "ottla_cleaner_dirty_ratio", "The share not compacted yet.", labels=labels
        )
        for (topic, index), one in cleaner.ranges(self._clock.now_ms()).items():
            ratio.add_metric([topic, str(index)], one.ratio)
        failing = GaugeMetricFamily(
            "ottla_cleaner_failures_in_a_row", "Passes that failed, one after another.",
            labels=labels,
        )  # fmt: skip
        damaged = GaugeMetricFamily(
            "ottla_cleaner_damaged_segments", "Segments set aside, unreadable.", labels=labels
        )
        for (topic, index), trouble in sorted(cleaner.troubles.items()):
            failing.add_metric([topic, str(index)], trouble.failure_count)
            damaged.add_metric([topic, str(index)], len(trouble.damaged))
        yield from (ratio, failing, damaged)
        totals = cleaner.totals
        for name, text, value in (
            ("passes", "Passes that ended well.", totals.passes),
            ("failures", "Passes that failed.", totals.failures),
            ("bytes_read", "Bytes read of logs.", totals.bytes_read),
            ("bytes_written", "Bytes kept of them.", totals.bytes_written),
        ):
            yield CounterMetricFamily(f"ottla_cleaner_{name}", text, value=value)


class MetricsServer:
    """Answers `GET /metrics` from a thread of its own until `close`."""

    def __init__(self, collector: BrokerCollector, address: tuple[str, int]) -> None:
        """Raises `UserError` when the extra is missing or the address cannot be had."""
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise UserError(
                "--metrics needs prometheus-client: pip install 'ottla[metrics]'"
            ) from error
        registry = CollectorRegistry()
        registry.register(collector)
        host, port = address
        try:
            started: Any = start_http_server(port, host, registry)
        except OSError as error:
            raise UserError(f"--metrics {host}:{port}: {error.strerror}") from error
        self._server, self._thread = started
        self.port: int = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        assert isinstance(self._thread, threading.Thread)
        self._thread.join()
