"""`ottla table`: the commands for a table that `ottla load` filled."""

import click

from ottla.cli.main import LazyGroup

COMMANDS = {
    "files": ("ottla.cli.table.files:files_command", "List the files that are the table."),
    "read": ("ottla.cli.table.read:read_command", "Print rows."),
    "hours": ("ottla.cli.table.hours:hours_command", "Say for which hours it is complete."),
    "compact": ("ottla.cli.table.compact:compact_command", "Make few large files of many small."),
    "publish": ("ottla.cli.table.publish:publish_command", "Copy it to an object store."),
    "vacuum": ("ottla.cli.table.vacuum:vacuum_command", "Remove files that were replaced."),
}


class TableGroup(LazyGroup):
    table = COMMANDS


@click.group("table", cls=TableGroup)
def table_group() -> None:
    """Read a table that `ottla load` filled, and keep its files in order."""
