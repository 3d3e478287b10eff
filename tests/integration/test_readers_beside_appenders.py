"""A reader whose disk is slow holds up nobody who appends."""

import threading
from pathlib import Path

from ottla.base.files import OsFileSystem
from ottla.embedded.environment import Environment
from ottla.embedded.log import open_in
from ottla.testing import RecordingFileSystem
from ottla.testing.recording import RecordingFile
from tests.support.patience import PATIENCE_S


class SlowDisk(RecordingFileSystem):
    """Reads of files that were duplicated for a reader wait until they may go on."""

    def __init__(self) -> None:
        super().__init__(OsFileSystem())
        self.is_reading = threading.Event()
        self.may_read = threading.Event()

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        found = super().open(path, writable=writable, create=create)
        return SlowFile(self, found)


class SlowFile(RecordingFile):
    def duplicate(self) -> RecordingFile:
        return WaitingFile(self._system, super().duplicate())


class WaitingFile(RecordingFile):
    def pread(self, size: int, position: int) -> bytes:
        assert isinstance(self._system, SlowDisk)
        self._system.is_reading.set()
        assert self._system.may_read.wait(PATIENCE_S), "the appender waited for the reader"
        return super().pread(size, position)


def test_an_append_is_done_while_a_reader_waits_for_its_bytes(tmp_path: Path) -> None:
    disk = SlowDisk()
    seen: list[bytes | None] = []
    with open_in(Environment(file_system=disk), str(tmp_path)) as log:
        log.create_topic("t")
        log.append("t", b"before")
        reader = threading.Thread(target=lambda: seen.extend(one.value for one in log.read("t")))
        reader.start()
        assert disk.is_reading.wait(PATIENCE_S)
        assert log.append("t", b"meanwhile").offset == 1
        disk.may_read.set()
        reader.join(PATIENCE_S)
        assert seen == [b"before"]
