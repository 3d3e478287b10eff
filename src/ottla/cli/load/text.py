"""What `ottla load` shows: a line while it goes on, and a report of what came of it."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadReport, Progress


class ProgressLine:
    """One line that says what is going on, while it goes on; nothing where output is no screen."""

    def __init__(self, console: "Console", topics: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
        )
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._line = self._bar.add_task(f"looking at {topics}", total=None, tasks="")
        self._stack = ExitStack()

    def __enter__(self) -> "ProgressLine":
        self._stack.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, progress: "Progress") -> None:
        from ottla.loading.load import Step

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
    if report.nothing_new:
        ends = ", ".join(str(partition.until_offset) for partition in report.partitions)
        console.print(
            f"nothing new in {report.topic}: {report.into} has all of it (up to {ends})",
            soft_wrap=True,
            highlight=False,
        )
        return
    show_offsets(console, f"Loaded {report.topic}", report)
    for partition in report.partitions:
        if partition.lost is not None:
            console.print(
                f"partition {partition.partition}: offsets {partition.lost.from_offset:,} to "
                f"{partition.lost.until_offset - 1:,} had been removed unread",
                soft_wrap=True,
            )
    if report.quarantined_count:
        console.print(aside_words(report), soft_wrap=True, highlight=False)
    console.print(summary(report), soft_wrap=True, highlight=False)


def show_offsets(console: "Console", title: str, report: "LoadReport") -> None:
    """A table of what was read of each partition."""
    from rich.table import Table

    table = Table("partition", "from offset", "to offset", "rows", title=title)
    for one in report.partitions:
        table.add_row(
            str(one.partition),
            f"{one.from_offset:,}",
            f"{one.until_offset:,}",
            f"{one.row_count:,}",
        )
    console.print(table)


def commit_line(report: "LoadReport") -> str:
    """One commit of those that follow each other."""
    aside = f", {report.quarantined_count:,} set aside" if report.quarantined_count else ""
    ends = ", ".join(f"{one.until_offset:,}" for one in report.partitions)
    return (
        f"{report.topic}: commit {report.commit_id}, {report.row_count:,} rows{aside} in "
        f"{report.seconds:.1f} s, up to {ends}"
    )


def aside_words(report: "LoadReport") -> str:
    """How many records were no rows, and where it says why."""
    from ottla.tables.manifest import FileRole

    paths = [file.path for file in report.files if file.role is FileRole.QUARANTINE]
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return (
        f"{report.quarantined_count:,} records could not be decoded and are no rows; the reasons "
        f"are in {report.into}/{paths[0]}{more}"
    )


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
