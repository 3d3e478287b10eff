"""Marks of Ottla's own files: an empty file records that another file was written. Otherwise the
loss of an optional file, such as that of quotas, would go unnoticed. The mark is created when its
file is durable for the first time, so a crash leaves no mark without its file. A file without a
mark, from a crash, gets one at the next start. Ottla removes neither file, and
Kafka ignores both.

Format page: docs/format/filenames.md.
"""

from ottla.base.errors import RefusalError
from ottla.base.files import FileSystem, join, replace_file
from ottla.storage.files.filenames import MARKS


def mark_written(file_system: FileSystem, directory: str, name: str) -> None:
    """Creates the mark of a file that is durable; raises `OSError`."""
    mark = join(directory, MARKS[name])
    if file_system.status(mark) is None:
        replace_file(file_system, mark, b"")


def mark_all_written(file_system: FileSystem, directory: str) -> None:
    """Creates the missing marks of a directory's files; raises `OSError`."""
    for name in MARKS:
        if file_system.status(join(directory, name)) is not None:
            mark_written(file_system, directory, name)


def check_not_lost(file_system: FileSystem, directory: str, name: str) -> None:
    """Raises `RefusalError` for a lost file."""
    if is_lost(file_system, directory, name):
        mark = MARKS[name]
        raise RefusalError(
            f"{join(directory, name)} is missing, though {mark} says that there was one; restore "
            f"it, or remove {mark} to go on without what it held"
        )


def is_lost(file_system: FileSystem, directory: str, name: str) -> bool:
    """Whether a file was written and is missing now."""
    # The mark is checked first: a broker may be writing both.
    is_marked = file_system.status(join(directory, MARKS[name])) is not None
    return is_marked and file_system.status(join(directory, name)) is None
