"""Entries of the load manifest: round trip, and garbage in, only our error out."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid
from ottla.spark.manifest import (
    DataFile,
    LoadedPartition,
    ManifestEntry,
    OffsetRange,
    entry_file_name,
    format_entry,
    loaded_partitions,
    parse_entry,
    parse_entry_file_name,
)

counts = st.integers(0, 2**63 - 1)
ranges = st.tuples(counts, counts).map(sorted)


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
        lost=lost and OffsetRange(from_offset=lost[0], until_offset=lost[1]),
    )


files = st.builds(
    DataFile,
    path=st.sampled_from(["data/load-1/part-0.parquet", "data/part-1.parquet"]),
    size=counts,
    row_count=counts,
    partition=counts,
    first_offset=counts,
    last_offset=counts,
)
entries = st.builds(
    ManifestEntry,
    commit_id=counts,
    committed_ms=counts,
    source=st.text(),
    partitions=st.lists(partitions(), max_size=3).map(tuple),
    files=st.lists(files, max_size=3).map(tuple),
)


def example(**changes: Any) -> ManifestEntry:
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
    return ManifestEntry(**{**fields, **changes})


def loaded(*, partition: int = 0, until_offset: int = 9) -> LoadedPartition:
    return LoadedPartition(
        topic="orders",
        topic_id=Uuid(bytes(range(16))),
        partition=partition,
        from_offset=0,
        until_offset=until_offset,
        row_count=until_offset,
    )


@given(entries)
def test_an_entry_comes_back_as_it_was_written(entry: ManifestEntry) -> None:
    assert parse_entry("entry", format_entry(entry)) == entry


@given(st.binary())
def test_garbage_is_corruption(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        parse_entry("entry", content)


@given(
    st.sampled_from(["", "partitions", "files", "lost"]),
    st.text(max_size=12)
    | st.sampled_from(["commit_id", "until_offset", "path", "size", "topic_id", "files"]),
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
        assert isinstance(parse_entry("entry", json.dumps(fields).encode()), ManifestEntry)


def test_an_entry_cut_short_is_corruption() -> None:
    whole = format_entry(example()).rstrip()
    for size in range(len(whole)):
        with pytest.raises(CorruptionError):
            parse_entry("entry", whole[:size])


def test_an_entry_with_trailing_bytes_is_corruption() -> None:
    with pytest.raises(CorruptionError, match="Extra data"):
        parse_entry("entry", format_entry(example()) + b"{}")


def test_a_later_version_is_named() -> None:
    fields = {**json.loads(format_entry(example())), "version": 2}
    with pytest.raises(CorruptionError, match="its version is 2, and only 1 is known"):
        parse_entry("entry", json.dumps(fields).encode())


@pytest.mark.parametrize("path", ["/etc/rows.parquet", "data/../../rows.parquet", ".."])
def test_a_file_outside_of_the_table_is_corruption(path: str) -> None:
    fields = json.loads(format_entry(example()))
    fields["files"][0]["path"] = path
    with pytest.raises(CorruptionError, match="leads out of the table"):
        parse_entry("entry", json.dumps(fields).encode())


@given(st.integers(0, 10**20 - 1))
def test_file_names_tell_the_commit(commit_id: int) -> None:
    assert parse_entry_file_name(entry_file_name(commit_id)) == commit_id


@pytest.mark.parametrize("name", ["1.json", f"{1:020d}.json.tmp", f"{1:021d}.json", "table.json"])
def test_other_file_names_are_no_commits(name: str) -> None:
    assert parse_entry_file_name(name) is None


def test_the_newest_entry_tells_how_far_a_partition_came() -> None:
    older = example(partitions=(loaded(partition=0), loaded(partition=1)))
    newer = example(partitions=(loaded(partition=1, until_offset=20),))
    found = loaded_partitions([older, newer])
    assert {number: one.until_offset for number, one in found.items()} == {0: 9, 1: 20}
