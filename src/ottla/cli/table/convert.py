"""`ottla table convert`: converts a table of the former format to a Delta table."""

import click

from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, counted


@click.command("convert", cls=ExampleCommand, examples=("ottla table convert tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@output_options()
def convert_command(path: str, output: Output) -> None:
    """Convert a table that an earlier ottla loaded to a Delta table. No row is copied. Its commits
    become entries of the ledger, and one Delta Lake commit lists its files. If a conversion is
    killed, the next one completes it.
    """
    from ottla.tables.conversion import convert

    report = convert(path)
    output.say(
        f"{report.table} is a Delta table now: {counted(report.commit_count, 'commit')}, "
        f"{counted(report.file_count, 'file')}, {counted(report.row_count, 'row')}",
        {
            "table": report.table,
            "commits": report.commit_count,
            "files": report.file_count,
            "rows": report.row_count,
        },
    )
