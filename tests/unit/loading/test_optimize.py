"""Which files of a table are put together, and rows in order of their key or time."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.table
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.tables.columns.identity import Upsert
from ottla.tables.entries import DataFile
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, mergeable_groups, optimize
from ottla.tables.maintenance.sorting import SortColumn


def files_of(*sizes: int) -> list[DataFile]:
    return [
        DataFile(
            path=f"data/load/{number}",
            size=size,
            row_count=10,
            partition=0,
            first_offset=10 * number,
            last_offset=10 * number + 9,
        )
        for number, size in enumerate(sizes)
    ]


def planned(files: list[DataFile], keys: dict[str, tuple[str, ...]] | None = None) -> list[str]:
    every = keys or {file.path: ("0",) for file in files}
    groups = mergeable_groups(reversed(files), every, target_size=100)
    return ["".join(file.path[-1] for file in group) for group in groups]


def test_files_that_follow_each_other_go_together_up_to_the_target() -> None:
    assert planned(files_of(40, 40, 40, 40, 20)) == ["01", "234"]


def test_a_large_file_between_small_ones_stays_and_parts_them() -> None:
    assert planned(files_of(10, 10, 200, 10, 10)) == ["01", "34"]
    assert planned(files_of(10, 200, 10)) == []


def test_what_has_another_key_stays_apart() -> None:
    files = files_of(10, 10, 10, 10)
    keys = {file.path: (str(number % 2),) for number, file in enumerate(files)}
    assert planned(files, keys) == ["02", "13"]


def test_nothing_is_done_twice() -> None:
    assert planned(files_of(100, 100)) == []
    assert planned([]) == []


def loaded_in_disorder(path: Path, *, is_latest: bool = False) -> str:
    """Keys and times in disorder, over two partitions and three loads."""
    pytest.importorskip("deltalake")
    chance, table = random.Random(3), str(path / "table")
    place = LoadRoute(str(path / "log"), "orders", table)
    options = LoadOptions(layout=LayoutOptions(upsert=Upsert() if is_latest else None))
    with ottla.open(path / "log") as log:
        log.create_topic("orders", partitions=2)
    for _ in range(3):
        with ottla.open(path / "log") as log:
            for number in chance.sample(range(1000), 400):
                key = b"%04d" % number
                time_ms = 1_000_000 + chance.randrange(10**9)
                log.append("orders", key * 5, key=key, partition=number % 2, timestamp_ms=time_ms)
        load(load_job(place, LocalEngine(), options=options))
    return table


def rows_of(table: str) -> list[dict[str, Any]]:
    rows = ottla.table.dataset(table).to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def spans(table: str, column: str) -> list[tuple[int, Any, Any]]:
    """Of each partition in each file the least and the greatest value; all must be in order."""
    import pyarrow.parquet as pq

    found = []
    for path in ottla.table.files(table):
        rows = pq.ParquetFile(path).read().to_pylist()
        for number in sorted({row["partition"] for row in rows}):
            values = [row[column] for row in rows if row["partition"] == number]
            assert values == sorted(values)
            found.append((number, values[0], values[-1]))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("column", list(SortColumn))
@pytest.mark.parametrize("target_size", [4000, 2**27], ids=["large partitions", "small ones"])
def test_rows_are_sorted_into_files_that_do_not_overlap(
    tmp_path: Path, column: SortColumn, target_size: int
) -> None:
    table = loaded_in_disorder(tmp_path)
    before = rows_of(table)
    options = OptimizeOptions(sort_by=column, target_size=target_size)
    assert optimize(table, LocalEngine(), options=options).commit_id is not None
    assert rows_of(table) == before
    found = spans(table, column.value)
    assert len(found) == 2 if target_size > 4000 else len(found) > 4
    pairs = [(one, other) for one, other in pairwise(found) if one[0] == other[0]]
    assert all(one[2] < other[1] for one, other in pairs)
    assert optimize(table, LocalEngine(), options=options).commit_id is None, "it is in order"
    assert not [*(tmp_path / "table" / "data").glob("*/changes/*")]


@pytest.mark.slow
def test_a_sorted_table_of_the_latest_state_is_merged_with_one_of_its_files(
    tmp_path: Path,
) -> None:
    table = loaded_in_disorder(tmp_path, is_latest=True)
    options = OptimizeOptions(sort_by=SortColumn.KEY, target_size=4000)
    optimize(table, LocalEngine(), options=options)
    before = ottla.table.files(table)
    assert len(before) > 4
    with ottla.open(tmp_path / "log") as log:
        log.append("orders", b"new", key=b"0500", partition=0)
    place = LoadRoute(str(tmp_path / "log"), "orders", table)
    load(load_job(place, LocalEngine(), options=LoadOptions(target_size=4000)))
    assert len({*before} - {*ottla.table.files(table)}) <= 1
    assert [row["value"] for row in rows_of(table) if row["key"] == b"0500"] == [b"new"]
