"""Any sequence of calls: the fake disk answers like the machine's, and keeps what was synced."""

import errno
import tempfile
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.base.files import File, FileSystem, OsFileSystem, join, parent_directory, read_file
from ottla.testing import CrashMode, FakeFileSystem

PATHS = st.sampled_from(["a", "b", "d", "e", "d/a", "d/b", "e/a", "e/d"])
POSITIONS = st.integers(0, 40)
DATA = st.binary(max_size=20)


def tree(file_system: FileSystem, root: str, directory: str = "") -> dict[str, bytes | None]:
    """Every path below `root` with its content; `None` for a directory."""
    found: dict[str, bytes | None] = {}
    for name in file_system.list(join(root, directory)):
        path = join(directory, name)
        status = file_system.status(join(root, path))
        assert status is not None
        found[path] = None if status.is_directory else read_file(file_system, join(root, path))
        if status.is_directory:
            found |= tree(file_system, root, path)
    return found


def outcome(deed: Callable[[], Any]) -> object:
    """What a call returns, or the number of the error it raises."""
    try:
        return deed()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


class Agreement(RuleBasedStateMachine):
    """Both file systems are driven alike; a small oracle of its own knows what was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.places: list[tuple[FileSystem, str]] = [
            (OsFileSystem(), self.directory.name),
            (FakeFileSystem(), "."),
        ]
        self.files: list[tuple[File, File]] = []
        self.views: list[tuple[int, memoryview, memoryview]] = []

    def teardown(self) -> None:
        for _, *views in self.views:
            for view in views:
                view.release()
        for pair in self.files:
            for file in pair:
                file.close()
        self.directory.cleanup()

    def agree(self, deed: Callable[[FileSystem, str], Any]) -> None:
        real, fake = (outcome(lambda one=one: deed(*one)) for one in self.places)
        assert real == fake

    def some_file(self, data: st.DataObject) -> tuple[File, File]:
        return self.files[data.draw(st.integers(0, len(self.files) - 1))]

    @rule(path=PATHS, writable=st.booleans(), create=st.booleans())
    def open(self, path: str, writable: bool, create: bool) -> None:
        found = [
            outcome(
                lambda one=one: one[0].open(join(one[1], path), writable=writable, create=create)
            )
            for one in self.places
        ]
        if isinstance(found[0], str):
            assert found[0] == found[1]
        else:
            self.files.append((found[0], found[1]))  # type: ignore[arg-type]

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        self.agree(lambda system, root: system.make_directory(join(root, path)))

    @rule(old=PATHS, new=PATHS)
    def rename(self, old: str, new: str) -> None:
        self.agree(lambda system, root: system.rename(join(root, old), join(root, new)))

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        self.agree(lambda system, root: system.remove(join(root, path)))

    @rule(path=PATHS)
    def remove_directory(self, path: str) -> None:
        self.agree(lambda system, root: system.remove_directory(join(root, path)))

    @rule(path=PATHS)
    def sync_directory(self, path: str) -> None:
        self.agree(lambda system, root: system.sync_directory(join(root, path)))

    @rule(path=PATHS)
    def lock_and_release(self, path: str) -> None:
        def lock(system: FileSystem, root: str) -> bool:
            lock = system.lock(join(root, path))
            if lock is not None:
                lock.release()
            return lock is not None

        self.agree(lock)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), buffers=st.lists(DATA, max_size=4), position=POSITIONS)
    def write(self, data: st.DataObject, buffers: list[bytes], position: int) -> None:
        real, fake = self.some_file(data)
        if len(buffers) == 1:
            assert outcome(lambda: real.pwrite(buffers[0], position)) == outcome(
                lambda: fake.pwrite(buffers[0], position)
            )
        elif buffers:
            assert outcome(lambda: real.pwritev(buffers, position)) == outcome(
                lambda: fake.pwritev(buffers, position)
            )

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=POSITIONS)
    def truncate(self, data: st.DataObject, size: int) -> None:
        if any(size < reach for reach, *_ in self.views):
            return  # A map of the file may reach so far, which is the caller's to prevent.
        real, fake = self.some_file(data)
        assert outcome(lambda: real.truncate(size)) == outcome(lambda: fake.truncate(size))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=POSITIONS, position=POSITIONS)
    def read(self, data: st.DataObject, size: int, position: int) -> None:
        real, fake = self.some_file(data)
        assert real.pread(size, position) == fake.pread(size, position)
        assert real.size() == fake.size()

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def map(self, data: st.DataObject) -> None:
        real, fake = self.some_file(data)
        size = data.draw(st.integers(0, real.size()))
        self.views.append((size, real.map(size), fake.map(size)))

    @precondition(lambda self: self.views)
    @rule()
    def release(self) -> None:
        for view in self.views.pop()[1:]:
            view.release()

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        for file in self.some_file(data):
            file.sync()

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        pair = self.some_file(data)
        self.files.remove(pair)
        for file in pair:
            file.close()

    @rule()
    def kill(self) -> None:
        """A new process finds the same, on both."""
        fake = self.places[1][0]
        assert isinstance(fake, FakeFileSystem)
        self.views, views = [], self.views
        self.files, files = [], self.files
        self.places[1] = (fake.crash(CrashMode.KEEP), ".")
        for _, *some in views:
            for view in some:
                view.release()
        for pair in files:
            for file in pair:
                file.close()

    @invariant()
    def both_hold_the_same(self) -> None:
        real, fake = (tree(*place) for place in self.places)
        assert real == fake
        for _, one, other in self.views:
            assert bytes(one) == bytes(other)


class Durability(RuleBasedStateMachine):
    """A simple oracle beside the fake disk: one copy at each sync, nothing else.

    Files never leave their directory here; what a rename across directories does has its own tests.
    """

    def __init__(self) -> None:
        super().__init__()
        self.system = FakeFileSystem()
        for name in ("d", "e"):
            self.system.make_directory(name)
        self.system.sync_directory(".")
        self.names: dict[str, int] = {}
        self.synced_names: dict[str, int] = {}
        self.synced_content: dict[int, bytes] = {}
        self.written_since: set[int] = set()
        self.changed_since: set[str] = set()

    FILES = st.sampled_from(["d/a", "d/b", "d/c", "e/a", "e/b"])

    @rule(path=FILES, data=DATA, position=POSITIONS, cut=st.none() | POSITIONS, sync=st.booleans())
    def write(self, path: str, data: bytes, position: int, cut: int | None, sync: bool) -> None:
        file = self.system.open(path, create=True)
        if path not in self.names:
            self.changed_since.add(parent_directory(path))
        number = self.names.setdefault(path, len(self.synced_content))
        self.synced_content.setdefault(number, b"")
        self.written_since.add(number)
        file.pwrite(data, position)
        if cut is not None:
            file.truncate(cut)
        if sync:
            file.sync()
            self.synced_content[number] = file.pread(100, 0)
            self.written_since.remove(number)
        file.close()

    @rule(path=FILES)
    def remove(self, path: str) -> None:
        if self.names.pop(path, None) is not None:
            self.system.remove(path)
            self.changed_since.add(parent_directory(path))

    @rule(old=FILES, new=FILES)
    def rename(self, old: str, new: str) -> None:
        if old in self.names and parent_directory(old) == parent_directory(new):
            self.system.rename(old, new)
            self.names[new] = self.names.pop(old)
            self.changed_since.add(parent_directory(old))

    @rule(directory=st.sampled_from(["d", "e"]))
    def sync_directory(self, directory: str) -> None:
        self.system.sync_directory(directory)
        self.changed_since.discard(directory)
        self.synced_names = {
            path: number
            for names, is_synced in ((self.synced_names, False), (self.names, True))
            for path, number in names.items()
            if (parent_directory(path) == directory) == is_synced
        }

    def expected(self) -> dict[str, bytes | None]:
        files = {path: self.synced_content[one] for path, one in self.synced_names.items()}
        return {"d": None, "e": None, **files}

    @rule(seed=st.integers(0, 1000))
    def fail_power_at_random(self, seed: int) -> None:
        after = tree(self.system.crash(CrashMode.RANDOM, seed), "/")
        if not self.changed_since:
            assert after.keys() == self.expected().keys()
            for path, number in self.names.items():
                if number not in self.written_since:
                    assert after[path] == self.synced_content[number]
        self.start_again(CrashMode.RANDOM, seed)

    @rule()
    def fail_power(self) -> None:
        assert tree(self.system.crash(CrashMode.STRICT), "/") == self.expected()
        self.start_again(CrashMode.STRICT, 0)

    def start_again(self, mode: CrashMode, seed: int) -> None:
        self.system = self.system.crash(mode, seed)
        found = tree(self.system, "/")
        files = {path: content for path, content in found.items() if content is not None}
        self.names = {path: number for number, path in enumerate(files)}
        self.synced_names = dict(self.names)
        self.synced_content = dict(enumerate(files.values()))
        self.written_since = set()
        self.changed_since = set()


Agreement.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
Durability.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestTheFakeDiskAnswersLikeTheMachine = pytest.mark.slow(Agreement.TestCase)
TestTheFakeDiskKeepsWhatWasSynced = pytest.mark.slow(Durability.TestCase)
