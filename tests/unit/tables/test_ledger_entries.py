"""Entries of a table's ledger: round trip, and garbage in, only our error out."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid
from ottla.base.partitions import OffsetRange
from ottla.record.batch_roll_up import BatchRollUp
from ottla.tables.entries import (
    Action,
    DataFile,
    FileRole,
    LedgerEntry,
    LoadedPartition,
    folded_files,
    format_entry,
    loaded_partitions,
    parse_entry,
    total_size,
)

counts = st.integers(0, 2**63 - 1)
ranges = st.tuples(counts, counts).map(sorted)

roll_ups = st.builds(
    BatchRollUp, batch_count=counts, crc=st.integers(0, 2**32 - 1), leader_epoch=st.integers(-1, 9)
)
paths = st.sampled_from(["data/load-1/part-0.parquet", "data/part-1.parquet"])


@st.composite
def partitions(draw: st.DrawFn) -> LoadedPartition:
    from_offset, until_offset = draw(ranges)
    lost = draw(st.none() | ranges)
    return LoadedPartition(
        topic=draw(st.text()),
        topic_id=draw(st.none() | st.binary(min_size=16, max_size=16).map(Uuid)),
        partition=draw(counts),
        from_offset=from_offset,
        until_offset=until_offset,
        row_count=draw(counts),
        quarantined_count=draw(counts),
        copied_count=draw(counts),
        log_end_offset=draw(st.none() | counts),
        batches=draw(st.none() | roll_ups),
        lost=lost and OffsetRange(from_offset=lost[0], until_offset=lost[1]),
    )


files = st.builds(
    DataFile,
    path=paths,
    size=counts,
    row_count=counts,
    partition=counts,
    first_offset=counts,
    last_offset=counts,
    role=st.sampled_from(FileRole),
    values=st.dictionaries(st.text(), st.text(), max_size=2),
    times=st.none() | st.tuples(counts, counts),
)
entries = st.builds(
    LedgerEntry,
    commit_id=counts,
    committed_ms=counts,
    source=st.text(),
    partitions=st.lists(partitions(), max_size=3).map(tuple),
    files=st.lists(files, max_size=3).map(tuple),
    action=st.sampled_from(Action),
    replaces=st.lists(paths, max_size=2).map(tuple),
    asked_ms=st.none() | counts,
    schema=st.none() | st.text(),
    version=st.none() | counts,
)


def example(**changes: Any) -> LedgerEntry:
    fields: dict[str, Any] = {
        "commit_id": 3,
        "committed_ms": 1_700_000_000_000,
        "source": "data",
        "partitions": (loaded(until_offset=9),),
        "files": (
            DataFile(
                path="data/load-3/part-0.parquet",
                size=10,
                row_count=9,
                partition=0,
                first_offset=0,
                last_offset=8,
            ),
        ),
    }
    return LedgerEntry(**{**fields, **changes})


def loaded(*, partition: int = 0, until_offset: int = 9) -> LoadedPartition:
    return LoadedPartition(
        topic="orders",
        topic_id=Uuid(bytes(range(16))),
        partition=partition,
        from_offset=0,
        until_offset=until_offset,
        row_count=until_offset,
    )


@pytest.mark.slow
@given(entries)
def test_an_entry_comes_back_as_it_was_written(entry: LedgerEntry) -> None:
    assert parse_entry("entry", format_entry(entry)) == entry


@given(st.binary())
def test_garbage_is_corruption(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        parse_entry("entry", content)


@pytest.mark.slow
@given(
    st.sampled_from(["", "partitions", "files", "lost"]),
    st.text(max_size=12)
    | st.sampled_from(
        [
            *("commit_id", "until_offset", "path", "size", "topic_id", "files", "action"),
            *(
                "replaces",
                "role",
                "values",
                "batches",
                "schema",
                "asked_ms",
                "quarantined_count",
                "times",
            ),
        ]
    ),
    st.none() | st.booleans() | st.integers(max_value=-1) | st.text() | st.lists(st.integers()),
)
def test_a_field_of_another_kind_is_corruption_or_no_field(
    where: str, name: str, value: object
) -> None:
    lost = OffsetRange(from_offset=0, until_offset=4)
    partition = LoadedPartition(
        topic="t", topic_id=None, partition=0, from_offset=4, until_offset=5, row_count=1, lost=lost
    )
    fields = json.loads(format_entry(example(partitions=(partition,))))
    part = fields["partitions"][0]
    target = {"": fields, "lost": part["lost"], "partitions": part}.get(where)
    (fields["files"][0] if target is None else target)[name] = value
    with suppress(CorruptionError):
        assert isinstance(parse_entry("entry", json.dumps(fields).encode()), LedgerEntry)


def test_an_entry_cut_short_is_corruption() -> None:
    whole = format_entry(example()).rstrip()
    for size in range(len(whole)):
        with pytest.raises(CorruptionError):
            parse_entry("entry", whole[:size])


def test_an_entry_with_trailing_bytes_is_corruption() -> None:
    with pytest.raises(CorruptionError, match="Extra data"):
        parse_entry("entry", format_entry(example()) + b"{}")


@pytest.mark.parametrize("version", [1, 3])
def test_another_version_is_refused_by_name_with_what_to_do(version: int) -> None:
    fields = {**json.loads(format_entry(example())), "version": version}
    with pytest.raises(CorruptionError, match=f"entry.*version {version}, and this ottla knows 2"):
        parse_entry("entry", json.dumps(fields).encode())


def test_the_newest_entry_says_how_far_a_partition_came() -> None:
    older = example(partitions=(loaded(partition=0), loaded(partition=1)))
    newer = example(partitions=(loaded(partition=1, until_offset=20),))
    found = loaded_partitions([older, newer])
    assert {number: one.until_offset for number, one in found.items()} == {0: 9, 1: 20}


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/part.parquet", "data/../../x", 7])
@pytest.mark.parametrize("place", ["files", "replaces"])
def test_a_path_that_leads_out_of_the_table_is_corruption(path: object, place: str) -> None:
    fields = json.loads(format_entry(example()))
    if place == "files":
        fields["files"][0]["path"] = path
    else:
        fields["replaces"] = [path]
    with pytest.raises(CorruptionError, match=r"leads out of the table|path is 7"):
        parse_entry("entry", json.dumps(fields).encode())


def test_replaced_files_are_the_tables_no_longer() -> None:
    first, second = (replace(example().files[0], path=f"data/part-{n}.parquet") for n in (0, 1))
    load = example(files=(first,))
    optimize = example(
        action=Action.OPTIMIZE, files=(second,), replaces=(first.path,), partitions=()
    )
    assert folded_files([load]) == [first]
    assert folded_files([load, optimize]) == [second]


def test_a_file_of_two_partitions_is_there_once_by_its_size() -> None:
    one = example().files[0]
    assert total_size([one, replace(one, partition=1), replace(one, path="data/other")]) == 20


def test_only_loads_say_where_the_next_one_begins() -> None:
    load = example(partitions=(loaded(until_offset=9),))
    rerun = example(action=Action.RERUN, partitions=(loaded(until_offset=5),))
    assert loaded_partitions([load, rerun])[0].until_offset == 9
