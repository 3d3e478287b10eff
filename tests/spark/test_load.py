"""Loads with a real Spark: what comes into a table, once, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import TaskError, UserError
from ottla.base.files import OsFileSystem
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions
from ottla.loading.load import LoadReport
from ottla.sources.opening import open_log, topic_options
from ottla.spark.load import load
from ottla.spark.session import LocalSession
from ottla.spark.table import read_table, table_files
from ottla.tables.columns.identity import Upsert
from ottla.tables.entries import MergeCounts
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from tests.golden.directories import GOLDEN
from tests.support.overtaken import delete_oldest_segment
from tests.support.topics import append, log_rows, table_rows

BEFORE_THE_COMMIT = [step for step in Step if step is not Step.COMMITTED]


class Stopped(BaseException):
    """Ends a load on the spot, as a kill does, but leaves the process."""


def load_new(
    log: Path, table: Path, session: LocalSession, *, stop_at: Step | None = None
) -> LoadReport:
    def stop(progress: Progress) -> None:
        if progress.step is stop_at:
            raise Stopped

    return load(str(log), "orders", str(table), spark=session.spark, progress=stop)


def test_every_record_is_in_the_table_once(tmp_path: Path, local_session: LocalSession) -> None:
    append(tmp_path / "log", {0: 1000, 1: 30})
    report = load_new(tmp_path / "log", tmp_path / "table", local_session)
    assert table_rows(local_session.spark, tmp_path / "table") == log_rows(tmp_path / "log")
    assert (report.row_count, report.commit_id) == (1030, 0)
    assert [(one.from_offset, one.until_offset) for one in report.partitions] == [
        (0, 1000),
        (0, 30),
    ]
    assert report.size == sum(Path(path).stat().st_size for path in table_files(report.into))


def test_a_second_load_takes_what_is_new_and_a_third_finds_nothing(
    tmp_path: Path, local_session: LocalSession
) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    append(log, {0: 60})
    load_new(log, table, local_session)
    append(log, {0: 40, 1: 10})
    second = load_new(log, table, local_session)
    third = load_new(log, table, local_session)
    assert table_rows(local_session.spark, table) == log_rows(log)
    assert [one.from_offset for one in second.partitions] == [60, 0]
    assert (second.row_count, third.nothing_new, third.files) == (50, True, ())


def test_a_log_that_is_written_to_meanwhile_is_loaded_up_to_its_end(
    tmp_path: Path, local_session: LocalSession
) -> None:
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        for number in range(20):
            log.append("orders", b"%d" % number)
        report = load_new(tmp_path / "log", tmp_path / "table", local_session)
        assert report.row_count == 20


@pytest.mark.parametrize("step", BEFORE_THE_COMMIT, ids=lambda step: step.name.lower())
def test_a_load_that_stops_leaves_readers_the_table_as_it_was(
    tmp_path: Path, local_session: LocalSession, step: Step
) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    append(log, {0: 50})
    load_new(log, table, local_session)
    before = table_rows(local_session.spark, table)
    append(log, {0: 50, 1: 20})
    with pytest.raises(Stopped):
        load_new(log, table, local_session, stop_at=step)
    assert table_rows(local_session.spark, table) == before
    report = load_new(log, table, local_session)
    assert (report.commit_id, report.row_count) == (1, 70)
    assert table_rows(local_session.spark, table) == log_rows(log)
    vacuum(str(table), SystemClock(), retention_ms=0)
    in_data = {str(path) for path in (table / "data").rglob("*.parquet")}
    assert in_data == set(table_files(str(table)))


def test_a_load_that_stops_after_its_commit_is_done(
    tmp_path: Path, local_session: LocalSession
) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    append(log, {0: 50})
    with pytest.raises(Stopped):
        load_new(log, table, local_session, stop_at=Step.COMMITTED)
    assert table_rows(local_session.spark, table) == log_rows(log)
    assert load_new(log, table, local_session).nothing_new


@pytest.mark.parametrize(
    ("case", "topic"), [("txn", "txn"), ("compaction-1-after", "cmp"), ("old-formats", "mixed")]
)
def test_directories_of_kafka_are_loaded_as_a_consumer_reads_them(
    tmp_path: Path, local_session: LocalSession, case: str, topic: str
) -> None:
    log = GOLDEN / case / "logdir"
    if not log.is_dir():
        pytest.skip("the directories written by Kafka are not here")
    report = load(str(log), topic, str(tmp_path / "table"), spark=local_session.spark)
    rows = table_rows(local_session.spark, tmp_path / "table")
    assert rows == log_rows(log, topic=topic)
    assert 0 < len(rows) == report.row_count


FAR_TIMES = [-(2**63), -62_135_596_800_001, 1_700_000_000_000_000, 2**63 - 1, 1_700_000_000_000]


@pytest.mark.parametrize("into", ["table", "iceberg://lake/shop.far"])
def test_a_time_that_no_calendar_has_is_null_beside_the_others(
    tmp_path: Path, local_session: LocalSession, into: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Microseconds that are sent as milliseconds are in the year 58,000."""
    pytest.importorskip("pyiceberg" if "iceberg" in into else "deltalake")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        for time_ms in FAR_TIMES:
            batch = ottla.RecordBatchBuilder()
            batch.append(b"k", b"v", time_ms)
            log.append_batch("orders", 0, batch)
    spark = local_session.spark
    table = into if "iceberg" in into else str(tmp_path / into)
    load(str(tmp_path / "log"), "orders", table, spark=spark)
    expected = [None] * 4 + [1_700_000_000_000]
    tables = {
        "loaded": read_table(spark, table),
        "source": spark.read.format("ottla").options(
            path=str(tmp_path / "log"), subscribe="orders"
        ).load(),
    }  # fmt: skip
    for name, rows in tables.items():
        times = rows.orderBy("offset").selectExpr("unix_millis(timestamp)").toArrow()
        assert times.column(0).to_pylist() == expected, name
    opened = open_log(topic_options(str(tmp_path / "log"), "orders"))
    assert audit(Table(table), opened, "orders", compare_all=True).is_equal


def test_a_brokers_log_that_lost_its_end_and_grew_again_is_refused(
    tmp_path: Path, local_session: LocalSession
) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", str(tmp_path / "table")
    append(one, {0: 2})
    shutil.copytree(one, other)
    for directory, value, count in ((one, b"tea", 2), (other, b"cake", 3)):
        with ottla.open(directory) as log:
            for _ in range(count):
                log.append("orders", value, partition=0)
            address = log.listen("127.0.0.1:0").address
            if directory == one:
                load(address, "orders", table, spark=local_session.spark)
                continue
            with pytest.raises(UserError, match="orders-0: the log's record at offset 3 is not"):
                load(address, "orders", table, spark=local_session.spark)


def test_a_recreated_topic_is_refused(tmp_path: Path, local_session: LocalSession) -> None:
    append(tmp_path / "log", {0: 50})
    load_new(tmp_path / "log", tmp_path / "table", local_session)
    with ottla.open(tmp_path / "log") as log:
        log.delete_topic("orders")
    append(tmp_path / "log", {0: 100})
    with pytest.raises(UserError, match="topic orders was re-created since the table was loaded"):
        load_new(tmp_path / "log", tmp_path / "table", local_session)
    assert len(table_rows(local_session.spark, tmp_path / "table")) == 50


def test_records_lost_before_a_load_are_refused_and_recorded_when_allowed(
    tmp_path: Path, local_session: LocalSession
) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    append(log, {0: 50})
    load_new(log, table, local_session)
    append(log, {0: 500})
    kept_from = int(sorted((log / "orders-0").glob("*.log"))[1].stem)
    assert delete_oldest_segment(OsFileSystem(), str(log / "orders-0"))
    with pytest.raises(UserError, match=f"orders-0: .* log starts at {kept_from}"):
        load_new(log, table, local_session)
    report = load(
        str(log),
        "orders",
        str(table),
        spark=local_session.spark,
        options=LoadOptions(allow_gaps=True),
    )
    lost = report.partitions[0].lost
    assert lost is not None
    assert (lost.from_offset, lost.until_offset) == (50, kept_from)
    assert report.row_count == 550 - kept_from
    assert load_new(log, table, local_session).nothing_new


def test_a_directory_of_somebody_else_is_refused_before_spark_is_asked(tmp_path: Path) -> None:
    append(tmp_path / "log", {0: 5})
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "thesis.tex").write_text("chapter one")
    with pytest.raises(UserError, match=r"files that ottla did not load \(thesis\.tex\)"):
        load(str(tmp_path / "log"), "orders", str(tmp_path / "table"))
    assert [path.name for path in (tmp_path / "table").iterdir()] == ["thesis.tex"]


def test_a_topic_that_is_not_there_leaves_no_directory(tmp_path: Path) -> None:
    append(tmp_path / "log", {0: 5})
    with pytest.raises(UserError, match="has no topic sales; it has orders"):
        load(str(tmp_path / "log"), "sales", str(tmp_path / "table"))
    assert not (tmp_path / "table").exists()


def test_a_damaged_batch_stops_the_load_with_one_line(
    tmp_path: Path, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {1: 5})
    load_new(tmp_path / "log", tmp_path / "table", local_session)
    append(tmp_path / "log", {0: 500})
    first = tmp_path / "log" / "orders-0" / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[300] ^= 1
    first.write_bytes(content)
    with pytest.raises(TaskError, match=r"orders-0/0{20}\.log at byte 0: CRC") as stop:
        load_new(tmp_path / "log", tmp_path / "table", local_session)
    assert "\n" not in str(stop.value)
    assert len(table_rows(local_session.spark, tmp_path / "table")) == 5


def test_names_that_spark_takes_for_patterns_are_names(
    tmp_path: Path, local_session: LocalSession
) -> None:
    table = tmp_path / "{a,b} [1-2] 100%*"
    append(tmp_path / "log", {0: 30})
    load_new(tmp_path / "log", table, local_session)
    assert table_rows(local_session.spark, table) == log_rows(tmp_path / "log")


def test_the_callers_session_keeps_its_settings(
    tmp_path: Path, local_session: LocalSession
) -> None:
    name = "spark.sql.parquet.outputTimestampType"
    before = local_session.spark.conf.get(name)
    append(tmp_path / "log", {0: 5})
    load_new(tmp_path / "log", tmp_path / "table", local_session)
    assert local_session.spark.conf.get(name) == before
    assert not local_session.spark.sparkContext._jsc.sc().isStopped()


def test_changes_are_merged_by_tasks_of_spark(tmp_path: Path, local_session: LocalSession) -> None:
    log, table = str(tmp_path / "log"), str(tmp_path / "table")
    options = LoadOptions(layout=LayoutOptions(upsert=Upsert()), min_partitions=2)
    for changes in ({b"a": b"1", b"b": b"1"}, {b"a": b"2", b"b": None, b"c": b"1"}):
        with ottla.open(log) as opened:
            if "orders" not in opened.topics():
                opened.create_topic("orders", partitions=2)
            for key, value in changes.items():
                opened.append("orders", value, key=key, partition=key[0] % 2)
        report = load(log, "orders", table, spark=local_session.spark, options=options)
    assert report.merged == MergeCounts(upserted=2, superseded=2)
    for offsets, expected in (
        (None, {b"a": b"2", b"c": b"1"}),
        ({0: 1, 1: 1}, {b"a": b"1", b"b": b"1"}),
    ):
        rows = read_table(local_session.spark, table, offsets=offsets).collect()
        assert {bytes(row.key): bytes(row.value) for row in rows} == expected
    found = audit(Table(table), open_log(topic_options(log, "orders")), "orders")
    assert found.is_equal


@pytest.mark.parametrize("is_history", [False, True])
def test_changes_are_merged_by_fields_and_versions_by_tasks_of_spark(
    tmp_path: Path, local_session: LocalSession, is_history: bool
) -> None:
    log, table = str(tmp_path / "log"), str(tmp_path / "table")
    layout = LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema="id int, at int, op string"),
        upsert=Upsert(
            key=("value.id",),
            version="value.at",
            delete_when="value.op = d",
            is_history=is_history,
        ),
        has_change_feed=is_history,
    )
    options = LoadOptions(layout=layout, min_partitions=2)
    for changes in (["1 5 u", "2 5 u", "3 5 d"], ["1 6 d", "2 4 u", "3 4 u", "4 1 u"]):
        with ottla.open(log) as opened:
            if "orders" not in opened.topics():
                opened.create_topic("orders", partitions=2)
            for number, change in enumerate(changes):
                key, at, op = change.split()
                value = {"id": int(key), "at": int(at), "op": op}
                opened.append("orders", json.dumps(value).encode(), partition=number % 2)
        load(log, "orders", table, spark=local_session.spark, options=options)
    rows = read_table(local_session.spark, table)
    if is_history:
        assert rows.count() == 5
        rows = rows.where("is_current")
    found_rows = rows.select("value.id", "value.at").collect()
    assert sorted((row.id, row.at) for row in found_rows) == [(2, 5), (4, 1)]
    found = audit(Table(table), open_log(topic_options(log, "orders")), "orders")
    assert found.is_equal
