from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.files import FileSystem
from ottla.objects.directory_store import DirectoryStore
from ottla.objects.store import StoredObject
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path / "objects"))


def test_an_object_is_read_whole_and_in_ranges(store: DirectoryStore) -> None:
    store.put("a/b/c", b"0123456789")
    assert (store.size("a/b/c"), store.read("a/b/c")) == (10, b"0123456789")
    assert store.get("a/b/c", 2, 3) == b"234"
    assert store.get("a/b/c", 8, 30) == b"89"
    assert store.get("a/b/c", 20, 1) == b""


def test_objects_are_listed_by_folder_and_below_it(store: DirectoryStore) -> None:
    for path in ("b", "a/2", "a/1/x", "ab"):
        store.put(path, b"1" * len(path))
    assert store.names("") == ["a", "ab", "b"]
    assert store.names("a") == ["1", "2"]
    assert store.names("none") == []
    assert (store.folders(""), store.folders("a"), store.folders("a/1")) == (["a"], ["1"], [])
    assert [one.path for one in store.find("")] == ["a/1/x", "a/2", "ab", "b"]
    assert store.find("a") == [
        StoredObject(path="a/1/x", size=5),
        StoredObject(path="a/2", size=3),
    ]


def test_an_object_that_is_replaced_or_deleted_is_gone(store: DirectoryStore) -> None:
    store.put("a/b", b"old")
    store.put("a/b", b"new")
    assert (store.has("a/b"), store.read("a/b")) == (True, b"new")
    store.delete("a/b")
    store.delete("a/b")
    assert not store.has("a/b")


def test_an_object_that_is_not_there_is_said_to_be_missing(store: DirectoryStore) -> None:
    for ask in (store.size, store.read, lambda path: store.get(path, 0, 1)):
        with pytest.raises(FileNotFoundError, match="none"):
            ask("none")


def test_a_crash_leaves_the_old_content_or_the_new_and_what_was_put_stays() -> None:
    def workload(disk: FileSystem, acknowledged: list[bytes]) -> None:
        for content in (b"old", b"new"):
            DirectoryStore("/objects", disk).put("a/b", content)
            acknowledged.append(content)

    for point in every_crash_point(workload):
        store = DirectoryStore("/objects", point.file_system)
        left = store.read("a/b") if store.has("a/b") else b""
        assert (
            left in {0: (b"", b"old"), 1: (b"old", b"new"), 2: (b"new",)}[len(point.acknowledged)]
        ), point


def test_an_object_in_parts_is_whole_or_not_there(store: DirectoryStore) -> None:
    store.put_parts("a/b", [b"01", bytearray(b"234"), memoryview(b"56")])
    assert store.read("a/b") == b"0123456"
    store.put_parts("a/c", [])
    assert store.read("a/c") == b""

    def broken() -> Iterator[bytes]:
        yield b"x"
        raise ValueError("the source")

    with pytest.raises(ValueError, match="the source"):
        store.put_parts("a/b", broken())
    with pytest.raises(ValueError, match="the source"):
        store.put_parts("a/d", broken())
    assert (store.names("a"), store.read("a/b")) == (["b", "c"], b"0123456")


def test_several_objects_are_deleted_with_what_a_crash_left_of_them(
    store: DirectoryStore, tmp_path: Path
) -> None:
    for path in ("a/1", "a/2", "b/1"):
        store.put_parts(path, [b"1"])
    (tmp_path / "objects" / "a" / "2.tmp").touch()
    (tmp_path / "objects" / "a" / "3.tmp").touch()
    for _ in range(2):
        store.delete_all(["a/1", "a/3", "none/1", "b/1", "a/2"])
        assert store.find("") == []


def test_a_directory_that_a_killed_process_made_is_durable_with_the_next_object() -> None:
    disk = FakeFileSystem()
    disk.make_directory("/objects/a/b")  # Nothing of it is synced.
    store = DirectoryStore("/objects", disk)
    store.put_parts("a/b/c", [b"0"])
    store.put_parts("a/b/d", [b"1"])
    left = DirectoryStore("/objects", disk.crash(CrashMode.STRICT, 0))
    assert [one.path for one in left.find("")] == ["a/b/c", "a/b/d"]
