"""The report of `ottla load --rerun`."""

from typing import TYPE_CHECKING

from ottla.cli.load.text import show_offsets

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadReport


def show_rerun(console: "Console", report: "LoadReport") -> None:
    """What was read again, by partition, and what became of the files."""
    show_offsets(console, f"Reran {report.topic}", report)
    carried = sum(one.carried_count for one in report.partitions)
    beside = f", {carried:,} rows beside them kept" if carried else ""
    console.print(
        f"{report.row_count:,} rows read again in {report.seconds:.1f} s{beside}; the files that "
        f"they were in leave with: ottla table vacuum {report.into}"
    )
