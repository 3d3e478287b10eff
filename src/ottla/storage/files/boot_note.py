"""Notes during which start of the system a log directory was last opened by a broker.

A broker that was only killed has lost nothing that it wrote: as long as the system runs, a hole or
a missing file is damage, and not what a power failure leaves. The note is not durable: one that a
power failure has lost, or left old, names no start or an earlier one. Format page:
docs/format/filenames.md. Kafka has no counterpart.
"""

from contextlib import suppress

from ottla.base.files import FileSystem, join, read_file, write_file
from ottla.storage.files.filenames import BOOT_NOTE


def is_same_boot(file_system: FileSystem, directory: str) -> bool:
    """Whether the system has not been started again since a broker last opened the directory."""
    boot_id = file_system.boot_id()
    with suppress(OSError):
        return (
            bool(boot_id) and read_file(file_system, join(directory, BOOT_NOTE)) == boot_id.encode()
        )
    return False


def note_boot(file_system: FileSystem, directory: str) -> None:
    """Writes the note; what has its name and is no file is left, and then nothing is known."""
    with suppress(OSError):
        write_file(
            file_system,
            join(directory, BOOT_NOTE),
            [file_system.boot_id().encode()],
            durably=False,
        )
