"""Marks of Ottla's own files: an empty file records that another one has been written. The loss of
an optional file, such as that of quotas, would otherwise go unnoticed. Its mark is made when it is
durable for the first time, so a crash leaves no mark without its file. A file without its mark, as
an older version or a crash leaves it, gets one at the next start. Ottla removes neither of them,
and Kafka ignores both.

Format page: docs/format/filenames.md.
"""

from ottla.base.errors import RefusalError
from ottla.base.files import FileSystem, join, replace_file
from ottla.storage.files.filenames import MARKS


def mark_written(file_system: FileSystem, directory: str, name: str) -> None:
    """Notes that a file is there, which is durable; raises `OSError`."""
    mark = join(directory, MARKS[name])
    if file_system.status(mark) is None:
        replace_file(file_system, mark, b"")


def mark_all_written(file_system: FileSystem, directory: str) -> None:
    """Makes the marks that the files of a directory lack; raises `OSError`."""
    for name in MARKS:
        if file_system.status(join(directory, name)) is not None:
            mark_written(file_system, directory, name)


def check_not_lost(file_system: FileSystem, directory: str, name: str) -> None:
    """Raises `RefusalError` for a file that is gone."""
    if is_lost(file_system, directory, name):
        mark = MARKS[name]
        raise RefusalError(
            f"{join(directory, name)} is missing, though {mark} says that there was one; restore "
            f"it, or remove {mark} to go on without what it held"
        )


def is_lost(file_system: FileSystem, directory: str, name: str) -> bool:
    """Whether a file is gone that has been there."""
    # The mark is looked for first: a broker may be writing both.
    is_marked = file_system.status(join(directory, MARKS[name])) is not None
    return is_marked and file_system.status(join(directory, name)) is None
