"""`ottla table hours`: lists the hours for which a table is complete."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.terminal import ExampleCommand, new_console, new_table, print_json

if TYPE_CHECKING:
    from ottla.tables import CompleteHour

EXIT_INCOMPLETE = 1
HOURS_SHOWN = 24


@click.command("hours", cls=ExampleCommand, examples=("ottla table hours tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--hour", metavar="2026-07-20T13", help="Exit with 0 if this hour (UTC) is complete, else 1."
)
@output_options(NAMES_ONLY)
def hours_command(path: str, hour: str | None, output: Output) -> None:
    """List the hours for which the table has every record that was appended.

    Each complete hour also has a file in _ottla/hours, for programs that wait for it.
    """
    import ottla.table

    hours = ottla.table.complete_hours(path)
    if hour is not None:
        _answer(hour, hours, output)
    elif output.as_json:
        for one in hours:
            print_json(_fields(one))
    elif output.is_quiet:
        output.names(one.name for one in hours)
    elif hours:
        _show(hours)
    else:
        click.echo("no hour is complete yet: no load has reached the log's end")


def _answer(wanted: str, hours: "list[CompleteHour]", output: Output) -> None:
    try:
        asked = datetime.strptime(wanted, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    except ValueError:
        raise UserError(f"--hour takes an hour such as 2026-07-20T13, not {wanted}") from None
    is_complete = bool(hours) and asked.timestamp() * 1000 <= hours[-1].start_ms
    output.say(
        f"{wanted} is {'complete' if is_complete else 'NOT complete'}",
        {"hour": f"{wanted}:00:00Z", "is_complete": is_complete},
    )
    if not is_complete:
        sys.exit(EXIT_INCOMPLETE)


def _fields(hour: "CompleteHour") -> dict[str, object]:
    return {
        "hour": f"{hour.name}:00:00Z",
        "commit_id": hour.commit_id,
        "until_offsets": {str(number): end for number, end in hour.until_offsets.items()},
    }


def _show(hours: "list[CompleteHour]") -> None:
    shown = new_table("hour (UTC)", "complete up to offsets", "by commit")
    for one in hours[-HOURS_SHOWN:]:
        ends = ", ".join(f"{number}: {end:,}" for number, end in sorted(one.until_offsets.items()))
        shown.add_row(one.name, ends, str(one.commit_id))
    shown.caption = "and all hours before the first"
    new_console().print(shown)
