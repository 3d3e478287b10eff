"""Log start offsets, in Kafka's checkpoint and in a copy of it that has a checksum.

If records were deleted up to the middle of a segment, only Kafka's file has the log's start,
without redundancy. The copy is written first, and one fsync of the directory makes both durable: so
the copy is never older than Kafka's file. The copy is ignored for a log that Kafka has loaded
since, which a missing integrity file shows (`integrity`).

Format pages: docs/format/checkpoints.md, docs/format/ottla-integrity.md.
"""

import logging
from collections.abc import Mapping

from ottla.base.files import FileSystem, join, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checkpoints import OffsetCheckpoint, offsets_text, parse_offsets
from ottla.storage.files.checksummed import read_checksummed, with_checksum
from ottla.storage.files.filenames import (
    CHECKPOINT_LOG_START,
    COPIED_LOG_STARTS,
)

logger = logging.getLogger(__name__)


class LogStarts:
    """The log starts of one directory; a log in neither file starts with its first segment."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._checkpoint = OffsetCheckpoint(file_system, join(directory, CHECKPOINT_LOG_START))
        self._copy_path = join(directory, COPIED_LOG_STARTS)
        self.checkpointed: dict[TopicPartition, int] = {}
        self._copied: dict[TopicPartition, int] | None = None

    def read(self) -> None:
        """Reads both files, and treats a damaged one as empty; raises `OSError`."""
        self.checkpointed = self._checkpoint.read_if_whole()
        self._copied = read_checksummed(self._file_system, self._copy_path, parse_offsets)

    @property
    def known(self) -> set[TopicPartition]:
        """Returns the logs that either file names."""
        return self.checkpointed.keys() | (self._copied or {}).keys()

    @property
    def are_lost(self) -> bool:
        """Whether the copy cannot be read and the checkpoint is empty; both are always written."""
        return self._copied is None and not self.checkpointed

    def start_of(self, key: TopicPartition, *, is_copy_valid: bool) -> int:
        """The start of a log. `is_copy_valid`: whether only Ottla has written the log since."""
        stated = self.checkpointed.get(key, 0)
        if self._copied is None or not is_copy_valid:
            return stated
        start = self._copied.get(key, 0)
        if start != stated:
            logger.warning(
                "%s says that %s-%d starts at %d, but %s, which has a checksum, at %d; "
                "the latter is used",
                self._checkpoint.path, *key, stated, self._copy_path, start,
            )  # fmt: skip
        return start

    def keep(self, starts: Mapping[TopicPartition, int]) -> None:
        """Updates the copy with what was read, before an integrity file makes the copy valid."""
        found = {key: start for key, start in starts.items() if start}
        if found != self._copied:
            replace_file(self._file_system, self._copy_path, with_checksum(offsets_text(found)))
            self._copied = found

    def replace(self, starts: Mapping[TopicPartition, int], content: bytes) -> None:
        """Writes both files durably; `content` is the `offsets_text` of `starts`.

        Raises `OSError`.
        """
        if starts != self._copied:
            copy = with_checksum(content)
            replace_file(self._file_system, self._copy_path, copy, is_directory_synced=False)
            self._copied = dict(starts)
        self._checkpoint.replace(content)


def copied_starts(file_system: FileSystem, directory: str) -> dict[TopicPartition, int] | None:
    """The logs' starts in the copy of a directory, for readers; `None` if there is no valid one.

    It counts for logs whose integrity file is valid; one that it does not name starts at 0.
    """
    return read_checksummed(file_system, join(directory, COPIED_LOG_STARTS), parse_offsets)
