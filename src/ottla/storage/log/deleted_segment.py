"""A deleted segment: its files are renamed to `.deleted` at once, and removed after a delay.

The delay (`file.delete.delay.ms`) lets readers finish that have the log file open, such as a
response that is being sent from it. A crash leaves `.deleted` files or, between two renames,
indexes without a log; the next start removes both. Kafka's counterpart:
`LocalLog.deleteSegmentFiles`.
"""

from ottla.base.files import FileSystem, remove_if_present
from ottla.storage.files.filenames import FileKind, FileSuffix
from ottla.storage.segment.segment import Segment

DELETED = FileSuffix.DELETED.value
# The transaction index is last, as few segments have one.
INDEX_ENDINGS = tuple(
    kind.value for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
)


class DeletedSegment:
    """A segment that was removed from its log; its log file stays open until `close`."""

    __slots__ = ("_file_system", "_segment", "paths")

    def __init__(self, file_system: FileSystem, segment: Segment, snapshot: str | None) -> None:
        """Renames the files, the log first: indexes without a log are never read.

        `snapshot` is the path of the producer snapshot at the segment's start, if there is one. The
        caller makes the renames durable. Raises `OSError`.
        """
        self._file_system = file_system
        self._segment = segment
        log = segment.log.path
        stem = log.removesuffix(FileKind.LOG.value)
        self.paths = [log + DELETED]
        segment.log.rename(self.paths[0])
        is_absent = segment.transaction_index.is_known_absent
        endings = INDEX_ENDINGS[:-1] if is_absent else INDEX_ENDINGS
        segment.close_indexes()
        others = [stem + ending for ending in endings]
        for path in [*others, snapshot] if snapshot else others:
            deleted = path + DELETED
            try:
                file_system.rename(path, deleted)
            except FileNotFoundError:
                continue  # few segments have a transaction index
            self.paths.append(deleted)

    @property
    def log_path(self) -> str:
        return self.paths[0]

    def remove(self) -> None:
        """Removes the files that still exist; raises `OSError`. Open descriptors stay valid."""
        self.close()
        for path in self.paths:
            remove_if_present(self._file_system, path)

    def close(self) -> None:
        """Closes the log file; the next start removes the `.deleted` files."""
        self._segment.log.close()
