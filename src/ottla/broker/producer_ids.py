"""Producer ids, each handed out once: taken from blocks that are on the disk before they are used.

Format page: docs/format/ottla-producer-ids.md. A crash loses at most the rest of a block, never
hands an id out again. Kafka's counterpart: `ProducerIdManager` with `ProducerIdsBlock`.
"""

from collections.abc import Callable

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.storage.directory.log_directories import LogDirectories

PRODUCER_ID_FILE_NAME = "ottla-producer-ids"
FORMAT_VERSION = 0
BLOCK_SIZE = 1000


class ProducerIds:
    """`reserve(n)` makes durable that all ids below `n` may have been handed out."""

    def __init__(self, next_id: int, reserve: Callable[[int], None]) -> None:
        self._next_id = next_id
        self._block_end = next_id
        self._reserve = reserve

    def reserve_below(self, end: int) -> None:
        """Makes durable that the ids below `end` are in use, by any directory's count."""
        if end:
            self._reserve(max(end, self._block_end))

    def allocate(self) -> int:
        """An id never returned before, on this or an earlier start."""
        if self._next_id == self._block_end:
            block_end = self._block_end + BLOCK_SIZE
            self._reserve(block_end)
            self._block_end = block_end
        producer_id = self._next_id
        self._next_id += 1
        return producer_id


def reserve_producer_ids(file_system: FileSystem, directories: LogDirectories, end: int) -> None:
    """Makes a reservation durable in all directories that are online; raises `StorageError`."""
    directories.check_any_online()
    directories.write_in_each(lambda path: write_producer_ids(file_system, path, end))


def read_producer_ids(file_system: FileSystem, directory: str) -> int:
    """The first id that was never reserved, 0 without a file; raises `CorruptionError`."""
    path = join(directory, PRODUCER_ID_FILE_NAME)
    if file_system.status(path) is None:
        return 0
    lines = read_file(file_system, path).split(b"\n")
    try:
        version, next_id = int(lines[0]), int(lines[1])
    except (ValueError, IndexError) as error:
        raise CorruptionError(path, 0, "not a version and a producer id") from error
    if version != FORMAT_VERSION or next_id < 0:
        raise CorruptionError(path, 0, f"version {version} or id {next_id} cannot be")
    return next_id


def write_producer_ids(file_system: FileSystem, directory: str, next_id: int) -> None:
    """Makes the reservation durable before it returns."""
    content = f"{FORMAT_VERSION}\n{next_id}\n".encode()
    replace_file(file_system, join(directory, PRODUCER_ID_FILE_NAME), content)
