"""The output of `ottla load`: a line while it runs, and a report of what it loaded."""

from typing import TYPE_CHECKING

from ottla.cli.engines import SPARK, WITHOUT_SPARK
from ottla.cli.terminal import counted, new_table

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadReport
    from ottla.tables import Progress


SHOWN_START_S = 1.0
"""Seconds of Spark's start from which the report mentions it, if there was little to load."""


def progress_words(progress: "Progress", engine: str) -> str | None:
    """Describes what a load is doing; `None` for steps that are not shown."""
    from ottla.tables import Step

    match progress.step:
        case Step.PLANNED if progress.offset_count and engine == SPARK:
            return f"starting Spark for {counted(f'{progress.offset_count:,}', 'record')}"
        case Step.WRITING if progress.is_widening:
            rows = counted(f"{progress.offset_count:,}", "row")
            return f"rewriting {rows} of the table for int columns that become bigint"
        case Step.WRITING:
            return f"loading {counted(f'{progress.offset_count:,}', 'record')}"
        case Step.WRITTEN:
            return "checking what was written"
        case _:
            return None


def show_report(console: "Console", report: "LoadReport") -> None:
    """Prints the result: offsets for each partition, then a line with rows, time and place."""
    if report.nothing_new:
        ends = ", ".join(str(partition.until_offset) for partition in report.partitions)
        console.print(f"nothing new in {report.topic}: {report.into} has all of it (up to {ends})")
        return
    show_offsets(console, f"Loaded {report.topic}", report)
    for partition in report.partitions:
        if partition.lost is not None:
            console.print(
                f"partition {partition.partition}: offsets {partition.lost.from_offset:,} to "
                f"{partition.lost.until_offset - 1:,} were deleted before they were loaded"
            )
    if report.quarantined_count:
        console.print(quarantine_words(report))
    if report.rescued_count:
        some = f"{report.rescued_count:,} values or keys have"
        console.print(
            f"{'1 value or key has' if report.rescued_count == 1 else some} fields that the schema "
            f"does not name: _rescued beside the columns keeps them (--grow adds columns for those "
            f"in the first new records)"
        )
    console.print(summary(report))
    if report.is_short and report.start_seconds >= SHOWN_START_S:
        console.print(
            f"{report.start_seconds:.1f} s of that was spent starting Spark's JVM; {WITHOUT_SPARK}",
        )


def show_offsets(console: "Console", title: str, report: "LoadReport") -> None:
    """Prints what was read of each partition, as a table."""
    table = new_table("partition", "from offset", "to offset", "rows")
    table.title = title
    for one in report.partitions:
        table.add_row(
            str(one.partition),
            f"{one.from_offset:,}",
            f"{one.until_offset:,}",
            f"{one.row_count:,}",
        )
    console.print(table)


def commit_line(report: "LoadReport") -> str:
    """Returns the line for one commit of a series."""
    others = f", {report.quarantined_count:,} set aside" if report.quarantined_count else ""
    if report.rescued_count:
        others += f", {report.rescued_count:,} with fields that no column is named for"
    ends = ", ".join(f"{one.until_offset:,}" for one in report.partitions)
    return (
        f"{report.topic}: commit {report.commit_id}, {_counts(report)}{others} in "
        f"{report.seconds:.1f} s, up to {ends}"
    )


def quarantine_words(report: "LoadReport") -> str:
    """Says how many records could not be decoded, and where the reasons are."""
    from ottla.tables import FileRole

    paths = [file.path for file in report.files if file.role is FileRole.QUARANTINE]
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return (
        f"{counted(f'{report.quarantined_count:,}', 'record')} could not be decoded; the reasons "
        f"are in {report.into}/{paths[0]}{more}"
    )


def summary(report: "LoadReport") -> str:
    """Returns rows, time, throughput and place; the rate excludes the start of Spark."""
    from rich.filesize import decimal

    rate = ""
    if report.write_seconds:
        rate = f", {report.row_count / report.write_seconds:,.0f} rows/s while writing"
    files = counted(len({file.path for file in report.files}), "Parquet file")
    return (
        f"{_counts(report)} in {report.seconds:.1f} s{rate}; "
        f"{files} of {decimal(report.size)} in {report.into}"
    )


def _counts(report: "LoadReport") -> str:
    if report.merged is None:
        return counted(f"{report.row_count:,}", "row")
    return (
        f"{counted(f'{report.row_count:,}', 'change')} merged: "
        f"{counted(f'{report.merged.upserted:,}', 'row')} came and {report.merged.superseded:,} "
        f"went"
    )


def show_rerun(console: "Console", report: "LoadReport") -> None:
    """Prints what was read again, by partition, and what became of the files."""
    show_offsets(console, f"Reran {report.topic}", report)
    if report.quarantined_count:
        console.print(quarantine_words(report))
    copied = sum(one.copied_count for one in report.partitions)
    beside = f", {counted(f'{copied:,}', 'row')} besides them kept" if copied else ""
    console.print(
        f"{counted(f'{report.row_count:,}', 'row')} read again in {report.seconds:.1f} s{beside}; "
        f"the files before them leave with: ottla table vacuum {report.into}"
    )
