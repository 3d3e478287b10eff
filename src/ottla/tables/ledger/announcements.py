"""Marker files of complete hours in `_ottla/hours`, for programs that wait for an hour.

They are derived from the ledger and written after each commit. After a crash in between, the
markers lack one commit; the next writer to claim the table adds them. Format page:
docs/format/table-ledger.md.
"""

import json
from collections.abc import Callable, Sequence

from ottla.tables.entries import LedgerEntry
from ottla.tables.ledger.completeness import HOUR_MS, CompleteHour, complete_hours, hour_name
from ottla.tables.stores.store import TableStore

HOURS_DIRECTORY = "_ottla/hours"
HOUR_FORMAT = "ottla complete hour"
HOUR_VERSION = 1


def announce_hours(
    store: TableStore, entry: LedgerEntry, entries: Callable[[], Sequence[LedgerEntry]]
) -> None:
    """Writes missing markers; calls `entries` if this entry may complete an hour."""
    if entry.asked_ms is None:
        return
    there = set(store.names(HOURS_DIRECTORY))
    if f"{hour_name(entry.asked_ms - HOUR_MS)}.json" in there:
        return
    for hour in complete_hours(entries()):
        name = f"{hour.name}.json"
        if name not in there:
            store.make_directories([HOURS_DIRECTORY])
            store.put(f"{HOURS_DIRECTORY}/{name}", _marker(hour), durably=False)


def _marker(hour: CompleteHour) -> bytes:
    content = {
        "format": HOUR_FORMAT,
        "version": HOUR_VERSION,
        "hour": f"{hour.name}:00:00Z",
        "commit_id": hour.commit_id,
        "until_offsets": {str(number): end for number, end in hour.until_offsets.items()},
    }
    return (json.dumps(content) + "\n").encode()
