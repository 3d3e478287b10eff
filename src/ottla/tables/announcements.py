"""What is written beside the manifest for readers that do not know it: a list, and hour markers.

Both follow from the manifest, and are written after each commit. A crash in between leaves them one
commit behind, which is a whole and true picture too; the next writer to claim the table brings them
up to date. Format page: docs/format/load-manifest.md.
"""

import json
from collections.abc import Iterable, Sequence

from ottla.tables.completeness import CompleteHour, complete_hours
from ottla.tables.manifest import DataFile, FileRole, ManifestEntry
from ottla.tables.store import TableStore

CURRENT_FILE = "_ottla/current.txt"
HOURS_DIRECTORY = "_ottla/hours"
HOUR_FORMAT = "ottla complete hour"
HOUR_VERSION = 1


def announce(
    store: TableStore, entries: Sequence[ManifestEntry], files: Iterable[DataFile]
) -> None:
    """Writes what is new of both into a table's own directory."""
    content = _current(files)
    if not store.has(CURRENT_FILE) or store.read(CURRENT_FILE) != content:
        store.replace(CURRENT_FILE, content)
    _announce_hours(store, complete_hours(entries))


def _announce_hours(store: TableStore, hours: Sequence[CompleteHour]) -> None:
    if not hours:
        return
    there = set(store.names(HOURS_DIRECTORY))
    if not there:
        store.make_directories([HOURS_DIRECTORY])
    for hour in hours:
        name = f"{hour.name}.json"
        if name not in there:
            store.replace(f"{HOURS_DIRECTORY}/{name}", _marker(hour), durably=False)


def _current(files: Iterable[DataFile]) -> bytes:
    paths = [file.path for file in files if file.role is FileRole.ROWS]
    return "".join(f"{path}\n" for path in paths).encode()


def _marker(hour: CompleteHour) -> bytes:
    content = {
        "format": HOUR_FORMAT,
        "version": HOUR_VERSION,
        "hour": f"{hour.name}:00:00Z",
        "commit_id": hour.commit_id,
        "until_offsets": {str(number): end for number, end in hour.until_offsets.items()},
    }
    return (json.dumps(content) + "\n").encode()
