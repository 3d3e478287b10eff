"""Samples by metric, in the form that `prometheus_client` writes out.

Writing 10,000 partitions takes a few tenths of a second of processor time in the scrape's thread,
which the interpreter would take from the event loop in slices of 5 ms. So the samples are passed on
in portions of less than 1 ms, with a pause between them in which the loop runs.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from ottla.cli.metrics.kinds import Kind, MetricName
from ottla.cli.metrics.names import METRICS
from ottla.server.dispatching.request_counts import BOUNDS_MS, Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PIECE = 100
PAUSE_S = 0.0005

Row = tuple[str, tuple[str, ...], float]
"""The suffix of a sample's name, its labels' values, and its value."""


class Families:
    """The samples of one scrape."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        suffix = "_total" if METRICS[name].kind is Kind.COUNTER else ""
        self._rows.setdefault(name, []).append((suffix, labels, value))

    def add_histogram(self, name: str, label: str, histogram: Histogram) -> None:
        rows = self._rows.setdefault(name, [])
        total = 0
        for bound_ms, count in zip((*BOUNDS_MS, None), histogram.counts, strict=True):
            total += count
            bound = "+Inf" if bound_ms is None else str(bound_ms / 1000)
            rows.append(("_bucket", (label, bound), total))
        rows.append(("_count", (label,), total))
        rows.append(("_sum", (label,), histogram.sum_ms / 1000))

    def metrics(self) -> Iterator["Metric"]:
        """Yields all of them, in the order of the table; each can be iterated once."""
        from prometheus_client.core import Metric

        for name, rows in self._rows.items():
            known = METRICS[name]
            metric = Metric(name, known.text, known.kind.value)
            metric.samples = cast(Any, _samples(known, rows))
            yield metric


def _samples(known: MetricName, rows: Sequence[Row]) -> Iterator[Any]:
    from prometheus_client.samples import Sample

    for number, (suffix, values, value) in enumerate(rows, 1):
        names = (*known.labels, "le") if suffix == "_bucket" else known.labels
        yield Sample(known.name + suffix, dict(zip(names, values, strict=True)), value)
        if number % PIECE == 0:
            time.sleep(PAUSE_S)
