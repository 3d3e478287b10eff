"""`ottla load --rerun`: its range, and its report."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.cli.load.text import show_offsets
from ottla.loading.rerun_plan import AtTime, Bound, RerunRange

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.loading.load import LoadReport

_PLACE = re.compile(r"\d+:\d+(,\d+:\d+)*")


def rerun_range(begin: str | None, end: str | None) -> RerunRange:
    """The two options' values; raises `UserError`."""
    return RerunRange(begin=parse_bound("--from", begin), end=parse_bound("--to", end))


def parse_bound(option: str, text: str | None) -> Bound:
    """`1200` in every partition, `0:1200,2:900` in some, or a time such as `2026-07-20T13:00`."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    if _PLACE.fullmatch(text):
        pairs = [pair.split(":") for pair in text.split(",")]
        bounds = {int(partition): int(offset) for partition, offset in pairs}
        if len(bounds) < len(pairs):
            raise UserError(f"{option} {text} names a partition twice")
        return bounds
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{option} takes an offset (1200), offsets of partitions (0:1200,2:900) or a time "
            f"(2026-07-20T13:00, UTC unless it says otherwise), not {text}"
        ) from None
    in_utc = time if time.tzinfo else time.replace(tzinfo=UTC)
    return AtTime(timestamp_ms=round(in_utc.timestamp() * 1000))


def show_rerun(console: "Console", report: "LoadReport") -> None:
    """What was read again, by partition, and what became of the files."""
    show_offsets(console, f"Reran {report.topic}", report)
    carried = sum(one.carried_count for one in report.partitions)
    beside = f", {carried:,} rows beside them kept" if carried else ""
    console.print(
        f"{report.row_count:,} rows read again in {report.seconds:.1f} s{beside}; the files that "
        f"they were in leave with: ottla table vacuum {report.into}"
    )
