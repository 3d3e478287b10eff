"""What is written beside the manifest for readers that do not know it: a list, and hour markers.

Both follow from the manifest, and are written after each commit. A crash in between leaves them one
commit behind, which is a whole and true picture too; whoever claims the table next brings them up
to date. Format page: docs/format/load-manifest.md.
"""

import json
from collections.abc import Iterable, Sequence

from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.spark.tables.completeness import CompleteHour, complete_hours
from ottla.spark.tables.manifest import DataFile, FileRole, ManifestEntry

CURRENT_FILE = "current.txt"
HOURS_DIRECTORY = "hours"
HOUR_FORMAT = "ottla complete hour"
HOUR_VERSION = 1


def announce(
    file_system: FileSystem,
    directory: str,
    entries: Sequence[ManifestEntry],
    files: Iterable[DataFile],
) -> None:
    """Writes what is new of both into a table's own directory."""
    path = join(directory, CURRENT_FILE)
    content = _current(files)
    if file_system.status(path) is None or read_file(file_system, path) != content:
        replace_file(file_system, path, content)
    _announce_hours(file_system, join(directory, HOURS_DIRECTORY), complete_hours(entries))


def _announce_hours(file_system: FileSystem, directory: str, hours: Sequence[CompleteHour]) -> None:
    if not hours:
        return
    if file_system.status(directory) is None:
        file_system.make_directory(directory)
    there = set(file_system.list(directory))
    for hour in hours:
        name = f"{hour.name}.json"
        if name not in there:
            replace_file(file_system, join(directory, name), _marker(hour), durably=False)


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
