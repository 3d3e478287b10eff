"""Audits of tables with a row for each record, whose topic was compacted after it was loaded."""

from pathlib import Path

import pytest

pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa

import ottla
from ottla.loading.auditing.audit import audit, audit_compacted
from ottla.loading.auditing.report import AuditReport
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.forgetting import ForgetOptions, forget
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.record_writer import OnError

pytestmark = pytest.mark.slow

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 300, "min.cleanable.dirty.ratio": 0.0}


class People:
    """Two loads of records with few keys, some of which cannot be decoded."""

    def __init__(self, path: Path, upsert: Upsert | None = None) -> None:
        self._upsert = upsert
        self.log, self.table = str(path / "log"), str(path / "table")
        with ottla.open(self.log) as log:
            log.create_topic("t", config=COMPACTED)
        for start in (0, 12):
            self.load(*range(start, start + 12))

    def load(self, *numbers: int) -> None:
        with ottla.open(self.log) as log:
            for number in numbers:
                value = b"{" if number % 5 == 4 else b'{"n": %d}' % number
                log.append("t", value, key=b"k%d" % (number % 7))
        decoding = Decoding(format=ValueFormat.JSON, schema="n bigint")
        layout = LayoutOptions(decoding=decoding, upsert=self._upsert)
        options = LoadOptions(layout=layout, on_error=OnError.QUARANTINE)
        place = LoadRoute(source=self.log, topic="t", into=self.table)
        load(load_job(place, LocalEngine(1), options=options))

    def compact(self) -> int:
        """Returns how many of the loaded records are left."""
        with ottla.open(self.log) as log:
            log.compact("t")
            return sum(record.offset < 24 for record in log.read("t", 0))

    def audited(self, *, is_compacted: bool = True) -> AuditReport:
        log = open_log(topic_options(self.log, "t"))
        return (audit_compacted if is_compacted else audit)(Table(self.table), log, "t")


def test_a_table_has_every_record_that_compaction_left(tmp_path: Path) -> None:
    people = People(tmp_path)
    left = people.compact()
    assert 7 <= left < 24
    report = people.audited()
    assert report.differences == []
    assert (report.rows_counted, report.rows_only_here) == (left, 24 - left)
    assert not people.audited(is_compacted=False).is_equal
    people.load(24, 25)
    people.compact()
    assert people.audited().is_equal


@pytest.mark.parametrize(
    "upsert",
    [Upsert(), Upsert(key=("value.n",)), Upsert(key=("value.n",), version="value.n")],
)
def test_a_table_of_keys_has_what_the_records_that_are_left_make_of_it(
    tmp_path: Path, upsert: Upsert
) -> None:
    people = People(tmp_path, upsert)
    assert people.audited().is_equal
    people.compact()
    assert people.audited().differences == []
    assert not people.audited(is_compacted=False).is_equal
    last = deltalake.DeltaTable(people.table).to_pyarrow_table()["offset"].to_numpy().max()
    deltalake.DeltaTable(people.table).delete(f"offset = {last}")
    assert any("has no row for key" in one.text for one in people.audited().differences)


def test_a_forgotten_row_whose_record_is_gone_excuses_one_key_without_a_row(tmp_path: Path) -> None:
    people = People(tmp_path, Upsert(key=("value.n",), version="offset"))
    with ottla.open(people.log) as log:
        for key, number in ((b"a", 500), (b"b", 500), (b"c", 501)):
            log.append("t", b'{"n": %d}' % number, key=key)
    people.load(*range(27, 40))
    forget(people.table, LocalEngine(1), ForgetOptions(condition='"offset" = 25', by="me"))
    with ottla.open(people.log) as log:
        log.append("t", b"{", key=b"b")
    people.load(*range(41, 54))
    people.compact()
    assert people.audited().differences == []
    deltalake.DeltaTable(people.table).delete("offset = 26")
    missing = [one.offset for one in people.audited().differences if one.kind == "row"]
    assert missing == [24, 26]


@pytest.mark.parametrize("where", ["offset = 20", "offset >= 12", "true"])
def test_a_record_that_the_log_has_and_the_table_lacks_is_named(tmp_path: Path, where: str) -> None:
    people = People(tmp_path)
    people.compact()
    deltalake.DeltaTable(people.table).delete(where)
    found = [one.text for one in people.audited().differences]
    assert found
    if where == "offset = 20":
        assert any("partition 0, offset 20: " in text for text in found)


def test_a_row_that_differs_from_a_record_that_is_left_is_named(tmp_path: Path) -> None:
    people = People(tmp_path)
    people.compact()
    deltalake.DeltaTable(people.table).update(updates={"key": "x'00'"}, predicate="offset = 23")
    (found,) = people.audited().differences
    assert (found.kind, found.offset) == ("row", 23)


@pytest.mark.parametrize("upsert", [None, Upsert(), Upsert(is_history=True)])
def test_a_row_of_a_partition_that_no_load_read_is_named(
    tmp_path: Path, upsert: Upsert | None
) -> None:
    people = People(tmp_path, upsert)
    there = deltalake.DeltaTable(people.table).to_pyarrow_table().slice(0, 1)
    where = there.schema.get_field_index("partition")
    apart = there.set_column(where, there.schema.field(where), [pa.array([9], pa.int32())])
    deltalake.write_deltalake(people.table, apart, mode="append")
    for is_compacted in (False, True):
        (found,) = people.audited(is_compacted=is_compacted).differences
        assert "it has rows of partition 9, which no commit read" in found.text
