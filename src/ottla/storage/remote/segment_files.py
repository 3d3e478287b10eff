"""The files of one segment that is copied to a tier: Kafka's `LogSegmentData`."""

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.files import FileSlice, parent_directory
from ottla.base.values import dataclass
from ottla.storage.remote.segment_metadata import IndexType

PART_SIZE: Final = 1 << 20
"""How many bytes of a log are in memory at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """`log` is read while it is copied: a duplicate stays readable if retention removes the file.

    `indexes` has all kinds but `TRANSACTION`, which is there only if the segment has such a file.
    `PRODUCER_SNAPSHOT` is that of the *next* segment's base offset, and `LEADER_EPOCH` the
    checkpoint of the log from its beginning up to the end of the segment.
    """

    log: FileSlice
    indexes: Mapping[IndexType, bytes]

    def log_parts(self, size: int = PART_SIZE) -> Iterator[bytes]:
        """The log in parts of `size` bytes, the last may be shorter.

        Raises `StorageError` if its disk fails, and `CorruptionError` if it lacks bytes.
        """
        log, path = self.log, self.log.file.path
        for done in range(0, log.size, size):
            wanted = min(size, log.size - done)
            try:
                part = log.file.pread(wanted, log.position + done)
            except OSError as error:
                directory = parent_directory(parent_directory(path))
                raise StorageError(directory, f"{path}: {error.strerror or error}") from error
            if len(part) != wanted:
                end = log.position + done + len(part)
                raise CorruptionError(path, end, f"ends before its {log.size} bytes are copied")
            yield part
