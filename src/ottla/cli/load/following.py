"""`ottla load --follow`: what it prints and exports while tables are kept fresh."""

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ottla.base.addresses import parse_address
from ottla.base.clock import SystemClock
from ottla.cli.endings import EXIT_FAILED
from ottla.cli.load.objects import report_object, status_object
from ottla.cli.load.options import follow_rule
from ottla.cli.load.text import commit_line
from ottla.cli.output import Output
from ottla.cli.settings_files import read_client_settings
from ottla.cli.terminal import Stopping, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.client.administration.admin import Admin
    from ottla.loading.follow import Follower, FollowStatus
    from ottla.loading.job import LoadJob, LoadRoute

Routes = Callable[[], "list[LoadRoute]"]


def run_follower(
    console: "Console",
    routes: Routes,
    open_job: "Callable[[LoadRoute], LoadJob]",
    given: Mapping[str, Any],
    output: Output,
) -> None:
    """Runs until a signal stops it; exits with 1 if a table then lacks records that could not be
    loaded.
    """
    from ottla.loading.follow import Follower, Wanted

    watcher = _Watcher(output)
    leadership = Leadership(given["with_leader"], given["source_config"])

    def wanted(route: "LoadRoute") -> Wanted:
        return Wanted(route, lambda: open_job(route), lambda: leadership.is_ours(route))

    follower = Follower(
        lambda: [wanted(one) for one in routes()], follow_rule(given), on_status=watcher.see
    )
    with ExitStack() as stack:
        stack.callback(leadership.close)
        stop = stack.enter_context(Stopping())
        if given["until_eof"]:
            threading.Thread(target=_stop_at_eof, args=(stop,), daemon=True).start()
        if given["metrics"] is not None:
            stack.callback(_serve_metrics(given["metrics"], follower, watcher))
        for report in follower.run(stop):
            if output.as_json:
                print_json(report_object(report))
            else:
                console.print(commit_line(report))
    failed = [one for one in follower.statuses() if one.error is not None]
    for one in failed:
        click.echo(f"ottla: {one.topic} is not loaded to its end: {one.error}", err=True)
    if failed:
        sys.exit(EXIT_FAILED)
    if not output.as_json:
        console.print("stopped: everything appended so far is loaded")


class Leadership:
    """Whether this broker leads the first partition of a topic; without a broker every topic is
    ours.

    This way one broker of a cluster keeps a topic's table. A broker that still believes to lead
    does no harm: the table's claim, or its log, refuses the second writer. All tables are checked
    over one connection, until it fails or the client's settings change, such as its password.
    """

    def __init__(self, broker: int | None, settings_file: str | None) -> None:
        self._broker = broker
        self._settings_file = settings_file
        self._connected: tuple[str, dict[str, str]] | None = None
        self._admin: Admin | None = None

    def is_ours(self, route: "LoadRoute") -> bool:
        """Raises `UserError`, `ApiError` or `OSError`."""
        from ottla.base.errors import UnknownNameError

        if self._broker is None:
            return True
        try:
            (topic,) = self._connect(route.source).describe_topics([route.topic])
        except UnknownNameError:
            return False
        except BaseException:
            self.close()
            raise
        return any(one.leader == self._broker for one in topic.partitions if one.partition == 0)

    def _connect(self, source: str) -> "Admin":
        from ottla.client.administration.admin import Admin

        wanted = source, read_client_settings(self._settings_file)
        if self._admin is None or self._connected != wanted:
            self.close()
            self._admin, self._connected = Admin(*wanted), wanted
        return self._admin

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


def _stop_at_eof(stop: Stopping) -> None:
    """Stops when the process that started this one is gone, or closes its input."""
    sys.stdin.read()
    stop.set()


class _Watcher:
    """Reports changes: each new error on standard error, and the lag as JSON if requested."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._clock = SystemClock()
        self._seen: dict[str, FollowStatus] = {}
        self.is_ready = False

    def see(self, status: "FollowStatus") -> None:
        before = self._seen.get(status.into)
        self._seen[status.into] = status
        self.is_ready = True
        if status.error is not None and (before is None or before.error != status.error):
            click.echo(f"{status.topic}: {status.error}; it is tried again", err=True)
        if before is not None and before.error is not None and status.error is None:
            self._output.remark(f"{status.topic}: it is loaded now")
        if self._output.as_json and (before is None or _reported(before) != _reported(status)):
            print_json(status_object(status, self._clock.now_ms()))


def _reported(status: "FollowStatus") -> tuple[object, ...]:
    """Returns the fields whose change is reported; a look without new records is not."""
    return status.lag_records, status.commits, status.errors, status.error, status.is_elsewhere


def _serve_metrics(address: str, follower: "Follower", watcher: _Watcher) -> Callable[[], None]:
    """Serves metrics, and returns a function that ends it; raises `UserError`."""
    from ottla.cli.metrics.http import MetricsServer
    from ottla.cli.metrics.tables import TableCollector

    def why_not_ready() -> str | None:
        return None if watcher.is_ready else "the tables are opened"

    server = MetricsServer(parse_address(address), why_not_ready)
    server.serve(TableCollector(follower.statuses, SystemClock()))
    return server.close
