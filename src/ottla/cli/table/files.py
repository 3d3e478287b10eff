"""`ottla table files`: prints the paths of a table's files for another engine."""

from typing import TYPE_CHECKING

import click

from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.terminal import ExampleCommand, counted, new_console, new_table, print_json

if TYPE_CHECKING:
    from ottla.tables import DataFile


@click.command("files", cls=ExampleCommand, examples=("ottla table files tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--quarantine", is_flag=True, help="List the files of records that could not be decoded."
)
@click.option(
    "--long", "-l", "is_long", is_flag=True, help="Print a table with offsets, rows and sizes."
)
@output_options(NAMES_ONLY)
def files_command(path: str, quarantine: bool, is_long: bool, output: Output) -> None:
    """Print the paths of the table's current files, one per line.

    Engines that read Delta tables need only TABLE. Other files in the directory belong to killed
    commits, or were replaced: a reader of all files in data/ can see rows twice. With --long and
    --json, a file is listed once for each partition in it.
    """
    import ottla.table
    from ottla.tables import FileRole, Table

    role = FileRole.QUARANTINE if quarantine else FileRole.ROWS
    chosen = ottla.table.data_files(path, role)
    opened = Table(path)
    if role is FileRole.ROWS:
        opened.whole_paths()  # Who gets the paths reads whole files.
    place = opened.path
    if output.as_json:
        for file in chosen:
            print_json(_fields(place, file))
    elif is_long and not output.is_quiet:
        _show(chosen)
    else:
        output.names(f"{place}/{file.path}" for file in chosen)


def _fields(place: str, file: "DataFile") -> dict[str, object]:
    return {
        "path": f"{place}/{file.path}",
        "size": file.size,
        "row_count": file.row_count,
        "partition": file.partition,
        "first_offset": file.first_offset,
        "last_offset": file.last_offset,
        "values": dict(file.values),
    }


def _show(chosen: "list[DataFile]") -> None:
    from rich.filesize import decimal

    from ottla.tables import total_size

    shown = new_table()
    shown.add_column("partition", justify="right")
    shown.add_column("offsets", no_wrap=True)
    shown.add_column("rows", justify="right", no_wrap=True)
    shown.add_column("size", justify="right", no_wrap=True)
    shown.add_column("file", overflow="fold")
    for file in chosen:
        shown.add_row(
            str(file.partition),
            f"{file.first_offset:,} to {file.last_offset:,}",
            f"{file.row_count:,}",
            decimal(file.size),
            file.path,
        )
    rows, size = sum(file.row_count for file in chosen), total_size(chosen)
    file_count = counted(len({file.path for file in chosen}), "file")
    shown.caption = f"{file_count}, {counted(rows, 'row')}, {decimal(size)}"
    new_console().print(shown)
