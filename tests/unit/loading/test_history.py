"""Tables with the history of each key: in any order of records, each is valid until the next."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import deltalake

import ottla
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.entries import MergeCounts
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.upserts import upserting
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.values.projection import Projection
from tests.support.merged_tables import JOBS, KEYS, VALUES, Model, Reader, merged_table


@pytest.fixture(params=["delta", "iceberg"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Reader]]:
    with merged_table(request.param, tmp_path, monkeypatch) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(one, marks=pytest.mark.long) for one in range(1, 9))]
)
def test_whatever_is_done_to_a_table_each_record_is_valid_until_the_next_of_its_key(
    tmp_path: Path,
    place: tuple[str, Reader],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upserting, "KEYS_AT_ONCE", 4)
    table, reader = place
    is_flat = table.startswith("iceberg") is (seed % 2 == 0)
    upsert = Upsert(
        key=("id", "country") if is_flat else ("value.id", "value.country"),
        version="timestamp" if is_flat else "value.at",
        delete_when=".op = delete",
        is_history=True,
    )
    layout = LayoutOptions(decoding=VALUES, key=KEYS, upsert=upsert, is_flat=is_flat)
    model = Model(tmp_path, table, seed, layout)
    names = ["partition", "offset", "valid_from", "valid_to", "is_current"]
    columns = [f"_{name}" if is_flat else name for name in names]
    for _ in range(7):
        if model.chance.random() < 0.7:
            model.append()
        model.do(model.chance.choice(JOBS))
        found = [tuple(map(as_number, row)) for row in reader(columns)]
        assert sorted(found) == model.history()
        assert model.differences() == []


def as_number(value: Any) -> Any:
    """Times as the milliseconds that the model has."""
    if not isinstance(value, datetime):
        return value
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


class People:
    """A log of JSON values by key, and its table with their history."""

    def __init__(self, path: Path, schema: str, upsert: Upsert, **layout: Any) -> None:
        self._log, self.table = str(path / "log"), str(path / "table")
        decoding = Decoding(format=ValueFormat.JSON, schema=schema)
        self._options = LoadOptions(
            layout=LayoutOptions(decoding=decoding, upsert=upsert, **layout)
        )
        with ottla.open(self._log) as log:
            log.create_topic("people", partitions=1, config={"retention.ms": -1})

    def load(self, *records: tuple[str, Any, int]) -> LoadReport:
        """Of each record the key, the value and its timestamp."""
        with ottla.open(self._log) as log:
            for key, value, at in records:
                data = None if value is None else json.dumps(value).encode()
                log.append("people", data, key=key.encode(), timestamp_ms=at)
        place = LoadRoute(self._log, "people", self.table)
        return load(load_job(place, LocalEngine(), options=self._options))

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        rows = deltalake.DeltaTable(self.table).to_pyarrow_table(columns=list(columns))
        return sorted(tuple(map(as_number, row.values())) for row in rows.to_pylist())

    def differences(self) -> list[str]:
        log = open_log(topic_options(self._log, "people"))
        found = audit(Table(self.table), log, "people", compare_all=True).differences
        return [one.text for one in found]


VALIDITY = ("valid_from", "valid_to", "is_current")


def test_a_late_record_comes_between_those_before_and_after_it(tmp_path: Path) -> None:
    people = People(tmp_path, "name string", Upsert(is_history=True))
    report = people.load(("a", {"name": "A"}, 10), ("a", {"name": "C"}, 30), ("b", {}, 5))
    assert report.merged == MergeCounts(upserted=3, superseded=0)
    people.load(("a", {"name": "B"}, 20), ("b", None, 50))
    assert people.rows("key", *VALIDITY) == [
        (b"a", 10, 20, False),
        (b"a", 20, 30, False),
        (b"a", 30, None, True),
        (b"b", 5, 50, False),
    ]
    people.load(("b", {"name": "late"}, 40), ("b", {"name": "again"}, 60))
    assert people.rows("key", *VALIDITY)[3:] == [
        (b"b", 5, 40, False),
        (b"b", 40, 50, False),
        (b"b", 60, None, True),
    ]
    assert people.differences() == []


@pytest.mark.parametrize(
    ("kind", "versions"),
    [("int", [1, 3]), ("date", [date(1969, 12, 30), date(2026, 1, 31)])],
)
def test_versions_may_be_dates_and_whole_numbers(
    tmp_path: Path, kind: str, versions: list[Any]
) -> None:
    schema = "n int" if kind == "int" else "n string"
    upsert = Upsert(version="value.n", is_history=True)
    people = People(tmp_path, schema, upsert, projection=Projection(cast=f"n {kind}"))
    first, last = (one if kind == "int" else str(one) for one in versions)
    people.load(("a", {"n": last}, 0))
    people.load(("a", {"n": first}, 0))
    assert people.rows(*VALIDITY) == [(*versions, False), (versions[1], None, True)]
    assert people.differences() == []


def test_what_is_no_time_of_validity_is_refused(tmp_path: Path) -> None:
    people = People(tmp_path, "n string", Upsert(version="value.n", is_history=True))
    with pytest.raises(UserError, match="valid from one version to the next, and a string is none"):
        people.load(("a", {"n": "x"}, 0))


def test_a_field_with_the_name_of_a_column_of_history_is_renamed(tmp_path: Path) -> None:
    schema = "_valid_from int, valid_to int"
    upsert = Upsert(is_history=True)
    people = People(tmp_path, schema, upsert, is_flat=True)
    with pytest.raises(UserError, match="rename it: --rename _valid_from=valid_from_value"):
        people.load(("a", {"_valid_from": 1, "valid_to": 2}, 7))
    renamed = Projection(rename=(("_valid_from", "valid_from_value"),))
    people = People(tmp_path / "b", schema, upsert, is_flat=True, projection=renamed)
    people.load(("a", {"_valid_from": 1, "valid_to": 2}, 7))
    names = ("valid_from_value", "valid_to", "_valid_from", "_valid_to", "_is_current")
    assert people.rows(*names) == [(1, 2, 7, None, True)]
    assert people.differences() == []


def test_an_audit_finds_a_row_that_ends_at_another_time(tmp_path: Path) -> None:
    people = People(tmp_path, "name string", Upsert(is_history=True))
    people.load(("a", {"name": "A"}, 10), ("a", {"name": "B"}, 20))
    table = deltalake.DeltaTable(people.table)
    later = "arrow_cast(25000, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    table.update({"valid_to": later}, predicate='"offset" = 0')
    (found,) = people.differences()
    assert found.startswith(
        "partition 0, offset 0: it is valid from 1970-01-01 00:00:00.010000+00:00 to "
        "1970-01-01 00:00:00.025000+00:00, by the log from 1970-01-01 00:00:00.010000+00:00 to "
        "1970-01-01 00:00:00.020000+00:00"
    )


def test_history_is_pinned(tmp_path: Path) -> None:
    People(tmp_path, "n int", Upsert(is_history=True)).load(("a", {"n": 1}, 0))
    place = LoadRoute(str(tmp_path / "log"), "people", str(tmp_path / "table"))
    options = LoadOptions(layout=LayoutOptions(upsert=Upsert()))
    words = re.escape("all rows of each key (--upsert-by key --history), which cannot change")
    with pytest.raises(UserError, match=words):
        load(load_job(place, LocalEngine(), options=options))
