"""A table: who may load into it, what readers see, and what a crash leaves."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import CorruptionError, UserError
from ottla.spark.table import table_files
from ottla.tables.columns.partitions import Partitioning, placed
from ottla.tables.columns.rows import row_columns
from ottla.tables.entries import Action, DataFile, LedgerEntry, LoadedPartition
from ottla.tables.formats import delta
from ottla.tables.formats.transaction_log import CommitTakenError, Contents
from ottla.tables.layout import TableLayout
from ottla.tables.ledger import ledger
from ottla.tables.table import Table

deltalake = pytest.importorskip("deltalake")

BY_DAY = TableLayout(partitioning=placed(Partitioning.by_time("day"), row_columns(), is_spec=False))


def data_file(path: str, offset: int) -> DataFile:
    return DataFile(
        path=path, size=4, row_count=1, partition=0, first_offset=offset, last_offset=offset
    )


def entry(commit_id: int, *paths: str) -> LedgerEntry:
    return LedgerEntry(
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
        files=tuple(data_file(path, commit_id) for path in paths),
    )


def add_load(table: Table, attempt: bytes = b"aaaa") -> str:
    """What a load does to the disk, without tasks; returns the data file's path."""
    with table.claim():
        number = table.state().commit_count
        path = f"{table.load_directory(number, attempt)}/part-0.parquet"
        with table.store.output(path) as file:
            file.write(b"rows")
        table.store.sync([path])
        table.commit(entry(number, path))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "orders"))


def delta_files(table: Table) -> set[str]:
    """As a reader has them that knows nothing of ottla."""
    found = deltalake.DeltaTable(table.path).get_add_actions().column("path")
    return set(found.to_pylist())


def test_an_entry_is_there_after_its_commit(table: Table) -> None:
    path = add_load(table)
    (found,) = table.entries()
    assert replace(found, layout=None) == replace(entry(0, path), version=0)
    assert found.layout is not None
    assert delta_files(table) == {path}


def test_a_second_load_at_the_same_time_is_refused(table: Table) -> None:
    with table.claim():
        second = Table(table.path)
        with pytest.raises(UserError, match="another load into this table is running; wait until"):
            second.claim().__enter__()


def test_the_lock_goes_when_the_load_fails(table: Table) -> None:
    with pytest.raises(ZeroDivisionError), table.claim():
        raise ZeroDivisionError
    add_load(table)


@pytest.mark.parametrize("names", [["notes.txt"], ["_ottla/a"], ["a", "b", "c", "d"]])
def test_a_directory_with_other_files_is_refused_and_left_alone(
    table: Table, names: list[str]
) -> None:
    for name in names:
        path = Path(table.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(UserError, match="files that ottla did not load"):
        table.claim().__enter__()
    assert sorted(Path(table.path).rglob("*")) == before


@pytest.mark.parametrize("below", ["", "/orders", "/tables/orders"])
def test_a_file_in_place_of_a_directory_is_refused_by_its_name(tmp_path: Path, below: str) -> None:
    (tmp_path / "afile").write_bytes(b"")
    with pytest.raises(UserError, match=r"/afile is a file, .*; name another path$"):
        Table(f"{tmp_path}/afile{below}")


def test_a_delta_table_of_somebody_else_is_refused(table: Table) -> None:
    import pyarrow as pa

    deltalake.write_deltalake(table.path, pa.table({"a": [1]}))
    with pytest.raises(UserError, match="a Delta table that ottla did not load"):
        table.claim().__enter__()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("file:///tables/orders", "give a directory of this machine by its path"),
        (
            "noscheme://tables/orders",
            "noscheme://tables/orders: a table lies in a directory, given by its path, or",
        ),
        ("file:/tables/orders", "give a directory of this machine by its path"),
        ("s3:/bucket/orders", "write s3://bucket/orders, or ./s3:/bucket/orders for a directory"),
        ("iceberg:/local/shop.orders", "write iceberg://local/shop.orders, or "),
        ("hdfs://namenode/orders", "a table lies in a directory, given by its path, or"),
        ("memory:///orders", "a table lies in a directory, given by its path, or"),
        ("S3://bucket/orders", "a table lies in a directory, given by its path, or"),
        ("s3://", "s3://: write s3://BUCKET/TABLE"),
        ("gs:///orders", "gs:///orders: write gs://BUCKET/TABLE"),
        ("az://", "az://: write az://CONTAINER/TABLE"),
    ],
)
def test_an_address_of_no_object_store_is_refused(address: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Table(address).require()


@pytest.mark.parametrize("name", ["why?", "issue#1", "100%25"])
def test_a_directory_in_which_no_delta_table_can_be_read_is_refused_at_once(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UserError, match="choose another"):
        Table(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_a_table_has_no_entries(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no table"):
        table_files(str(tmp_path))
    with pytest.raises(UserError, match="holds no table"):
        Table(str(tmp_path)).entries()
    assert Table(str(tmp_path)).state().commit_count == 0


def test_the_layout_is_the_one_that_was_committed_last(table: Table) -> None:
    path = "data/load-0/day=2026-01-31/part-0.parquet"
    with table.claim():
        one = replace(data_file(path, 0), values={"day": "2026-01-31"})
        table.commit(replace(entry(0), files=(one,)), pinned=table.pinned(BY_DAY))
    assert Table(table.path).layout() == BY_DAY
    assert deltalake.DeltaTable(table.path).metadata().partition_columns == ["day"]


def test_who_comes_second_with_a_commit_is_refused(table: Table) -> None:
    second = Table(table.path)
    add_load(table)
    assert second.state().commit_count == 1
    add_load(table)
    with pytest.raises(CommitTakenError, match="another writer has made commit 1"):
        second.commit(entry(1, "data/other.parquet"))
    assert len(table.entries()) == 2


def test_a_commit_of_another_program_comes_in_between(table: Table) -> None:
    path = add_load(table)
    deltalake.DeltaTable(table.path).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 9 days"}
    )
    other = add_load(table, b"bbbb")
    assert [one.version for one in table.entries()] == [0, 2]
    assert delta_files(table) == {path, other}


def test_a_reader_sees_a_commit_that_the_ledger_does_not_have_yet(table: Table) -> None:
    paths = [add_load(table), add_load(table)]
    whole = table.entries()
    Path(table.path, ledger.LEDGER_DIRECTORY, f"{1:020d}.json").unlink()
    found = Table(table.path)
    assert found.entries() == whole
    assert found.state() == table.state()
    assert {one.path for one in found.current_files()} == set(paths)
    with found.claim():
        assert Table(table.path).ledger.entries() == whole


def test_of_a_commit_whose_history_is_gone_the_log_has_enough_to_continue(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow as pa

    table = Table(str(tmp_path / "orders"))
    add_load(table)
    with table.claim():
        with table.store.output("data/b.parquet") as file:
            import pyarrow.parquet as pq

            rows = {"partition": pa.array([0], pa.int32()), "offset": [1]}
            pq.write_table(pa.table(rows), file)
        table.commit(entry(1, "data/b.parquet"))
    deltalake.DeltaTable(table.path).create_checkpoint()
    Path(table.path, ledger.LEDGER_DIRECTORY, f"{1:020d}.json").unlink()
    for number in range(2):
        Path(table.path, "_delta_log", f"{number:020d}.json").unlink()
    found = Table(table.path)
    (loaded,) = found.state().loaded.values()
    assert (loaded.from_offset, loaded.until_offset, loaded.row_count) == (1, 2, 1)
    assert [file.path for file in found.entries()[1].files] == ["data/b.parquet"]


def test_a_missing_entry_is_corruption(table: Table) -> None:
    for _ in range(3):
        add_load(table)
    Path(table.path, ledger.LEDGER_DIRECTORY, f"{1:020d}.json").unlink()
    for read in (Table(table.path).entries, Table(table.path).state):
        with pytest.raises(CorruptionError, match="the entry is missing"):
            read()


def test_an_entry_under_another_name_is_corruption(table: Table) -> None:
    add_load(table)
    add_load(table)
    directory = Path(table.path, ledger.LEDGER_DIRECTORY)
    (directory / f"{1:020d}.json").write_bytes((directory / f"{0:020d}.json").read_bytes())
    with pytest.raises(CorruptionError, match="it is the entry of commit 0"):
        Table(table.path).entries()


def test_a_ledger_that_knows_of_more_than_the_log_is_corruption(table: Table) -> None:
    add_load(table)
    table.ledger.append(entry(1))
    with pytest.raises(CorruptionError, match="has commit 1, which is not in the table's log"):
        table.entries()


def test_nothing_is_loaded_where_the_log_has_lost_a_commit_that_the_ledger_has(
    table: Table,
) -> None:
    for _ in range(2):
        add_load(table)
    Path(table.path, "_delta_log", f"{1:020d}.json").unlink()
    with pytest.raises(CorruptionError, match="has commit 1, which is not in the table's log"):
        Table(table.path).state()
    shutil.rmtree(Path(table.path, "_delta_log"))
    with pytest.raises(CorruptionError, match="has commit 1, which is not in the table's log"):
        Table(table.path).state()


def test_a_commit_that_comes_while_a_reader_reads_is_no_corruption(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_load(table)
    for read in ("entries", "state"):
        reader = Table(table.path)
        reads = getattr(reader.ledger, read)

        def late(reads: Any = reads) -> Any:
            add_load(table)
            return reads()

        monkeypatch.setattr(reader.ledger, read, late)
        getattr(reader, read)()


def test_entries_and_files_of_one_moment_are_of_the_same_commits(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_load(table)
    reader = Table(table.path)
    listed, loads = reader.log.contents, iter(range(1))

    def late(version: int | None = None) -> Contents:
        for _ in loads:
            add_load(table)
        return listed(version)

    monkeypatch.setattr(reader.log, "contents", late)
    entries, files = reader.moment()
    assert {one.path for one in files} == {one.path for found in entries for one in found.files}
    assert len(entries) == 2


def test_entries_that_share_a_file_are_the_same_entries(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "ROLLED", 3)
    paths = [add_load(table) for _ in range(8)]
    names = sorted(path.name for path in Path(table.path, ledger.LEDGER_DIRECTORY).iterdir())
    assert names == [f"{0:020d}.jsonl", f"{3:020d}.jsonl", f"{6:020d}.json", f"{7:020d}.json"]
    again = Table(table.path)
    assert again.state() == table.state()
    assert [file.path for one in again.entries() for file in one.files] == paths
    assert again.state().loaded[0].until_offset == 8


def test_a_rolled_up_file_that_is_cut_is_corruption(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "ROLLED", 2)
    add_load(table)
    add_load(table)
    (path,) = Path(table.path, ledger.LEDGER_DIRECTORY).iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptionError):
        Table(table.path).state()
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(CorruptionError, match="it has 1 lines"):
        Table(table.path).entries()


def test_a_load_reads_one_entry_however_many_there_are(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        add_load(table)
    opened = Table(table.path)
    read: list[str] = []
    reads = opened.store.read
    monkeypatch.setattr(opened.store, "read", lambda path: read.append(path) or reads(path))
    add_load(opened)
    entries = [path for path in read if path.startswith("_ottla/ledger/")]
    assert set(entries) == {f"_ottla/ledger/{4:020d}.json"}
    # The entries of the log up to the last commit are durable, and not read or synced again.
    assert {path for path in read if path.startswith("_delta_log/0")} == {
        f"_delta_log/{4:020d}.json"
    }


def test_a_writer_that_stays_asks_the_library_only_for_checkpoints(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library lists the whole log for each question, which has an entry for each load."""
    monkeypatch.setattr(delta, "CHECKPOINT_INTERVAL", 4)
    asked: list[str] = []
    for name in ("__init__", "update_incremental", "transaction_version"):
        monkeypatch.setattr(deltalake.DeltaTable, name, noted(name, asked))
    counts = []
    for _ in range(11):
        asked.clear()
        add_load(table)
        counts.append(len(asked))
    assert counts[2:4] + counts[5:8] == [0] * 5
    assert counts[4] == counts[8] > 0
    assert len(delta_files(table)) == 11


def test_a_command_asks_the_library_nothing_about_a_table_of_many_loads(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        add_load(table)
    asked: list[str] = []
    monkeypatch.setattr(deltalake.DeltaTable, "__init__", noted("__init__", asked))
    last = add_load(Table(table.path))
    assert not asked
    assert last in delta_files(table)
    entry = Path(table.path, "_delta_log", f"{3:020d}.json")
    entry.write_bytes(entry.read_bytes().replace(b'"columns": ', b'"other": '))
    asked.clear()
    last = add_load(Table(table.path))
    assert asked  # what another program has written says less
    assert last in delta_files(table)


def noted(name: str, into: list[str]) -> Any:
    real = getattr(deltalake.DeltaTable, name)

    def note(self: Any, *arguments: Any, **named: Any) -> Any:
        into.append(name)
        return real(self, *arguments, **named)

    return note


@pytest.mark.parametrize("entry", ["rows", "columns", "nonsense"])
def test_a_writer_that_stays_sees_what_others_commit(table: Table, entry: str) -> None:
    for _ in range(3):
        add_load(table)
    other = deltalake.DeltaTable(table.path)
    if entry == "rows":
        other.create_write_transaction([], "append", other.schema())
    elif entry == "columns":
        other.alter.add_columns([deltalake.Field("more", deltalake.schema.PrimitiveType("long"))])
    before = deltalake.DeltaTable(table.path).version()
    if entry == "nonsense":
        table.store.put(f"_delta_log/{before + 1:020d}.json", b"{")
        with table.claim():  # which removes it: nobody can have been told of it
            pass
    last = add_load(table)
    assert deltalake.DeltaTable(table.path).version() == before + 1
    assert last in delta_files(table)
    assert Table(table.path).state() == table.state()


def test_a_commit_that_others_have_overtaken_is_made_after_theirs(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_load(table)
    add_load(table)
    put_new = table.store.put_new

    def overtaken(path: str, content: bytes) -> bool:
        monkeypatch.undo()
        other = deltalake.DeltaTable(table.path)
        other.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
        return bool(put_new(path, content))

    monkeypatch.setattr(table.store, "put_new", overtaken)
    last = add_load(table)
    assert deltalake.DeltaTable(table.path).version() == 3
    assert last in delta_files(table)
    assert table.state().commit_count == 3


def test_checkpoints_are_as_rare_as_their_files_are_many() -> None:
    every = [delta._checkpoint_interval(one) for one in (0, 1999, 2000, 10_000)]
    assert every == [20, 20, 40, 120]


def test_entries_of_an_earlier_version_are_summed_up(table: Table) -> None:
    paths = [add_load(table) for _ in range(3)]
    for number in range(3):
        path = Path(table.path, "_ottla", "ledger", f"{number:020d}.json")
        fields = json.loads(path.read_bytes())
        del fields["state"]
        path.write_text(json.dumps(fields) + "\n")
    state = Table(table.path).state()
    assert (state.commit_count, state.version) == (3, 2)
    assert state.loaded[0].until_offset == 3
    assert add_load(Table(table.path)) not in paths


def test_a_compaction_changes_no_row_for_readers_of_changes(table: Table) -> None:
    paths = [add_load(table), add_load(table)]
    old = table.current_files()
    new = replace(
        entry(2, "data/large"), action=Action.OPTIMIZE, partitions=(), replaces=tuple(paths)
    )
    with table.claim():
        table.commit(new, old)
    assert delta_files(table) == {"data/large"}
    log = Path(table.path, "_delta_log", f"{2:020d}.json").read_text()
    assert '"dataChange":true' not in log


def test_table_files_are_the_committed_ones(table: Table) -> None:
    path = add_load(table)
    leftover = Path(table.path, table.load_directory(1, b"bbbb"), "part-0.parquet")
    leftover.parent.mkdir()
    leftover.write_bytes(b"rows")
    assert table_files(table.path) == [f"{table.path}/{path}"]
