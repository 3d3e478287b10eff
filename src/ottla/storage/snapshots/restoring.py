"""The exchange of several directories for restored ones, which a crash may interrupt.

One exchange is atomic, several are not. So before the first one every directory, and every copy
that will take its place, gets a note, with which no broker starts; the notes go after the last one.
The next `ottla snapshot restore` finishes what a crash has interrupted: once a directory has been
exchanged, the others are too; before that, the copies are removed.
"""

from collections.abc import Callable, Sequence

from ottla.base.files import FileSystem, join, read_file, remove_if_present, replace_file
from ottla.base.values import dataclass
from ottla.storage.files.filenames import RESTORING
from ottla.storage.files.java_properties import parse_properties, properties_line
from ottla.storage.snapshots.copying import remove_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoringNote:
    """`kept` is the name of the snapshot that the old directories become; `is_new` says that the
    directory with the note is restored, and not yet to be replaced."""

    kept: str
    is_new: bool


def read_note(file_system: FileSystem, directory: str) -> RestoringNote | None:
    try:
        fields = parse_properties(read_file(file_system, join(directory, RESTORING)).decode())
        return RestoringNote(kept=fields["kept"], is_new=fields["state"] == "new")
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_notes(file_system: FileSystem, directories: Sequence[str], note: RestoringNote) -> None:
    state = "new" if note.is_new else "old"
    lines = (properties_line("kept", note.kept), properties_line("state", state))
    for directory in directories:
        replace_file(file_system, join(directory, RESTORING), "\n".join((*lines, "")).encode())


def remove_notes(file_system: FileSystem, directories: Sequence[str]) -> None:
    for directory in directories:
        remove_if_present(file_system, join(directory, RESTORING))
        file_system.sync_directory(directory)


def interrupted(file_system: FileSystem, directories: Sequence[str]) -> str | None:
    """The name of the snapshot that an interrupted restore keeps; `None` if there is none."""
    notes = (read_note(file_system, one) for one in directories)
    return next((note.kept for note in notes if note is not None), None)


def finish(
    file_system: FileSystem,
    directories: Sequence[str],
    kept: Sequence[str],
    on_kept: Callable[[str], None],
) -> None:
    """Finishes or undoes an interrupted restore; `kept` are the places of the other directories.

    `on_kept` is called with each of them that keeps the old content.
    """
    notes = [read_note(file_system, one) for one in directories]
    if any(note is not None and note.is_new for note in notes):
        for directory, other, note in zip(directories, kept, notes, strict=True):
            if note is not None and not note.is_new:
                file_system.exchange(directory, other)
        there = [one for one in kept if file_system.status(one) is not None]
        for other in there:
            on_kept(other)
        remove_notes(file_system, there)
    else:
        for other in kept:
            if _is_copy(file_system, other):
                remove_tree(file_system, other)
    remove_notes(file_system, directories)


def _is_copy(file_system: FileSystem, path: str) -> bool:
    note = read_note(file_system, path)
    return note is not None and note.is_new
