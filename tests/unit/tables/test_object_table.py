"""Tables copied into an object store: fsspec's own, in memory, whose put takes a condition."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.cli.main import main
from ottla.tables.manifest import Action, DataFile, ManifestEntry
from ottla.tables.object_table import ObjectTable, publish
from ottla.tables.table_directory import TableDirectory

fsspec: Any = pytest.importorskip("fsspec")

URL = "memory://bucket/orders"


class Stopped(BaseException):
    """Ends a copy on the spot, as a kill does."""


@pytest.fixture(autouse=True)
def _empty_store() -> Iterator[None]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield
    store.store.clear()


def commit(path: Path, *names: str, replaces: tuple[str, ...] = ()) -> None:
    table = TableDirectory(str(path))
    with table.claim():
        number = len(table.entries())
        files = []
        for name in names:
            file = path / "data" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(name.encode())
            files.append(
                DataFile(
                    path=f"data/{name}",
                    size=len(name),
                    row_count=1,
                    partition=0,
                    first_offset=number,
                    last_offset=number,
                )
            )
        table.commit(
            ManifestEntry(
                commit_id=number,
                committed_ms=number,
                source="data",
                partitions=(),
                files=tuple(files),
                action=Action.COMPACT if replaces else Action.LOAD,
                replaces=replaces,
            )
        )


def test_commits_are_copied_once_and_readers_go_by_the_newest_list(tmp_path: Path) -> None:
    commit(tmp_path, "a", "b")
    first = publish(str(tmp_path), URL)
    assert (first.new_commit_count, first.uploaded_count) == (1, 2)
    commit(tmp_path, "c")
    commit(tmp_path, "d", replaces=("data/a", "data/b"))
    second = publish(str(tmp_path), URL)
    assert (second.new_commit_count, second.uploaded_count, second.commit_count) == (2, 2, 3)
    files = ObjectTable(URL).files()
    assert [fsspec.open(file).open().read() for file in files] == [b"c", b"d"]
    assert publish(str(tmp_path), URL).new_commit_count == 0


def test_of_two_writers_of_one_commit_one_is_refused(tmp_path: Path) -> None:
    commit(tmp_path / "one", "a")
    commit(tmp_path / "other", "b")
    publish(str(tmp_path / "one"), URL)
    commit(tmp_path / "other", "c")
    with pytest.raises(UserError, match=r"another writer has put another _ottla/manifest/0{20}\."):
        publish(str(tmp_path / "other"), URL)
    assert [file.rsplit("/", 1)[-1] for file in ObjectTable(URL).files()] == ["a"]


def test_a_writer_that_comes_second_between_look_and_put_is_refused(tmp_path: Path) -> None:
    commit(tmp_path / "one", "a")
    commit(tmp_path / "other", "b")

    def overtake(_: str) -> None:
        publish(str(tmp_path / "one"), URL)

    with pytest.raises(UserError, match="another writer"):
        publish(str(tmp_path / "other"), URL, on_upload=overtake)
    assert [file.rsplit("/", 1)[-1] for file in ObjectTable(URL).files()] == ["a"]


def test_a_copy_that_stopped_shows_nothing_and_is_carried_on(tmp_path: Path) -> None:
    commit(tmp_path, "a", "b")
    publish(str(tmp_path), URL)
    commit(tmp_path, "c", "d")

    def stop(path: str) -> None:
        if path == "data/d":
            raise Stopped

    with pytest.raises(Stopped):
        publish(str(tmp_path), URL, on_upload=stop)
    assert len(ObjectTable(URL).files()) == 2
    report = publish(str(tmp_path), URL)
    assert (report.new_commit_count, report.uploaded_count) == (1, 1)
    assert len(ObjectTable(URL).files()) == 4


def test_an_address_without_a_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no table that ottla published"):
        ObjectTable(URL).files()
    with pytest.raises(UserError, match="noscheme://x: "):
        ObjectTable("noscheme://x")


def test_the_command_says_what_is_there_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(tmp_path, "a", "b")
    for words in ("1 new commits, 2 files of 2 bytes", "nothing new"):
        with pytest.raises(SystemExit) as end:
            main(["table", "publish", str(tmp_path), URL])
        assert not end.value.code
        assert words in capsys.readouterr().out
