"""Markers of complete hours, for programs that wait for one: a file for each under `_ottla/hours`.

They follow from the ledger, and are written after each commit. A crash in between leaves them one
commit behind; the next writer to claim the table brings them up to date. Format page:
docs/format/table-ledger.md.
"""

import json
from collections.abc import Callable, Sequence

from ottla.tables.completeness import HOUR_MS, CompleteHour, complete_hours, hour_name
from ottla.tables.ledger_entries import LedgerEntry
from ottla.tables.store import TableStore

HOURS_DIRECTORY = "_ottla/hours"
HOUR_FORMAT = "ottla complete hour"
HOUR_VERSION = 1


def announce_hours(
    store: TableStore, entry: LedgerEntry, entries: Callable[[], Sequence[LedgerEntry]]
) -> None:
    """Writes the markers that are missing; asks for `entries` if this one may complete an hour."""
    if entry.asked_ms is None:
        return
    there = set(store.names(HOURS_DIRECTORY))
    if f"{hour_name(entry.asked_ms - HOUR_MS)}.json" in there:
        return
    for hour in complete_hours(entries()):
        name = f"{hour.name}.json"
        if name not in there:
            store.make_directories([HOURS_DIRECTORY])
            store.replace(f"{HOURS_DIRECTORY}/{name}", _marker(hour), durably=False)


def _marker(hour: CompleteHour) -> bytes:
    content = {
        "format": HOUR_FORMAT,
        "version": HOUR_VERSION,
        "hour": f"{hour.name}:00:00Z",
        "commit_id": hour.commit_id,
        "until_offsets": {str(number): end for number, end in hour.until_offsets.items()},
    }
    return (json.dumps(content) + "\n").encode()
