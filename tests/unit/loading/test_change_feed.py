"""Delta's change data feed of merged tables, read by delta-rs: the changes of each version make its
rows of those before it.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa

from ottla.base.errors import UserError
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import parse_partitioning
from ottla.tables.layout import LayoutOptions
from ottla.tables.upserts import upserting
from tests.support.merged_tables import KEYS, VALUES, Model, Orders, merged_table, order

ADDED = ("insert", "update_postimage")
OF_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def changes_of(table: str) -> list[dict[str, Any]]:
    rows = pa.table(deltalake.DeltaTable(table).load_cdf(starting_version=0).read_all())
    return list(rows.to_pylist())


def rows_of(table: str, version: int) -> Counter[str]:
    rows = deltalake.DeltaTable(table, version=version).to_pyarrow_table()
    return Counter(map(text_of, rows.to_pylist()))


def text_of(row: dict[str, Any]) -> str:
    return str(sorted((name, str(one)) for name, one in row.items() if name not in OF_FEED))


def check(table: str) -> None:
    """Compares each version with the changes up to it."""
    by_version: dict[int, list[dict[str, Any]]] = {}
    for one in changes_of(table):
        by_version.setdefault(one["_commit_version"], []).append(one)
    rows: Counter[str] = Counter()
    for version in range(deltalake.DeltaTable(table).version() + 1):
        some = by_version.get(version, [])
        rows.subtract(text_of(one) for one in some if one["_change_type"] not in ADDED)
        rows.update(text_of(one) for one in some if one["_change_type"] in ADDED)
        rows = Counter({row: count for row, count in rows.items() if count})
        assert rows == rows_of(table, version), version


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(one, marks=pytest.mark.long) for one in range(2, 9))]
)
def test_the_changes_of_each_version_make_its_rows_of_those_before(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upserting, "KEYS_AT_ONCE", 4)
    upsert = (
        Upsert(delete_when=".op = delete"),
        Upsert(key=("value.id",), version="timestamp", is_history=True),
        Upsert(key=("value.id", "value.country"), version="value.at", delete_when=".op = delete"),
    )[seed % 3]
    layout = LayoutOptions(
        decoding=VALUES,
        key=KEYS if upsert.key else None,
        upsert=upsert,
        has_change_feed=True,
        is_flat=seed % 2 == 1,
        partitioning=parse_partitioning("day") if seed % 4 == 2 else None,
    )
    model = Model(tmp_path, str(tmp_path / "table"), seed, layout)
    for _ in range(6):
        model.append()
        model.do(model.chance.choice(["load", "load", "rerun", "optimize"]))
    check(str(tmp_path / "table"))
    assert model.differences() == []


def test_updates_are_pairs_and_the_kinds_of_changes_are_deltas(tmp_path: Path) -> None:
    upsert = Upsert(key=("value.id",), version="value.at", delete_when=".op = delete")
    orders = Orders(tmp_path, upsert, has_change_feed=True)
    orders.load(order(1, 1), order(2, 1), order(3, 1))
    orders.load(order(1, 2), order(2, 2, op="delete"), order(3, 0), order(4, 1))
    changes = [
        (one["_change_type"], one["value"]["id"], one["value"]["at"])
        for one in changes_of(orders.table)
        if one["_commit_version"] == 1
    ]
    assert sorted(changes) == [
        ("delete", 2, 1),
        ("insert", 4, 1),
        ("update_postimage", 1, 2),
        ("update_preimage", 1, 1),
    ]
    assert orders.differences() == []


def test_a_feed_begins_with_its_table(tmp_path: Path) -> None:
    Orders(tmp_path, Upsert(key=("value.id",))).load(order(1))
    orders = Orders(tmp_path, Upsert(key=("value.id",)), has_change_feed=True)
    with pytest.raises(UserError, match="the table has no change feed, as its first load asked"):
        orders.load(order(2))


def test_where_a_format_has_no_feed_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with merged_table("iceberg", tmp_path, monkeypatch) as (table, _):
        orders = Orders(tmp_path, Upsert(key=("value.id",)), has_change_feed=True)
        orders.table = table
        with pytest.raises(UserError, match="Iceberg has no such feed"):
            orders.load(order(1))


def test_a_feed_of_directories_that_urls_spell_otherwise_is_read_by_others(tmp_path: Path) -> None:
    by = parse_partitioning("value.country")
    orders = Orders(tmp_path, Upsert(key=("value.id",)), has_change_feed=True, partitioning=by)
    orders.load(order(1, 1, country="ü/%"), order(2, 1, country="a b"))
    orders.load(order(1, 2, country="ü/%"), order(2, 2, country="[1]"))
    # It opens the files by the paths in the log.
    table = deltalake.DeltaTable(orders.table)
    assert table.to_pyarrow_table().num_rows == 2
    table.delete("value.id = 7")
    assert orders.differences() == []
