"""The options of `ottla serve` for monitoring: its log, and its metrics."""

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from ottla.base.addresses import parse_address
from ottla.base.values import dataclass
from ottla.cli.serve.log_formats import set_up_logging

if TYPE_CHECKING:
    from contextlib import ExitStack

    from ottla.base.clock import Clock
    from ottla.broker.broker import Broker
    from ottla.cli.serve.metrics.serving import ServedMetrics
    from ottla.cli.serve.recovery_progress import RecoveryProgress
    from ottla.config.listeners import Listener
    from ottla.runtime.event_log import EventLog
    from ottla.server.network.listener import Server

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observing:
    """One field for each option of `observing_options`."""

    metrics: str | None
    metrics_internal: bool
    console: str | None
    console_read_only: bool
    verbose: int
    quiet: bool
    log_format: str
    log_requests: str | None

    def set_up_logging(self) -> None:
        """Raises `UserError` for an invalid filter of requests."""
        if self.console is not None:
            from ottla.cli.serve.console import check_console

            check_console(self.console)
        if self.log_requests:
            from ottla.server.dispatching.request_log import parse_filter

            parse_filter(self.log_requests)
        set_up_logging(-1 if self.quiet else self.verbose, as_json=self.log_format == "json")

    def observe(self, broker: "Broker", server: "Server", events: "EventLog") -> None:
        """Logs the state of the directories, and starts what the options ask for."""
        for directory in broker.directories.online:
            how = "stopped cleanly before" if directory.was_clean_stop else "recovered"
            logger.info("%s: %d logs, %s", directory.path, len(directory.logs), how)
        if self.log_requests is not None:
            from ottla.server.dispatching.request_log import parse_filter

            server.log_requests(parse_filter(self.log_requests))
            logging.getLogger("ottla.requests").setLevel(logging.INFO)
        events.start(lambda: _job_totals(broker, server))

    def open_console(
        self,
        stack: "ExitStack",
        listeners: "Sequence[Listener]",
        addresses: Sequence[tuple[str, int]],
    ) -> None:
        """Runs it, if it is asked for, until the stack is closed; raises `UserError`."""
        if self.console is None:
            return
        from ottla.cli.serve.console import ConsoleProcess

        read_only = self.console_read_only
        console = ConsoleProcess(self.console, listeners, addresses, is_read_only=read_only)
        stack.callback(console.close)

    def open_metrics(
        self, clock: "Clock", progress: "RecoveryProgress", events: "EventLog"
    ) -> "ServedMetrics | None":
        """Raises `UserError`."""
        if self.metrics is None:
            return None
        from ottla.cli.serve.metrics.serving import ServedMetrics

        return ServedMetrics(
            parse_address(self.metrics),
            clock,
            lambda: progress.step,
            has_internal_topics=self.metrics_internal,
            events=lambda: dict(events.counts),
            left=lambda: dict(progress.left),
        )


CONSOLE_ADDRESS = "127.0.0.1:8095"

_OPTIONS = (
    click.option(
        "--metrics",
        metavar="HOST:PORT",
        help="Address of /metrics for Prometheus, /healthz and /readyz.",
    ),
    click.option(
        "--console",
        is_flag=False,
        flag_value=CONSOLE_ADDRESS,
        metavar="[HOST:PORT]",
        help=f"Show the broker in a browser, at {CONSOLE_ADDRESS} by default; see ottla console.",
    ),
    click.option("--console-read-only", is_flag=True, help="Let the console change nothing."),
    click.option(
        "--metrics-internal", is_flag=True, help="Also export metrics of internal topics."
    ),
    click.option("--verbose", "-v", count=True, help="Log at INFO level; -vv: at DEBUG level."),
    click.option("--quiet", "-q", is_flag=True, help="Log errors only."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Log lines for people, or a JSON object each.",
    ),
    click.option(
        "--log-requests",
        is_flag=False,
        flag_value="",
        metavar="FILTER",
        help="Log answered requests: all by default, or those that match a filter such as "
        "Fetch,Produce,client=app*,slower=100,errors.",
    ),
)


def observing_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options to a command, which takes them as one parameter, `observing`."""

    @functools.wraps(command)
    def with_observing(*args: Any, **options: Any) -> None:
        given = {one.name: options.pop(one.name) for one in fields(Observing)}
        command(*args, observing=Observing(**given), **options)

    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), with_observing)


def _job_totals(broker: "Broker", server: "Server") -> dict[str, int]:
    """The totals that are logged in addition to events."""
    with server.lock:
        logs = [log for one in broker.directories for log in one.logs.values()]
        going = broker.log_jobs.retention.totals
        return {
            "segments rolled": sum(log.roll_count for log in logs),
            "segments deleted": going.segments.total(),
            "bytes deleted": going.bytes.total(),
        }
