"""`ottla table optimize`: merges small files into few large ones."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.engines import SPARK, engine_option, open_engine, quicken
from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, parse_size, progress_line

if TYPE_CHECKING:
    from ottla.tables import OptimizeReport, Progress


@click.command("optimize", cls=ExampleCommand, examples=("ottla table optimize tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--target-size",
    default="128Mi",
    show_default=True,
    metavar="SIZE",
    help="Target size of the merged files.",
)
@click.option(
    "--sort-by",
    type=click.Choice(["key", "timestamp"]),
    help="Sort the rows of each partition, so that readers can skip files by their bounds.",
)
@engine_option
@output_options()
def optimize_command(path: str, engine: str, output: Output, **given: Any) -> None:
    """Merge the small files of a table, or sort its rows. Rows and their offsets do not change.

    Readers see the old files or the new ones, never both; an optimization that is killed leaves the
    table unchanged. Remove the old files with: ottla table vacuum.
    """
    quicken(engine)
    from ottla.tables import OptimizeOptions, SortColumn, optimize

    options = OptimizeOptions(
        target_size=parse_size("--target-size", given["target_size"]),
        sort_by=None if given["sort_by"] is None else SortColumn(given["sort_by"]),
    )
    with (
        progress_line("looking at the table's files", is_shown=not output.is_quiet) as line,
        open_engine(engine) as opened,
    ):

        def show(progress: "Progress") -> None:
            line.say(_words(progress, engine), progress.tasks_done, progress.task_count)

        report = optimize(path, opened, show, options)
    output.say(_text(report), _fields(report))


def _fields(report: "OptimizeReport") -> dict[str, object]:
    from ottla.tables import total_size

    return {
        "table": report.table,
        "commit": report.commit_id,
        "rows": sum(file.row_count for file in report.after),
        "files_before": len({file.path for file in report.before}),
        "bytes_before": total_size(report.before),
        "files_after": len({file.path for file in report.after}),
        "bytes_after": total_size(report.after),
        "seconds": round(report.seconds, 3),
    }


def _words(progress: "Progress", engine: str) -> str:
    from ottla.tables import Step

    match progress.step:
        case Step.CLAIMED:
            return "looking at the table's files"
        case Step.PLANNED if engine == SPARK:
            return f"starting Spark for {progress.offset_count:,} rows"
        case Step.PLANNED | Step.WRITING:
            return f"merging {progress.offset_count:,} rows"
        case _:
            return "checking what was written"


def _text(report: "OptimizeReport") -> str:
    from rich.filesize import decimal

    from ottla.tables import total_size

    if report.commit_id is None:
        return f"nothing to do: {report.table} has no files to merge or sort"
    rows = sum(file.row_count for file in report.after)
    before, after = (total_size(some) for some in (report.before, report.after))
    return (
        f"{len({file.path for file in report.before})} files of {decimal(before)} are "
        f"{len({file.path for file in report.after})} of "
        f"{decimal(after)} now, {rows:,} rows, in {report.seconds:.1f} s; the old ones leave "
        f"with: ottla table vacuum {report.table}"
    )
