"""The options of `ottla serve` for those who watch it: what it logs, and its metrics."""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import click

from ottla.base.addresses import parse_address
from ottla.base.clock import Clock
from ottla.cli.serve.metrics.serving import ServedMetrics
from ottla.cli.serve.recovery_progress import RecoveryProgress

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observing:
    """One field for each option of `observing_options`."""

    metrics: str | None
    metrics_internal: bool
    verbose: bool

    def set_up_logging(self) -> None:
        level = logging.INFO if self.verbose else logging.WARNING
        logging.basicConfig(level=level, format=LOG_FORMAT)

    def open_metrics(self, clock: Clock, progress: RecoveryProgress) -> ServedMetrics | None:
        """Raises `UserError`."""
        if self.metrics is None:
            return None
        return ServedMetrics(
            parse_address(self.metrics),
            clock,
            lambda: progress.step,
            has_internal_topics=self.metrics_internal,
        )


_OPTIONS = (
    click.option(
        "--metrics",
        metavar="HOST:PORT",
        help="Address of /metrics for Prometheus, /healthz and /readyz.",
    ),
    click.option("--metrics-internal", is_flag=True, help="Metrics of internal topics too."),
    click.option("--verbose", "-v", is_flag=True, help="Log at INFO level."),
)


def observing_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options to a command, which takes them as one parameter, `observing`."""

    @functools.wraps(command)
    def with_observing(*args: Any, **options: Any) -> None:
        given = {one.name: options.pop(one.name) for one in fields(Observing)}
        command(*args, observing=Observing(**given), **options)

    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), with_observing)
