"""A reader whose disk is slow holds up nobody who appends."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
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


def consumed(log: ottla.Log) -> list[bytes | None]:
    with ottla.Consumer(log, settings={"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign({ottla.TopicPartition("t", 0): 0})
        return [one.value for one in consumer.consume(1, PATIENCE_S)]


def fetched(log: ottla.Log) -> list[bytes | None]:
    with ottla.SimpleConsumer(log) as consumer:
        return [one.value for one in consumer.fetch("t")]


Read = Callable[[ottla.Log], list[bytes | None]]

READERS: dict[str, Read] = {
    "read": lambda log: [one.value for one in log.read("t")],
    "scan": lambda log: [one.value for one in log.scan("t")],
    "columns": lambda log: log.scan("t").to_arrow()["value"].to_pylist(),
    "tail": lambda log: [one.value for one in log.tail("t", from_offset={0: 0}, timeout_s=0)],
    "consumer": consumed,
    "simple consumer": fetched,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_an_append_is_done_while_a_reader_waits_for_its_bytes(tmp_path: Path, read: Read) -> None:
    disk = SlowDisk()
    seen: list[bytes | None] = []
    with open_in(Environment(file_system=disk), str(tmp_path)) as log:
        log.create_topic("t")
        log.append("t", b"before")
        reader = threading.Thread(target=lambda: seen.extend(read(log)))
        reader.start()
        assert disk.is_reading.wait(PATIENCE_S)
        assert log.append("t", b"meanwhile").offset == 1
        disk.may_read.set()
        reader.join(PATIENCE_S)
        assert seen[:1] == [b"before"]
