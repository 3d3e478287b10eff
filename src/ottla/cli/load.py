"""`ottla load`: what is new in a topic, into a directory of Parquet files, with Spark."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import ApiError, CorruptionError, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.spark.load import LoadReport, Progress


@click.command("load")
@click.argument("source", metavar="DIR-OR-BOOTSTRAP")
@click.option("--topic", "-t", required=True, help="What to load.")
@click.option(
    "--into",
    required=True,
    type=click.Path(file_okay=False),
    metavar="PATH",
    help="The table's directory; made when it is not there.",
)
@click.option(
    "--allow-gaps",
    is_flag=True,
    help="Load on although retention removed records unread; the table's manifest names them.",
)
@click.option(
    "--rerun",
    is_flag=True,
    help="Read again what the table has, from --from up to --to, and put it in its rows' place.",
)
@click.option(
    "--from",
    "begin",
    metavar="OFFSET|P:OFFSET,...|TIME",
    help="Where a rerun begins: 1200 in every partition, 0:1200,2:900, or 2026-07-20T13:00 (UTC).",
)
@click.option("--to", "end", metavar="OFFSET|...", help="Where it ends; itself not read again.")
@click.option("--min-partitions", type=click.IntRange(min=1), help="At least so many Spark tasks.")
def load_command(source: str, topic: str, into: str, **given: Any) -> None:
    """Load what is new in a topic into Parquet, each record exactly once.

    DIR-OR-BOOTSTRAP is a data directory, read directly, or HOST:PORT of a Kafka broker. Run it
    again to load what has come since; a load that was killed leaves the table as it was.

    With --rerun, what is loaded already is read again, all of it or a range. Readers see the old
    rows or the new ones, never both.
    """
    from rich.console import Console

    from ottla.cli.rerun import rerun_range, show_rerun
    from ottla.spark.load import LoadOptions, LoadPlace, load
    from ottla.spark.parquet_job import TaskError
    from ottla.spark.rerun import rerun
    from ottla.spark.session import SessionSettings

    console = Console()
    options = LoadOptions(
        allow_gaps=given["allow_gaps"],
        min_partitions=given["min_partitions"],
        # What goes wrong in a task is told in one line, by us.
        session=SessionSettings(log_level="OFF"),
    )
    try:
        with ProgressLine(console, topic) as line:
            if given["rerun"]:
                wanted = rerun_range(given["begin"], given["end"])
                again = rerun(
                    LoadPlace(source, topic, into), wanted, progress=line.show, options=options
                )
            else:
                _refuse_range(given)
                report = load(source, topic, into, progress=line.show, options=options)
    except (ApiError, CorruptionError, TaskError) as error:
        raise click.ClickException(str(error)) from error
    if given["rerun"]:
        show_rerun(console, again)
    else:
        show_report(console, report)


def _refuse_range(given: dict[str, Any]) -> None:
    if given["begin"] is not None or given["end"] is not None:
        raise UserError("--from and --to belong to --rerun; a load begins where the last one ended")


class ProgressLine:
    """One line that says what is going on, while it goes on; nothing where output is no screen."""

    def __init__(self, console: "Console", topic: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
        )
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._line = self._bar.add_task(f"looking at {topic}", total=None, tasks="")
        self._stack = ExitStack()

    def __enter__(self) -> "ProgressLine":
        self._stack.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, progress: "Progress") -> None:
        from ottla.spark.load import Step

        match progress.step:
            case Step.PLANNED if progress.offset_count:
                self._say(f"starting Spark for {progress.offset_count:,} records")
            case Step.WRITING:
                self._say(f"loading {progress.offset_count:,} records", progress)
            case Step.WRITTEN:
                self._say("checking what was written")
            case _:
                pass

    def _say(self, words: str, progress: "Progress | None" = None) -> None:
        changes: dict[str, Any] = {"description": words, "total": None, "tasks": ""}
        if progress is not None and progress.task_count:
            changes["total"] = progress.task_count
            changes["completed"] = progress.tasks_done
            changes["tasks"] = f"{progress.tasks_done}/{progress.task_count} tasks"
        self._bar.update(self._line, **changes)


def show_report(console: "Console", report: "LoadReport") -> None:
    """What came of it: offsets for each partition, then rows, time and place in a line."""
    from rich.table import Table

    if report.nothing_new:
        ends = ", ".join(str(partition.until_offset) for partition in report.partitions)
        console.print(
            f"nothing new in {report.topic}: {report.into} has all of it (up to {ends})",
            soft_wrap=True,
            highlight=False,
        )
        return
    table = Table("partition", "from offset", "to offset", "rows", title=f"Loaded {report.topic}")
    for partition in report.partitions:
        table.add_row(
            str(partition.partition),
            f"{partition.from_offset:,}",
            f"{partition.until_offset:,}",
            f"{partition.row_count:,}",
        )
    console.print(table)
    for partition in report.partitions:
        if partition.lost is not None:
            console.print(
                f"partition {partition.partition}: offsets {partition.lost.from_offset:,} to "
                f"{partition.lost.until_offset - 1:,} had been removed unread",
                soft_wrap=True,
            )
    console.print(summary(report), soft_wrap=True, highlight=False)


def summary(report: "LoadReport") -> str:
    """Rows, time, throughput and place. The rate is that of reading and writing, not of starting
    Spark."""
    from rich.filesize import decimal

    files = "1 Parquet file" if len(report.files) == 1 else f"{len(report.files)} Parquet files"
    rate = ""
    if report.write_seconds:
        rate = f", {report.row_count / report.write_seconds:,.0f} rows/s while writing"
    return (
        f"{report.row_count:,} rows in {report.seconds:.1f} s{rate}; "
        f"{files} of {decimal(report.size)} in {report.into}"
    )
