"""Tables that several may write at once: fsspec's store in memory, whose put takes a condition."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ottla.base.errors import CorruptionError, UserError
from ottla.tables.layout import RAW, Partitioning, PartitionUnit, TableLayout
from ottla.tables.manifest import ManifestEntry, entry_path, format_entry
from ottla.tables.table_directory import MARKER, CommitTakenError, TableDirectory
from tests.unit.tables.test_table import entry

fsspec: Any = pytest.importorskip("fsspec")

URL = "memory://bucket/orders"
BY_DAY = TableLayout(partitioning=Partitioning(unit=PartitionUnit.DAY))
BY_HOUR = TableLayout(partitioning=Partitioning(unit=PartitionUnit.HOUR))


@pytest.fixture(autouse=True)
def _empty_store() -> Iterator[None]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield
    store.store.clear()
    store.pseudo_dirs[:] = [""]


def table_with(*commits: ManifestEntry) -> TableDirectory:
    table = TableDirectory(URL)
    with table.claim():
        for one in commits:
            table.commit(one)
    return table


def written(table: TableDirectory, commit_id: int, attempt: bytes = b"aaaa") -> str:
    path = f"{table.load_directory(commit_id, attempt)}/part-0.parquet"
    table.store.create(path, b"rows")
    return path


def test_a_table_is_seen_by_whoever_opens_its_address() -> None:
    table_with(entry(0, "data/a"), entry(1, "data/b"))
    table = TableDirectory(URL + "/")
    assert (table.path, [one.commit_id for one in table.entries()]) == (URL, [0, 1])
    assert [file.path for file in table.current_files()] == ["data/a", "data/b"]
    assert table.store.read("_ottla/current.txt") == b"data/a\ndata/b\n"


def test_two_may_claim_it_and_one_makes_a_commit() -> None:
    one, other = TableDirectory(URL), TableDirectory(URL)
    with one.claim(), other.claim():
        one.commit(entry(0, "data/a"))
        with pytest.raises(CommitTakenError, match="another writer has made commit 0 meanwhile"):
            other.commit(entry(0, "data/b"))
        other.commit(entry(1, "data/b"))
    assert [file.path for file in one.current_files()] == ["data/a", "data/b"]


def test_a_commit_whose_answer_was_lost_is_known_by_its_content() -> None:
    table = table_with()
    table.store.create(entry_path(0), format_entry(entry(0, "data/a")))
    table.commit(entry(0, "data/a"))
    assert len(table.entries()) == 1


def test_a_list_that_was_overtaken_is_written_again() -> None:
    one, other = table_with(entry(0, "data/a")), TableDirectory(URL)
    put = one.store.replace

    def overtaken(path: str, content: bytes, *, durably: bool = True) -> None:
        if len(other.entries()) == 2:
            other.commit(entry(2, "data/c"))
        put(path, content, durably=durably)

    one.store.replace = overtaken  # type: ignore[method-assign]
    one.commit(entry(1, "data/b"))
    assert one.store.read("_ottla/current.txt") == b"data/a\ndata/b\ndata/c\n"


def test_the_layout_comes_with_the_commit_that_wins() -> None:
    one, other = TableDirectory(URL), TableDirectory(URL)
    with one.claim(), other.claim():
        one.pin(BY_DAY)
        other.pin(BY_HOUR)
        assert one.layout() == RAW
        other.commit(entry(0, "data/b"))
        with pytest.raises(CommitTakenError):
            one.commit(entry(0, "data/a"))
        one.commit(entry(1, "data/a"))
    assert one.layout() == other.layout() == BY_HOUR
    assert [found.layout is not None for found in one.entries()] == [True, False]


def test_a_layout_that_is_none_is_corruption() -> None:
    table = table_with(replace(entry(0, "data/a"), layout={"decodings": 7}))
    with pytest.raises(CorruptionError, match="an entry has no layout of a table"):
        table.layout()


def test_leftovers_that_may_still_be_committed_stay_until_they_are_old() -> None:
    table = TableDirectory(URL)
    with table.claim():
        kept, lost = written(table, 0), written(table, 0, b"bbbb")
        table.commit(entry(0, kept))
        next_one = written(table, 1)
        table.store.create("data/notes.txt", b"mine")
    assert table.remove_leftovers(table.entries()) == 0
    assert table.remove_leftovers(table.entries(), before_ms=0) == 1
    there = set(table.sizes())
    assert there == {kept, next_one, "data/notes.txt"}
    assert lost not in there
    assert table.remove_leftovers(table.entries(), before_ms=10**15) == 1
    assert set(table.sizes()) == {kept, "data/notes.txt"}


def test_an_address_with_other_things_is_refused() -> None:
    table = TableDirectory(URL)
    table.store.create("thesis.tex", b"chapter one")
    with pytest.raises(UserError, match=r"files that ottla did not load \(thesis\.tex\)"):
        table.claim().__enter__()
    assert not table.store.has(MARKER)


def test_a_store_that_overlooks_the_condition_of_a_put_is_refused() -> None:
    table = TableDirectory(URL)
    table.store.create = table.store.replace  # type: ignore[method-assign]
    with pytest.raises(UserError, match="a table needs a store with conditional puts"):
        table.claim().__enter__()


def test_what_a_store_says_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError("no credentials")

    table = TableDirectory(URL)
    monkeypatch.setattr(fsspec.filesystem("memory").__class__, "exists", refused)
    with pytest.raises(UserError, match="memory://bucket/orders: no credentials"):
        table.entries()
