"""The metrics of tables that are followed, by `ottla load --follow` or beside a broker."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.base.clock import Clock
from ottla.cli.metrics.families import Families

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ottla.loading.follow import FollowStatus


class TableCollector:
    """A collector for `prometheus_client`; `statuses` is called in the scrape's thread."""

    def __init__(self, statuses: "Callable[[], Iterable[FollowStatus]]", clock: Clock) -> None:
        self._statuses = statuses
        self._clock = clock

    def collect(self) -> Iterator["Metric"]:
        families = Families()
        now_ms = self._clock.now_ms()
        for one in self._statuses():
            labels = (one.topic, one.into)
            families.add("ottla_table_lag_records", labels, one.lag_records)
            families.add("ottla_table_lag_seconds", labels, one.lag_s(now_ms))
            families.add("ottla_table_up", labels, one.error is None)
            families.add("ottla_table_commits", labels, one.commits)
            families.add("ottla_table_rows", labels, one.rows)
            families.add("ottla_table_errors", labels, one.errors)
        yield from families.metrics()
