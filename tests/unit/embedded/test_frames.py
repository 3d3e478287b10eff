"""Frames of pandas and polars in and out of a log: what fits is taken, and the rest is named."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest

import ottla

pl = pytest.importorskip("polars")

COPIED = ["key", "value", "headers", "timestamp_ms", "partition"]


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open(":memory:") as opened:
        opened.create_topic("orders")
        yield opened


def values(log: ottla.Log) -> list[bytes | None]:
    return [record.value for record in log.read("orders")]


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["tea", None, "tea"]),
        pl.Series(["tea", None, "tea"], dtype=pl.Categorical),
        pl.Series(["tea", None, "tea"], dtype=pl.Enum(["tea"])),
    ],
    ids=["pandas", "polars", "an enum"],
)
def test_categories_are_their_texts(log: ottla.Log, column: Any) -> None:
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    log.append_many("orders", frame({"value": column}))
    assert values(log) == [b"tea", None, b"tea"]


@pytest.mark.parametrize("form", ["to_pandas", "to_polars", "to_arrow"])
def test_what_a_scan_returns_goes_in_again_without_its_offsets(log: ottla.Log, form: str) -> None:
    log.append("orders", b"tea", key=b"t4", headers=[("waiter", b"Ana")], timestamp_ms=12345)
    rows = getattr(log.scan("orders"), form)()
    log.append_many("orders", rows[COPIED] if form == "to_pandas" else rows.select(COPIED))
    first, second = log.read("orders")
    assert (first.key, first.value, first.headers) == (second.key, second.value, second.headers)
    assert first.timestamp_ms == second.timestamp_ms == 12345


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ({"value": [1, 2]}, "column value: bytes or text; turn others into text first"),
        ({"value": ["tea", 2]}, "Expected bytes, got a 'int' object"),
        ({"value": [{"cups": 2}]}, "column value: bytes or text"),
        (
            {"value": ["tea"], "headers": [{"waiter": b"Ana"}]},
            '[{"key": "waiter", "value": b"Ana"}]',
        ),
        ({"value": ["tea"], "headers": [[("a", b"b")]]}, '[{"key": "waiter", "value": b"Ana"}]'),
        ({"value": ["tea"], "timestamp": [1.5]}, "column timestamp: times, or whole milliseconds"),
        ({"value": ["tea"], "partition": [-1]}, "orders has 1 partition; -1 is not one of them"),
        ({"value": ["tea"], "partition": [9]}, "orders has 1 partition; 9 is not one of them"),
    ],
)
def test_a_column_that_does_not_fit_is_named_with_what_would(
    log: ottla.Log, rows: dict[str, Any], answer: str
) -> None:
    with pytest.raises(ottla.UserError) as refused:
        log.append_many("orders", pd.DataFrame(rows))
    (line,) = str(refused.value).splitlines()
    assert answer in line
    assert not values(log)


@pytest.mark.parametrize("series", [pd.Series(["tea"]), pl.Series(["tea"])])
def test_a_series_is_refused_with_the_frame_to_make_of_it(log: ottla.Log, series: Any) -> None:
    with pytest.raises(ottla.UserError, match=r"series\.\S+\(\"value\"\)"):
        log.append_many("orders", series)


@pytest.mark.parametrize("one", ["tea", {"value": b"tea"}, (1, 2, 3)])
def test_a_row_of_another_type_is_named_by_it(log: ottla.Log, one: Any) -> None:
    with pytest.raises(ottla.UserError, match=f"not {type(one).__name__}$"):
        log.append_many("orders", [one])


FORMS: dict[str, Callable[[ottla.Scan, list[str] | None], list[str]]] = {
    "to_arrow": lambda scan, names: scan.to_arrow(names).column_names,
    "to_pandas": lambda scan, names: list(scan.to_pandas(names).columns),
    "to_polars": lambda scan, names: scan.to_polars(names).columns,
    "to_duckdb": lambda scan, names: scan.to_duckdb(columns=names).columns,
    "batches": lambda scan, names: next(iter(scan.batches(names))).schema.names,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_scan_has_the_columns_that_are_asked_for_in_their_order(
    log: ottla.Log, form: str
) -> None:
    log.append("orders", b"tea", key=b"t4", timestamp_ms=12345)
    scan = log.scan("orders")
    every = FORMS[form](scan, None)
    assert every == scan.schema.names
    for names in (["value"], ["partition"], every[::-1]):
        assert FORMS[form](scan, names) == names
        assert scan.to_arrow(names) == scan.to_arrow().select(names)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (["value", "topic"], "there is no column topic; the columns are partition, offset, "),
        ([], "columns names none; the columns are partition, offset, "),
        ("value", 'columns is a list of names: columns=["value"]'),
    ],
)
def test_columns_that_do_not_exist_are_refused_with_those_that_do(
    log: ottla.Log, form: str, names: Any, answer: str
) -> None:
    with pytest.raises(ottla.UserError) as refused:
        FORMS[form](log.scan("orders"), names)
    assert str(refused.value).startswith(answer)


def test_values_that_are_not_asked_for_are_not_built(log: ottla.Log) -> None:
    for _ in range(8):
        log.append("orders", b"v" * 100_000, timestamp_ms=12345)
    found = log.scan("orders").to_arrow(columns=["offset", "timestamp_ms"])
    assert (found.num_rows, found.nbytes) == (8, 8 * 16)
