"""`ottla load --rerun`: its range, and its report."""

from typing import TYPE_CHECKING

from ottla.cli.load.text import show_offsets
from ottla.loading.bounds import parse_place
from ottla.loading.rerun_plan import AtTime, Bound, RerunRange
from ottla.sources.bounds import EARLIEST, LATEST, BoundKind

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadReport

MAX_OFFSET = 2**63 - 1


def rerun_range(begin: str | None, end: str | None) -> RerunRange:
    """The two options' values; raises `UserError`."""
    return RerunRange(begin=parse_bound("--from", begin), end=parse_bound("--to", end))


def parse_bound(option: str, text: str | None) -> Bound:
    """As `--from` and `--to` of a load; partitions without an offset of theirs are left alone."""
    if text is None:
        return None
    bound = parse_place(option, text, topic="")
    if bound.kind is BoundKind.TIMES:
        assert bound.for_all is not None
        return AtTime(timestamp_ms=bound.for_all)
    if bound.for_each is not None:
        return {place.partition: offset for place, offset in bound.for_each.items()}
    return {EARLIEST: 0, LATEST: MAX_OFFSET}.get(bound.for_all or 0, bound.for_all)


def show_rerun(console: "Console", report: "LoadReport") -> None:
    """What was read again, by partition, and what became of the files."""
    show_offsets(console, f"Reran {report.topic}", report)
    carried = sum(one.carried_count for one in report.partitions)
    beside = f", {carried:,} rows beside them kept" if carried else ""
    console.print(
        f"{report.row_count:,} rows read again in {report.seconds:.1f} s{beside}; the files that "
        f"they were in leave with: ottla table vacuum {report.into}"
    )
