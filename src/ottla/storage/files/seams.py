"""From which offset on each segment of a log begins where the one before it ends, kept in a file.

A power failure can take the tail of one segment, at a batch's end and so without a trace, and keep
the next segment. Compaction leaves gaps that look the same. So a compacted log writes down, once
and before its first roll, that it has no gaps between segments from some offset on; whoever makes
one moves that offset first (`Seams.open`), by when all below must be on the disk. A roll then need
not wait for a flush, and recovery knows a hole (`recovery`).

Format page: docs/format/ottla-seams.md. A crash leaves the old file or the new. Kafka removes what
ends with `.deleted` whenever it loads a log: what it may do to the segments this file then says
nothing of. Kafka has no counterpart, and goes on behind a hole.
"""

import logging

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.storage.files.checksummed import with_checksum, without_checksum
from ottla.storage.files.filenames import SEAMS

logger = logging.getLogger(__name__)

VERSION = 0


class Seams:
    """`tight_from` is what is so, `recorded` what the file says: `None` while there is none.

    A segment whose base offset is larger than `tight_from` begins where the one before it ends.
    """

    __slots__ = ("_directory", "_file_system", "recorded", "tight_from")

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        """Reads the file; one that is damaged counts as none. Raises `OSError`."""
        self._file_system = file_system
        self._directory = directory
        self.recorded = _read(file_system, join(directory, SEAMS))
        self.tight_from = self.recorded or 0

    def loaded(self, tight_from: int, log_end_offset: int) -> None:
        """Takes note of a log that was loaded; without a file it is tight from an offset on."""
        known = tight_from if self.recorded is None else self.recorded
        self.tight_from = min(known, log_end_offset)

    def truncated(self, log_end_offset: int) -> None:
        """The log was cut from behind, and goes on at `log_end_offset`."""
        self.tight_from = min(self.tight_from, log_end_offset)

    def restarted(self, offset: int) -> None:
        """The log was emptied, and goes on at `offset`."""
        self.tight_from = offset

    def open(self, offset: int) -> None:
        """Lets there be gaps below a segment that begins at `offset`.

        All below it must be on the disk: for those segments nobody can tell a hole any more.
        """
        self.tight_from = max(self.tight_from, offset)

    def renamed(self, directory: str) -> None:
        """Takes note that the log's directory was renamed."""
        self._directory = directory

    def record(self) -> None:
        """Makes the file say what is so, durably."""
        if self.recorded == self.tight_from:
            return
        content = with_checksum(b"%d\n%d\n" % (VERSION, self.tight_from))
        replace_file(self._file_system, join(self._directory, SEAMS), content)
        self.recorded = self.tight_from


def gapless_from(witnessed: int | None, recorded: int | None, cleaned_until: int) -> int | None:
    """The offset from which on a gap in a log means that batches are lost; `None`: nobody knows.

    By the log's witness, by its recorded seam, or else by how far it was compacted.
    """
    if witnessed is None:
        return None
    return max(witnessed, cleaned_until if recorded is None else recorded)


def _read(file_system: FileSystem, path: str) -> int | None:
    try:
        return parse_seams(path, without_checksum(path, read_file(file_system, path)))
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        logger.warning("%s; a hole that a power failure left could not be told", error)
        return None


def parse_seams(path: str, content: bytes) -> int:
    """The offset in the file; raises `CorruptionError`."""
    lines = content.split(b"\n")
    if len(lines) != 3 or lines[0] != b"%d" % VERSION or not lines[1].isdigit():
        raise CorruptionError(path, 0, "its version is not known")
    return int(lines[1])
