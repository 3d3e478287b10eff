"""Tables in an object store, written by Spark's tasks, with a server that speaks as S3 does."""

from collections.abc import Callable
from pathlib import Path

import pytest

import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.main import main
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, claimed, load_job
from ottla.loading.load import load_new as load_new_records
from ottla.loading.rerun_plan import rerun_range
from ottla.spark.engine import SparkEngine
from ottla.spark.load import load, optimize, rerun
from ottla.spark.session import LocalSession
from ottla.tables.columns.partitions import Partitioning
from ottla.tables.formats.transaction_log import CommitTakenError
from ottla.tables.layout import LayoutOptions
from ottla.tables.ledger.completeness import HOUR_MS
from ottla.tables.maintenance.optimize import OptimizeReport
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError
from tests.support.auditing import audited
from tests.support.topics import append, log_rows, table_rows


class Stopped(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


@pytest.fixture
def table(bucket: str) -> str:
    return f"{bucket}/tables/orders"


def load_new(
    path: Path,
    table: str,
    session: LocalSession,
    at: tuple[Step, Callable[[], object]] | None = None,
    options: LoadOptions | None = None,
) -> LoadReport:
    return load(
        str(path / "log"),
        "orders",
        table,
        spark=session.spark,
        progress=acting(at),
        options=options,
    )


def acting(at: tuple[Step, Callable[[], object]] | None) -> Callable[[Progress], None]:
    """A watcher that does something the first time that a step is reached."""
    left = [] if at is None else [at]

    def watch(progress: Progress) -> None:
        if left and progress.step is left[0][0]:
            left.pop()[1]()

    return watch


def stop() -> None:
    raise Stopped


def objects(table: str) -> set[str]:
    return {file.path for file in Table(table).store.find("data")}


def committed(table: str) -> set[str]:
    return {file.path for file in Table(table).current_files()}


def test_a_table_in_a_store_is_loaded_rerun_compacted_vacuumed_and_audited(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    options = LoadOptions(min_partitions=4)
    append(tmp_path / "log", {0: 700, 1: 30})
    load_new(tmp_path, table, local_session, options=options)
    append(tmp_path / "log", {0: 41, 1: 9})
    assert load_new(tmp_path, table, local_session, options=options).row_count == 50
    assert load_new(tmp_path, table, local_session).nothing_new
    assert table_rows(local_session.spark, table) == log_rows(tmp_path / "log")
    place = LoadRoute(str(tmp_path / "log"), "orders", table)
    again = rerun(place, rerun_range("0:100", "0:200", "orders"), spark=local_session.spark)
    assert again.row_count == 100
    report = compacted(table, local_session)
    assert len(report.before) > len(report.after) == 2
    assert audited(tmp_path, table=table).is_equal
    assert objects(table) > committed(table)
    vacuum(table, SystemClock(), retention_ms=0)
    assert objects(table) == committed(table)
    found = audited(tmp_path, table=table)
    assert found.differences == []
    assert (found.rows_compared, found.loads, found.reruns, found.optimizations) == (780, 2, 1, 1)


def compacted(
    table: str, session: LocalSession, at: tuple[Step, Callable[[], object]] | None = None
) -> OptimizeReport:
    return optimize(table, spark=session.spark, progress=acting(at))


def test_decoded_values_quarantine_and_directories_by_time_are_the_same_there(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        for number in range(50):
            value = b"broken" if number % 10 == 3 else b'{"id": %d}' % number
            log.append("orders", value, timestamp_ms=1_700_000_000_000 + number * HOUR_MS // 10)
    layout_options = LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema="id bigint"),
        partitioning=Partitioning.by_time("hour"),
    )
    options = LoadOptions(layout=layout_options, on_error=OnError.QUARANTINE)
    report = load_new(tmp_path, table, local_session, options=options)
    assert report.quarantined_count == 5
    assert audited(tmp_path, table=table).differences == []
    rows = ottla.table.dataset(table).to_table(columns=["value", "day", "hour"]).to_pylist()
    assert len({(row["day"], row["hour"]) for row in rows}) == 6
    assert [row["value"]["id"] for row in rows[:3]] == [0, 1, 2]
    with pytest.raises(UserError, match="decoded as json; load raw ones into another directory"):
        load_new(
            tmp_path,
            table,
            local_session,
            options=LoadOptions(layout=LayoutOptions(is_raw=True)),
        )


def test_of_two_loads_of_the_same_records_one_commits_and_the_other_finds_nothing_left(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 60})
    faster: list[LoadReport] = []

    def overtake() -> None:
        faster.append(load_new(tmp_path, table, local_session))

    report = load_new(tmp_path, table, local_session, (Step.SYNCED, overtake))
    assert (faster[0].commit_id, faster[0].row_count) == (0, 60)
    assert report.nothing_new
    assert audited(tmp_path, table=table).is_equal
    assert objects(table) == committed(table)


def test_a_load_that_comes_second_continues_after_the_first(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 60})

    def overtake() -> None:
        load_new(tmp_path, table, local_session)
        append(tmp_path / "log", {0: 25, 1: 5})

    report = load_new(tmp_path, table, local_session, (Step.SYNCED, overtake))
    assert (report.commit_id, report.row_count) == (1, 30)
    assert table_rows(local_session.spark, table) == log_rows(tmp_path / "log")
    assert audited(tmp_path, table=table).is_equal
    assert objects(table) == committed(table)


def test_two_that_follow_one_topic_into_one_table_take_turns(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    place = LoadRoute(str(tmp_path / "log"), "orders", table)
    append(tmp_path / "log", {0: 10})
    one, other = (load_job(place, SparkEngine(local_session.spark)) for _ in range(2))
    with claimed(one) as of_one, claimed(other) as of_other:
        append(tmp_path / "log", {1: 20})
        report, of_one = load_new_records(one, of_one)
        append(tmp_path / "log", {1: 30})
        second, of_other = load_new_records(other, of_other)
        append(tmp_path / "log", {1: 5})
        third, _ = load_new_records(one, of_one)
        assert not any(one.nothing_new for one in (report, second, third))
        assert load_new_records(other, of_other).report.nothing_new
    assert table_rows(local_session.spark, table) == log_rows(tmp_path / "log")
    report = audited(tmp_path, table=table)
    assert (report.differences, report.loads) == ([], 3)
    assert objects(table) == committed(table)


def test_a_rerun_that_a_load_overtakes_is_done_after_it(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 60})
    load_new(tmp_path, table, local_session)
    append(tmp_path / "log", {0: 10})

    def overtake() -> None:
        load_new(tmp_path, table, local_session)

    report = rerun(
        LoadRoute(str(tmp_path / "log"), "orders", table),
        rerun_range("0:5", "0:25", "orders"),
        spark=local_session.spark,
        progress=acting((Step.SYNCED, overtake)),
    )
    assert (report.commit_id, report.row_count) == (2, 20)
    found = audited(tmp_path, table=table)
    assert (found.differences, found.loads, found.reruns) == ([], 2, 1)


def test_a_compaction_that_a_load_overtakes_says_so_and_changes_nothing(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 60})
    load_new(tmp_path, table, local_session, options=LoadOptions(min_partitions=2))
    append(tmp_path / "log", {0: 10})

    def overtake() -> None:
        load_new(tmp_path, table, local_session)

    with pytest.raises(CommitTakenError, match="another writer has made commit 1"):
        compacted(table, local_session, (Step.SYNCED, overtake))
    assert objects(table) == committed(table)
    assert audited(tmp_path, table=table).is_equal


def test_what_stops_between_data_and_commit_is_not_seen_and_a_vacuum_removes_it(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 60})
    with pytest.raises(Stopped):
        load_new(tmp_path, table, local_session, (Step.SYNCED, stop))
    leftovers = objects(table)
    assert leftovers
    assert not Table(table).is_there()
    load_new(tmp_path, table, local_session)
    assert objects(table) == leftovers | committed(table)
    assert not vacuum(table, SystemClock()).removed_paths
    assert set(vacuum(table, SystemClock(), retention_ms=0).removed_paths) == leftovers
    assert objects(table) == committed(table)
    assert audited(tmp_path, table=table).is_equal


def test_the_commands_take_an_address(
    tmp_path: Path, table: str, local_session: LocalSession, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path / "log", {0: 40})
    load_new(tmp_path, table, local_session)
    for arguments, words in (
        (["table", "files", table], f"{table}/data/load-"),
        (["table", "read", table], "40 rows"),
        (["table", "vacuum", table, "--dry-run"], "would remove 0 files"),
        (["audit", str(tmp_path / "log"), "-t", "orders", "--table", table], "are equal: 1 load"),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert not end.value.code
        assert words in capsys.readouterr().out.replace("\n", " ")


def test_a_bucket_that_is_not_there_is_one_line(
    tmp_path: Path, table: str, local_session: LocalSession
) -> None:
    append(tmp_path / "log", {0: 4})
    with pytest.raises(UserError, match=r"s3://not-there/orders: .*bucket"):
        load_new(tmp_path, "s3://not-there/orders", local_session)
