"""Every file system there is, each with an empty directory to work in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.base.files import FileSystem, OsFileSystem, join
from ottla.testing import FakeFileSystem, FaultyFileSystem, RecordingFileSystem

MAKERS: dict[str, Callable[[], FileSystem]] = {
    "os": OsFileSystem,
    "fake": FakeFileSystem,
    "recording-os": lambda: RecordingFileSystem(OsFileSystem()),
    "recording-fake": lambda: RecordingFileSystem(FakeFileSystem()),
    "faulty-without-faults": lambda: FaultyFileSystem(FakeFileSystem()),
}


@dataclass(frozen=True)
class Place:
    """A file system and a directory on it."""

    file_system: FileSystem
    root: str

    def path(self, *names: str) -> str:
        return join(self.root, *names)

    def write(self, name: str, content: bytes) -> str:
        file = self.file_system.open(self.path(name), create=True)
        file.pwrite(content, 0)
        file.close()
        return file.path

    def read(self, name: str) -> bytes:
        file = self.file_system.open(self.path(name))
        content = file.pread(1 << 20, 0)
        file.close()
        return content


@pytest.fixture(params=sorted(MAKERS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place = Place(MAKERS[request.param](), str(tmp_path / "data"))
    place.file_system.make_directory(place.root)
    return place
