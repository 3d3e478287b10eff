"""`ottla status` and `ottla stop`: for the broker that runs on a data directory."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.cli.default_place import DIRECTORY
from ottla.cli.output import Output, output_options
from ottla.cli.target import check_directory
from ottla.cli.terminal import LOOK_S, ExampleCommand, parse_seconds, print_json
from ottla.storage.directory.owner_note import Owner, owner_of

EXIT_TIMED_OUT = 124
SHOWN_AFTER_S = 1.0

directory_argument = click.argument("directory", metavar="[DIR]", default=DIRECTORY)


@click.command("status", cls=ExampleCommand, examples=("ottla status", "ottla status data/ --json"))
@directory_argument
@output_options("Print addresses only.")
def status_command(directory: str, output: Output) -> None:
    """Show which process runs on the data directory DIR, and its addresses.

    For a broker that recovers its logs, and for a mirror, shows the progress. DIR is ./ottla-data
    by default. Exits with 1 if no process runs there.
    """
    owner = _owner(directory)
    if output.as_json:
        print_json(
            {
                "directory": directory,
                "is_running": owner is not None,
                "pid": owner.pid if owner else None,
                "addresses": list(owner.addresses) if owner else [],
                "command": owner.command if owner else None,
                "doing": (owner.doing or None) if owner else None,
                "tables": [_table_fields(one) for one in owner.tables] if owner else [],
            }
        )
    elif output.is_quiet:
        if owner is not None and owner.addresses:
            click.echo(",".join(owner.addresses))
    elif owner is None:
        click.echo(f"no process runs on {directory}; ottla serve {directory} starts one")
    elif owner.addresses:
        command = "ottla serve" if owner.command == "serve" else "a program with ottla.open"
        addresses = ",".join(owner.addresses)
        click.echo(f"running {addresses} pid={owner.pid} data={directory} ({command})")
        for one in owner.tables:
            click.echo(_table_line(_table_fields(one)))
    elif owner.doing:
        command = "starting" if owner.command == "serve" else f"ottla {owner.command}"
        click.echo(f"{command} pid={owner.pid} data={directory}: {owner.doing}")
    else:
        click.echo(f"in use pid={owner.pid or '?'} data={directory}; it does not listen")
    sys.exit(0 if owner is not None else 1)


@click.command("stop", cls=ExampleCommand, examples=("ottla stop", "ottla stop data/"))
@directory_argument
@click.option(
    "--timeout",
    "timeout",
    metavar="TIME",
    default="60s",
    show_default=True,
    help="Time to wait for a clean stop; the command exits with 124 when it is over.",
)
@output_options()
def stop_command(directory: str, timeout: str, output: Output) -> None:
    """Stop the `ottla serve` on the data directory DIR cleanly, and wait until it has ended.

    DIR is ./ottla-data by default. Exits with 1 if no process runs there.
    """
    patience_s = parse_seconds("--timeout", timeout)
    owner = _owner(directory)
    if owner is None:
        click.echo(f"no process runs on {directory}", err=True)
        sys.exit(1)
    if owner.command != "serve":
        raise UserError(
            f"{directory} is in use by {owner.text}, which is not ottla serve; stop that program"
        )
    with suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGTERM)
    if not _ended(directory, owner.pid, patience_s, output):
        click.echo(f"ottla: process {owner.pid} has not ended in {timeout}", err=True)
        sys.exit(EXIT_TIMED_OUT)
    output.say(
        f"stopped pid={owner.pid} data={directory}",
        {"directory": directory, "pid": owner.pid, "is_stopped": True},
    )


def _table_fields(noted: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a table that `ottla serve --table` keeps fresh."""
    is_behind = noted["lag_records"] or noted["error"] is not None
    lag_ms = SystemClock().now_ms() - noted["complete_ms"] if is_behind else 0
    return {
        "topic": noted["topic"],
        "table": noted["into"],
        "lag_records": noted["lag_records"],
        "lag_seconds": max(0, lag_ms) / 1000,
        "rows": noted["rows"],
        "error": noted["error"],
    }


def _table_line(fields: Mapping[str, Any]) -> str:
    error = "" if fields["error"] is None else f": {fields['error']}"
    return (
        f"table {fields['topic']}={fields['table']} lag={fields['lag_records']} records, "
        f"{fields['lag_seconds']:.1f} s{error}"
    )


def _owner(directory: str) -> Owner | None:
    check_directory(directory)
    return owner_of(OsFileSystem(), directory)


def _ended(directory: str, pid: int, patience_s: float, output: Output) -> bool:
    """Whether the process releases the directory in time."""
    begin = time.monotonic()
    is_said = False
    while True:
        owner = owner_of(OsFileSystem(), directory)
        if owner is None or owner.pid != pid:
            return True
        waited_s = time.monotonic() - begin
        if waited_s >= patience_s:
            return False
        if waited_s >= SHOWN_AFTER_S and not is_said:
            is_said = True
            output.remark(f"waiting for process {pid} to close its logs")
        time.sleep(LOOK_S / 2)
