"""The report of `ottla load --rerun`."""

from typing import TYPE_CHECKING

from ottla.cli.load.text import show_offsets
from ottla.cli.terminal import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadReport


def show_rerun(console: "Console", report: "LoadReport") -> None:
    """Prints what was read again, by partition, and what became of the files."""
    show_offsets(console, f"Reran {report.topic}", report)
    carried = sum(one.carried_count for one in report.partitions)
    beside = f", {counted(f'{carried:,}', 'row')} besides them kept" if carried else ""
    console.print(
        f"{counted(f'{report.row_count:,}', 'row')} read again in {report.seconds:.1f} s{beside}; "
        f"the files before them leave with: ottla table vacuum {report.into}"
    )
