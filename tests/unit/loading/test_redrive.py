"""The quarantine as a table, and what becomes of it when its records are read again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import deltalake

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit, audit_compacted
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import redrive, rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class Orders:
    def __init__(
        self, path: Path, *, is_latest: bool = False, upsert: Upsert | None = None
    ) -> None:
        self.log, self.table = str(path / "log"), str(path / "table")
        self._upsert = Upsert() if is_latest else upsert
        with ottla.open(self.log) as log:
            log.create_topic("orders", partitions=2)

    def job(self, schema: str, on_error: OnError = OnError.QUARANTINE) -> LoadJob:
        decoding = Decoding(format=ValueFormat.JSON, schema=schema)
        layout = LayoutOptions(decoding=decoding, upsert=self._upsert)
        options = LoadOptions(layout=layout, on_error=on_error)
        return load_job(LoadRoute(self.log, "orders", self.table), LocalEngine(), options=options)

    def load(
        self, *values: bytes, schema: str = "id int", on_error: OnError = OnError.QUARANTINE
    ) -> None:
        with ottla.open(self.log) as log:
            for number, value in enumerate(values):
                log.append("orders", value, key=b"k%d" % number, partition=number % 2)
        load(self.job(schema, on_error))

    def rows(self, table: str = "") -> list[dict[str, Any]]:
        """Without the commits that they came with."""
        rows = deltalake.DeltaTable(table or self.table).to_pyarrow_table().drop(["commit_id"])
        return sorted(rows.to_pylist(), key=lambda row: (row["partition"], row["offset"]))

    def rows_of(self, schema: str, table: str) -> list[dict[str, Any]]:
        """The rows of a table that decodes the log with another schema from the first."""
        route = LoadRoute(self.log, "orders", table)
        load(load_job(route, LocalEngine(), options=self.job(schema).options))
        return self.rows(table)

    def assert_whole(self) -> None:
        log = open_log(topic_options(self.log, "orders"))
        assert audit(Table(self.table), log, "orders", compare_all=True).differences == []

    def aside(self) -> list[tuple[int, int]]:
        """What is in quarantine, which the table beside agrees on."""
        rows = ottla.table.quarantine(self.table).to_table().to_pylist()
        beside = deltalake.DeltaTable(f"{self.table}/_ottla/quarantine").to_pyarrow_table()
        assert sorted(map(str, beside.to_pylist())) == sorted(map(str, rows))
        assert all(row["reason"] for row in rows)
        return sorted((row["partition"], row["offset"]) for row in rows)


WIDE = b'{"id": 3000000000}'


@pytest.mark.parametrize("is_latest", [False, True])
def test_records_leave_the_quarantine_once_they_can_be_decoded(
    tmp_path: Path, is_latest: bool
) -> None:
    orders = Orders(tmp_path, is_latest=is_latest)
    orders.load(b'{"id": 1}', WIDE, b'{"id": 2}', b"{", WIDE, b'{"id": 3}')
    assert orders.aside() == [(0, 2), (1, 0), (1, 1)]
    orders.load(b'{"id": 4}', b'{"id": 5}')
    before = Table(orders.table)
    count, sizes = before.state().commit_count, before.sizes()
    assert redrive(orders.job("id int")) == []
    assert orders.aside() == [(0, 2), (1, 0), (1, 1)]
    assert (Table(orders.table).state().commit_count, before.sizes()) == (count, sizes)
    with pytest.raises(UserError, match="cannot be made a row"):
        redrive(orders.job("id bigint", OnError.FAIL))
    assert len(redrive(orders.job("id bigint"))) == 1
    assert orders.aside() == [(1, 1)]
    vacuum(orders.table, SystemClock(), retention_ms=0)
    assert orders.aside() == [(1, 1)]
    orders.assert_whole()
    found = ottla.table.dataset(orders.table).to_table()["value"].to_pylist()
    assert found.count({"id": 3_000_000_000}) == (1 if is_latest else 2)


def test_a_table_without_a_quarantine_has_nothing_to_read_again(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.load(b'{"id": 1}')
    assert redrive(orders.job("id int")) == []
    assert ottla.table.quarantine(orders.table).count_rows() == 0


@pytest.mark.parametrize("step", [one for one in Step if one is not Step.COMMITTED])
def test_a_redrive_that_is_killed_leaves_the_quarantine(tmp_path: Path, step: Step) -> None:
    orders = Orders(tmp_path)
    orders.load(WIDE, b'{"id": 2}', b"{")

    def die(progress: Progress) -> None:
        if progress.step is step:
            raise Killed

    job = orders.job("id bigint")
    place = LoadRoute(orders.log, "orders", orders.table)
    with pytest.raises(Killed):
        redrive(load_job(place, LocalEngine(), die, job.options))
    assert orders.aside() == [(0, 0), (0, 1)]
    orders.assert_whole()
    assert redrive(orders.job("id bigint"))
    assert orders.aside() == [(0, 1)]


def test_the_quarantines_table_is_made_again_if_it_is_torn_or_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(tmp_path)
    orders.load(b"{")
    (entry,) = Path(orders.table, "_ottla/quarantine/_delta_log").glob("*.json")
    entry.write_bytes(entry.read_bytes()[:40])
    with monkeypatch.context() as patch:
        patch.setattr(Table, "_publish_quarantine", lambda *_: None)
        orders.load(b"[")
    orders.load(b"x")
    assert orders.aside() == [(0, 0), (0, 1), (0, 2)]


def test_records_that_the_log_no_longer_has_become_rows_from_the_quarantine(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    with ottla.open(orders.log) as log:
        headers = [("shop", b"7"), ("shop", None)]
        log.append("orders", WIDE, partition=0, timestamp_ms=1_700_000_000_123, headers=headers)
    orders.load(b'{"id": 1}', WIDE, b"{", b'{"id": 2}', WIDE, WIDE)
    expected = orders.rows_of("id bigint", str(tmp_path / "other"))
    with ottla.open(orders.log) as log:
        log.delete_records("orders", {0: 3, 1: 3})
    # What the log has not, and what it has.
    assert len(redrive(orders.job("id bigint"))) == 2
    assert orders.aside() == [(0, 2)]
    assert orders.rows() == expected
    orders.assert_whole()
    assert redrive(orders.job("id bigint")) == []  # The last of them is a row.
    assert (orders.aside(), orders.rows()) == ([(0, 2)], expected)


def test_the_quarantine_is_read_again_on_both_sides_of_offsets_that_no_load_had(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path)
    orders.load(b'{"id": 1}', WIDE, b'{"id": 2}', WIDE)
    with ottla.open(orders.log) as log:
        log.append("orders", b'{"id": 3}', partition=1)
        log.append("orders", WIDE, partition=1)
        log.delete_records("orders", {1: 3})
    job = orders.job("id int")
    options = replace(job.options, allow_gaps=True)
    load(load_job(job.route, LocalEngine(), options=options))
    orders.load(WIDE, WIDE)
    assert orders.aside() == [(0, 2), (1, 0), (1, 1), (1, 3), (1, 4)]
    assert len(redrive(orders.job("id bigint"))) == 2
    assert orders.aside() == []
    assert len(orders.rows()) == 7
    orders.assert_whole()


def test_records_without_bytes_that_the_log_no_longer_has_stay_in_quarantine(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path)
    orders.load(b'{"id": 1}', WIDE, on_error=OnError.SKIP)
    with ottla.open(orders.log) as log:
        log.delete_records("orders", {0: 1, 1: 1})
    with pytest.raises(
        UserError, match=r"no longer has offset 0 of partition 1, .*--on-error skip"
    ):
        redrive(orders.job("id bigint"))
    orders.load(b'{"id": 2}', WIDE)
    assert redrive(orders.job("id bigint"))
    assert orders.aside() == [(1, 0)]


def test_what_compaction_has_removed_stays_as_it_is(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    config = {"cleanup.policy": "compact", "segment.bytes": 200, "min.cleanable.dirty.ratio": 0.0}
    with ottla.open(orders.log) as log:
        log.alter_topic("orders", config)
    for number in range(8):
        orders.load(b'{"id": %d}' % number, WIDE if number % 3 else b"{", b"[")
    rows, aside = orders.rows(), orders.aside()
    with ottla.open(orders.log) as log:
        log.compact("orders")
        left = {(place, one.offset) for place in (0, 1) for one in log.read("orders", place)}
    assert redrive(orders.job("id bigint"))
    mended = [one for one in aside if one in left and (one[0], one[1] % 3 > 0) == (1, True)]
    assert mended
    assert orders.aside() == [one for one in aside if one not in mended]
    assert [one for one in orders.rows() if (one["partition"], one["offset"]) not in mended] == rows
    log = open_log(topic_options(orders.log, "orders"))
    report = audit_compacted(Table(orders.table), log, "orders")
    assert report.differences == []
    assert report.rows_only_here == len(rows) + len(aside) - len(left)


@pytest.mark.parametrize("upsert", [Upsert(), Upsert(is_history=True)])
def test_rows_of_keys_stay_whose_records_compaction_has_removed(
    tmp_path: Path, upsert: Upsert
) -> None:
    orders = Orders(tmp_path, upsert=upsert)
    config = {"cleanup.policy": "compact", "segment.bytes": 200, "min.cleanable.dirty.ratio": 0.0}
    with ottla.open(orders.log) as log:
        log.alter_topic("orders", config)
    # The last record of each key cannot be decoded: those before it leave the log.
    for value in (b"{", b'{"id": 1}', WIDE, b'{"id": 2}', b"{"):
        orders.load(value, value)
    orders.load(b'{"id": 5}', b'{"id": 6}', b'{"id": 7}', b"[", b"[", b"[")
    rows, aside = orders.rows(), orders.aside()
    with ottla.open(orders.log) as log:
        offset = log.append("orders", WIDE, key=b"another", partition=0).offset
        log.append("orders", b"[", key=b"more", partition=0)
    orders.load(b"[")
    whole = orders.aside()
    with ottla.open(orders.log) as log:
        log.compact("orders")
    assert redrive(orders.job("id bigint"))
    assert [one for one in orders.rows() if one["key"] != b"another"] == rows
    assert len(orders.rows()) == len(rows) + 1
    assert orders.aside() == [one for one in whole if one != (0, offset)]
    assert set(aside) < set(orders.aside())


def test_a_late_record_of_the_quarantine_alone_is_not_merged(tmp_path: Path) -> None:
    orders = Orders(tmp_path, is_latest=True)
    orders.load(b'{"id": 1}', WIDE, b'{"id": 2}', WIDE)
    with ottla.open(orders.log) as log:
        log.delete_records("orders", {1: 1})
    with pytest.raises(UserError, match=r"send it to the topic again, .* --rerun --from 0:0,1:1$"):
        redrive(orders.job("id bigint"))
    place = LoadRoute(orders.log, "orders", orders.table)
    job = load_job(place, LocalEngine(), options=orders.job("id bigint").options)
    rerun(job, rerun_range("0:0,1:1", None, "orders"))
    assert orders.aside() == [(1, 0)]
