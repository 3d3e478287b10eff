"""What an audit finds in ledgers, before it looks at a row."""

from dataclasses import replace

import pytest

from ottla.base.ids import Uuid
from ottla.base.partitions import OffsetRange
from ottla.loading.auditing.ledger import check_tiling, check_topic
from ottla.sources.log_source import LogPartition
from ottla.tables.entries import Action, DataFile, LedgerEntry, LoadedPartition

ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(range(1, 17)))


def loaded(from_offset: int, until_offset: int, *, rows: int | None = None) -> LoadedPartition:
    return LoadedPartition(
        topic="orders",
        topic_id=ID,
        partition=0,
        from_offset=from_offset,
        until_offset=until_offset,
        row_count=until_offset - from_offset if rows is None else rows,
    )


def data_file(first: int, last: int, name: str = "part") -> DataFile:
    return DataFile(
        path=f"data/{name}-{first}.parquet",
        size=10,
        row_count=last - first + 1,
        partition=0,
        first_offset=first,
        last_offset=last,
    )


def entry(number: int, partition: LoadedPartition, *files: DataFile) -> LedgerEntry:
    return LedgerEntry(
        commit_id=number,
        committed_ms=0,
        source="data/",
        partitions=(partition,),
        files=files,
    )


def offered(topic_id: Uuid | None = ID) -> dict[int, LogPartition]:
    log = LogPartition(
        topic="orders", topic_id=topic_id, partition=0, start_offset=0, end_offset=100
    )
    return {0: log}


def test_loads_that_follow_each_other_tile() -> None:
    entries = [
        entry(0, loaded(5, 15), data_file(5, 9), data_file(10, 14)),
        entry(1, loaded(15, 15)),
        entry(2, loaded(15, 20), data_file(15, 19)),
    ]
    assert check_tiling(entries) == []


def test_a_range_that_was_lost_and_let_go_is_no_gap() -> None:
    after = replace(loaded(30, 32), lost=OffsetRange(from_offset=15, until_offset=30))
    entries = [
        entry(0, loaded(5, 15), data_file(5, 14)),
        entry(1, after, data_file(30, 31)),
    ]
    assert check_tiling(entries) == []


@pytest.mark.parametrize(
    ("second", "kind", "text"),
    [
        (loaded(17, 20), "gap", "offsets 15 to 16 are missing before load 1"),
        (loaded(12, 20), "overlap", "offsets 12 to 14 are duplicated before load 1"),
    ],
)
def test_loads_that_do_not_tile_are_named_with_the_offsets(
    second: LoadedPartition, kind: str, text: str
) -> None:
    files = (data_file(second.from_offset, second.until_offset - 1),)
    found = check_tiling([entry(0, loaded(5, 15), data_file(5, 14)), entry(1, second, *files)])
    assert [one.kind for one in found] == [kind]
    assert text in found[0].text


def test_files_must_hold_what_their_load_states() -> None:
    (found,) = check_tiling([entry(0, loaded(0, 10, rows=10), data_file(0, 8))])
    assert found.text == "load 0, partition 0: its files have 9 rows, 10 expected"
    outside = check_tiling([entry(0, loaded(0, 10, rows=10), data_file(1, 10))])
    assert [one.kind for one in outside] == ["overlap"]


def test_a_rerun_must_lie_within_what_was_loaded() -> None:
    load = entry(0, loaded(0, 10), data_file(0, 9))
    rerun = replace(entry(1, loaded(3, 7), data_file(3, 6)), action=Action.RERUN)
    assert check_tiling([load, rerun]) == []
    (found,) = check_tiling([load, replace(rerun, partitions=(loaded(3, 12, rows=4),))])
    assert (found.kind, found.offset) == ("gap", 10)
    assert "rerun 1 read offset 10, which no load had read" in found.text


def test_an_optimization_must_bring_as_many_rows_as_it_replaces() -> None:
    load = entry(0, loaded(0, 10), data_file(0, 4), data_file(5, 9))
    compact = replace(
        entry(1, loaded(0, 0), data_file(0, 8, "new")),
        action=Action.OPTIMIZE,
        partitions=(),
        replaces=tuple(file.path for file in load.files),
    )
    (found,) = check_tiling([load, compact])
    assert found.text == "optimization 1, partition 0: 10 rows went in, 9 came out"


def test_what_files_of_other_programs_had_is_not_asked_of_a_compaction() -> None:
    load = entry(0, loaded(0, 10), data_file(0, 9))
    compact = replace(
        entry(1, loaded(0, 0), data_file(0, 9, "compact")),
        partitions=(),
        action=Action.OPTIMIZE,
        replaces=("part-of-another-program.parquet",),
    )
    assert check_tiling([load, compact]) == []


def test_a_table_of_another_topic_is_reported() -> None:
    entries = [entry(0, loaded(0, 10), data_file(0, 9))]
    assert check_topic(entries, "orders", offered()) == []
    assert check_topic(entries, "orders", offered(None)) == []
    (other,) = check_topic(entries, "payments", offered())
    assert "it was loaded from topic orders" in other.text
    (again,) = check_topic(entries, "orders", offered(OTHER_ID))
    assert "from a deleted topic" in again.text
    (missing,) = check_topic(entries, "orders", {})
    assert "the log has no such partition" in missing.text
