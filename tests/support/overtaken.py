"""A log whose retention moves between any two calls of a reader, at places that a test chooses.

No time passes and no broker runs: the reader's own calls of the file system are counted, and before
those that are chosen the oldest segment is deleted, as a broker deletes it: the log first.
"""

import random
from collections.abc import Callable, Iterator

from ottla.base.files import FileSystem, join
from ottla.storage.files.filenames import LEADER_EPOCHS, FileKind, FileSuffix, parse_file_name
from ottla.storage.files.integrity import IntegrityFile, read_integrity
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.testing import FakeFileSystem
from ottla.testing.crash import CrashMode
from ottla.testing.recording import RecordingFileSystem
from tests.support.mirroring import SourceLog, partition_path

STRIDE = 3
"""Of the calls `make test-all` takes every third, from another one each time; `make crash` all."""


class OvertakingFileSystem(RecordingFileSystem):
    """Deletes the oldest segment before each call that `is_due` names; calls count from 1."""

    def __init__(
        self, inner: FileSystem, is_due: Callable[[int], bool], partition: str | None = None
    ) -> None:
        super().__init__(inner)
        self._is_due = is_due
        self._partition = partition or partition_path("/source")
        self.count = 0
        self.deleted = 0

    def check_alive(self) -> None:
        self.count += 1
        if self._is_due(self.count):
            self.deleted += delete_oldest_segment(self.inner, self._partition)


def delete_oldest_segment(file_system: FileSystem, partition: str) -> bool:
    """As retention does; `False` when only the active one is left."""
    found = [(name, parse_file_name(name)) for name in file_system.list(partition)]
    logs = sorted(
        parsed.offset
        for _, parsed in found
        if parsed and parsed.kind is FileKind.LOG and parsed.suffix is FileSuffix.LIVE
    )
    if len(logs) < 2:
        return False
    # Before the start moves, and so before files go.
    IntegrityFile(file_system, partition, read_integrity(file_system, partition)).removed_before(
        logs[1]
    )
    LeaderEpochs.read(file_system, join(partition, LEADER_EPOCHS)).truncate_from_start(logs[1])
    gone = [name for name, parsed in found if parsed and parsed.offset == logs[0]]
    for name in sorted(gone, key=lambda name: not name.endswith(FileKind.LOG.value)):
        file_system.remove(join(partition, name))
    return True


def filled_disk() -> FakeFileSystem:
    """A log of several segments under a broker, with committed, aborted and open transactions."""
    source = SourceLog()
    source.create()
    for number in range(4):
        source.append(b"in", b"in", producer=7)
        source.fill(4)
        source.end(7, commit=number % 2 == 0)
        source.fill(4)
    # It is in the active segment, which retention leaves: so nothing after it is ever stable.
    source.append(b"open", producer=8)
    return source.files


def overtaken(
    disk: FakeFileSystem, read: Callable[[OvertakingFileSystem], None], crash_seconds: float
) -> None:
    """Reads once for each call that a reader makes, with one segment deleted before it.

    Then with one deleted before each call from some call on, and before every second, third, ...:
    so the reader is overtaken again and again.
    """
    for is_due in _plans(disk, read, 1 if crash_seconds else STRIDE):
        read(OvertakingFileSystem(disk.crash(CrashMode.KEEP), is_due))


def _plans(
    disk: FakeFileSystem, read: Callable[[OvertakingFileSystem], None], stride: int
) -> Iterator[Callable[[int], bool]]:
    undisturbed = OvertakingFileSystem(disk.crash(CrashMode.KEEP), lambda _: False)
    read(undisturbed)
    assert undisturbed.count > 10
    first = 1 + random.randrange(stride)
    for turn, chosen in enumerate(range(first, undisturbed.count + 1, stride)):
        yield lambda number, chosen=chosen: number == chosen  # type: ignore[misc]
        if turn % 3 == 0:
            yield lambda number, chosen=chosen: number >= chosen  # type: ignore[misc]
    for interval in (2, 3, 5, 8, 13, 21, 34):
        yield lambda number, interval=interval: number % interval == 0  # type: ignore[misc]
