"""`ottla table convert`: a table of the former format as a Delta table."""

import click

from ottla.cli.terminal import ExampleCommand, counted


@click.command("convert", cls=ExampleCommand, examples=("ottla table convert tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
def convert_command(path: str) -> None:
    """Make a Delta table of a table that an earlier ottla loaded. No row is copied.

    Its commits become the ledger's entries, and one commit of Delta Lake names its files. A
    conversion that is killed is completed by the next one.
    """
    from ottla.tables.conversion import convert

    report = convert(path)
    click.echo(
        f"{report.table} is a Delta table now: {counted(report.commit_count, 'commit')}, "
        f"{counted(report.file_count, 'file')}, {counted(report.row_count, 'row')}"
    )
