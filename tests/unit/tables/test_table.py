"""The directory of a table: who may load into it, what readers see, and what a crash leaves."""

import errno
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.spark.table import table_files
from ottla.tables.manifest import DataFile, LoadedPartition, ManifestEntry
from ottla.tables.table_directory import TableDirectory
from ottla.testing import FakeFileSystem, every_crash_point

TABLE = "/tables/orders"


def write(file_system: FileSystem, path: str, content: bytes = b"rows") -> None:
    file = file_system.open(path, create=True)
    file.pwrite(content, 0)
    file.close()


def entry(commit_id: int, *paths: str) -> ManifestEntry:
    return ManifestEntry(
        commit_id=commit_id,
        committed_ms=0,
        source="data",
        partitions=(
            LoadedPartition(
                topic="orders",
                topic_id=None,
                partition=0,
                from_offset=commit_id,
                until_offset=commit_id + 1,
                row_count=1,
            ),
        ),
        files=tuple(
            DataFile(
                path=path,
                size=4,
                row_count=1,
                partition=0,
                first_offset=commit_id,
                last_offset=commit_id,
            )
            for path in paths
        ),
    )


def add_load(table: TableDirectory, attempt: bytes) -> str:
    """What a load does to the disk, without Spark; returns the data file's path."""
    with table.claim():
        entries = table.entries()
        table.remove_leftovers(entries)
        directory = table.load_directory(len(entries), attempt)
        table.store.file_system.make_directory(join(table.path, directory, "_temporary", "0"))
        path = join(directory, "part-0.parquet")
        write(table.store.file_system, join(table.path, path))
        write(table.store.file_system, join(table.path, directory, ".part-0.parquet.crc"))
        table.store.sync([path])
        table.commit(entry(len(entries), path))
    return path


def names_below(file_system: FileSystem, path: str) -> set[str]:
    found = set()
    for name in file_system.list(path):
        below = join(path, name)
        status = file_system.status(below)
        assert status is not None
        found |= names_below(file_system, below) if status.is_directory else {below}
    return found


def test_an_entry_is_there_after_its_commit() -> None:
    table = TableDirectory(TABLE, FakeFileSystem())
    path = add_load(table, b"aaaa")
    assert table.entries() == [entry(0, path)]


def test_whatever_a_crash_leaves_has_whole_entries_and_the_next_load_cleans_up() -> None:
    def two_loads(file_system: FileSystem, acknowledged: list[Any]) -> None:
        for attempt in (b"aaaa", b"bbbb"):
            acknowledged.append(add_load(TableDirectory(TABLE, file_system), attempt))

    for point in every_crash_point(two_loads, seeds=2):
        table = TableDirectory(TABLE, point.file_system)
        add_load(table, b"cccc")
        entries = table.entries()
        paths = [file.path for one in entries for file in one.files]
        assert paths[: len(point.acknowledged)] == point.acknowledged, point
        # The crash may have come after the last rename, so one more load may be there.
        assert len(entries) - len(point.acknowledged) in (1, 2), point
        for path in paths:
            assert read_file(point.file_system, join(TABLE, path)) == b"rows", point
        below = names_below(point.file_system, join(TABLE, "data"))
        parquet = {path for path in below if path.endswith(".parquet")}
        assert parquet == {join(TABLE, path) for path in paths}, point


def test_a_second_load_at_the_same_time_is_refused() -> None:
    file_system = FakeFileSystem()
    with TableDirectory(TABLE, file_system).claim():
        second = TableDirectory(TABLE, file_system)
        with pytest.raises(UserError, match="another load into this table is running"):
            second.claim().__enter__()


def test_the_lock_goes_when_the_load_fails() -> None:
    file_system = FakeFileSystem()
    with pytest.raises(ZeroDivisionError), TableDirectory(TABLE, file_system).claim():
        raise ZeroDivisionError
    add_load(TableDirectory(TABLE, file_system), b"aaaa")


@pytest.mark.parametrize("names", [["notes.txt"], ["_ottla", "a"], ["a", "b", "c", "d"]])
def test_a_directory_with_other_files_is_refused_and_left_alone(names: list[str]) -> None:
    file_system = FakeFileSystem()
    file_system.make_directory(TABLE)
    for name in names:
        write(file_system, join(TABLE, name))
    shown = ", ".join(names[:3])
    with pytest.raises(UserError, match=rf"files that ottla did not load \({shown}"):
        TableDirectory(TABLE, file_system).claim().__enter__()
    assert file_system.list(TABLE) == names


def test_a_file_in_place_of_the_directory_is_refused() -> None:
    file_system = FakeFileSystem()
    file_system.make_directory("/tables")
    write(file_system, TABLE)
    with pytest.raises(UserError, match="is a file; a table needs a directory"):
        TableDirectory(TABLE, file_system).claim().__enter__()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("file:///tables/orders", "give a directory of this machine by its path"),
        ("noscheme://tables/orders", r"noscheme://tables/orders: .*pip install 'ottla\[s3\]'"),
    ],
)
def test_an_address_of_no_object_store_is_refused(address: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        TableDirectory(address)


def test_a_directory_without_a_table_has_no_entries(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no table"):
        table_files(str(tmp_path))


def test_files_that_loads_do_not_name_stay() -> None:
    file_system = FakeFileSystem()
    table = TableDirectory(TABLE, file_system)
    path = add_load(table, b"aaaa")
    leftover = join(TABLE, table.load_directory(1, b"bbbb"))
    file_system.make_directory(leftover)
    write(file_system, join(leftover, "part-7.parquet"))
    kept = {join(leftover, "notes.txt"), join(TABLE, "data", "other.parquet")}
    for one in kept:
        write(file_system, one)
    assert table.remove_leftovers(table.entries()) == 1
    assert names_below(file_system, join(TABLE, "data")) == {
        *kept,
        join(TABLE, path),
        join(TABLE, path).replace("part-0.parquet", ".part-0.parquet.crc"),
    }


def test_a_directory_that_is_still_written_to_is_left_for_the_next_load() -> None:
    class Busy(FakeFileSystem):
        def remove_directory(self, path: str) -> None:
            raise OSError(errno.ENOTEMPTY, "another file has come", path)

    table = TableDirectory(TABLE, Busy())
    path = add_load(table, b"aaaa")
    leftover = join(TABLE, table.load_directory(1, b"bbbb"))
    table.store.file_system.make_directory(leftover)
    assert table.remove_leftovers(table.entries()) == 0
    assert add_load(table, b"cccc") != path


def test_a_missing_entry_is_corruption() -> None:
    table = TableDirectory(TABLE, FakeFileSystem())
    for attempt in (b"aaaa", b"bbbb", b"cccc"):
        add_load(table, attempt)
    table.store.file_system.remove(join(TABLE, "_ottla", "manifest", f"{1:020d}.json"))
    with pytest.raises(CorruptionError, match="the entry is missing"):
        table.entries()


def test_an_entry_under_another_name_is_corruption() -> None:
    table = TableDirectory(TABLE, FakeFileSystem())
    add_load(table, b"aaaa")
    manifest = join(TABLE, "_ottla", "manifest")
    content = read_file(table.store.file_system, join(manifest, f"{0:020d}.json"))
    write(table.store.file_system, join(manifest, f"{1:020d}.json"), content)
    with pytest.raises(CorruptionError, match="says that it is commit 0"):
        table.entries()


@pytest.mark.parametrize(
    ("marker", "error", "words"),
    [
        (b'{"format": "ottla table", "version": 4}', UserError, "a table of version 4"),
        (b'{"format": "ottla table", "version": 2}', CorruptionError, "it marks no table"),
        (b'{"format": "ottla table"}', CorruptionError, "it marks no table"),
        (b"[]", CorruptionError, "it marks no table"),
        (b"", CorruptionError, "it marks no table"),
    ],
)
def test_a_strange_marker_is_refused(marker: bytes, error: type[Exception], words: str) -> None:
    table = TableDirectory(TABLE, FakeFileSystem())
    add_load(table, b"aaaa")
    replace_file(table.store.file_system, join(TABLE, "_ottla", "table.json"), marker)
    with pytest.raises(error, match=words):
        table.entries()
    with pytest.raises(error, match=words):
        table.claim().__enter__()


def test_table_files_are_the_committed_ones(tmp_path: Path) -> None:
    table = TableDirectory(str(tmp_path / "table"))
    path = add_load(table, b"aaaa")
    leftover = tmp_path / "table" / table.load_directory(1, b"bbbb")
    leftover.mkdir()
    (leftover / "part-0.parquet").write_bytes(b"rows")
    assert table_files(table.path) == [join(table.path, path)]
