"""Loads whose tasks run in this process: no engine is needed to fill a table and prove it equal."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.main import main
from ottla.loading.auditing.audit import audit
from ottla.loading.follow import FollowRule, follow
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import claimed, load, load_job, load_new
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.schema_registry.framing import PREFIX
from ottla.sources.log_source import LogPartition
from ottla.sources.opening import open_log, topic_options
from ottla.table import Moment, dataset
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step

pytest.importorskip("pyarrow")


def append(path: Path, count: int) -> None:
    with ottla.open(path) as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in range(count):
            log.append("orders", b"%d" % number)


def place(path: Path) -> LoadRoute:
    return LoadRoute(str(path / "log"), "orders", str(path / "table"))


def read_by_command(path: Path, *options: str) -> object:
    """The exit code."""
    with pytest.raises(SystemExit) as end:
        main(["table", "read", str(path / "table"), *options])
    return end.value.code


def is_equal(path: Path) -> bool:
    log = open_log(topic_options(str(path / "log"), "orders"))
    return audit(Table(str(path / "table")), log, "orders", compare_all=True).is_equal


@pytest.mark.slow
def test_each_load_takes_what_came_since_the_one_before(tmp_path: Path) -> None:
    steps: list[Progress] = []
    for count in (20, 5, 0):
        append(tmp_path / "log", count)
        report = load(load_job(place(tmp_path), LocalEngine(), steps.append))
        assert report.row_count == count
        assert report.nothing_new is not bool(count)
    assert [one.step for one in steps if one.tasks_done == 0][:6] == list(Step)[:6]
    assert is_equal(tmp_path)


@pytest.mark.slow
def test_others_skip_files_by_the_statistics_in_the_log_which_names_the_next_offset(
    tmp_path: Path,
) -> None:
    deltalake = pytest.importorskip("deltalake")
    import pyarrow.compute as pc

    for count in (4, 6, 3):
        append(tmp_path / "log", count)
        load(load_job(place(tmp_path), LocalEngine()))
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    assert table.transaction_version("orders-0") == 13
    rows = table.to_pyarrow_dataset()
    latest = pc.max(rows.to_table(columns=["timestamp"])["timestamp"]).as_py()
    for wanted, count in (
        (pc.field("offset") == 5, 1),
        (pc.field("offset") < 5, 2),
        (pc.field("partition") == 1, 0),
        (pc.field("timestamp") > latest + timedelta(seconds=1), 0),
    ):
        assert len(list(rows.get_fragments(filter=wanted))) == count


def test_the_state_after_a_load_is_what_the_next_one_continues(tmp_path: Path) -> None:
    append(tmp_path / "log", 7)
    job = load_job(place(tmp_path), LocalEngine())
    with claimed(job) as before:
        report, state = load_new(job, before)
        assert (report.commit_id, state.commit_count) == (0, 1)
        append(tmp_path / "log", 3)
        report, _ = load_new(job, state)
    assert [(one.from_offset, one.until_offset) for one in report.partitions] == [(7, 10)]
    with claimed(job) as found:
        assert found.loaded == {**state.loaded, 0: report.partitions[0]}
    assert is_equal(tmp_path)


def test_a_table_that_another_load_has_filled_since_the_log_was_looked_at_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / "log", 7)
    job = load_job(place(tmp_path), LocalEngine())
    partitions = job.log.partitions

    def before_others() -> list[LogPartition]:
        monkeypatch.undo()
        offered = partitions()
        append(tmp_path / "log", 3)
        load(load_job(place(tmp_path), LocalEngine()))
        append(tmp_path / "log", 1)
        return offered

    monkeypatch.setattr(job.log, "partitions", before_others)
    (only,) = load(job).partitions
    assert (only.from_offset, only.until_offset) == (10, 11)
    assert is_equal(tmp_path)


def test_a_rerun_reads_a_range_again_and_carries_over_the_rest(tmp_path: Path) -> None:
    append(tmp_path / "log", 20)
    load(load_job(place(tmp_path), LocalEngine()))
    report = rerun(load_job(place(tmp_path), LocalEngine()), rerun_range("5", "9", "orders"))
    (only,) = report.partitions
    assert (only.row_count, only.copied_count) == (4, 16)
    assert is_equal(tmp_path)


@pytest.mark.slow
def test_small_files_become_one(tmp_path: Path) -> None:
    for count in (4, 6):
        append(tmp_path / "log", count)
        load(load_job(place(tmp_path), LocalEngine()))
    report = optimize(str(tmp_path / "table"), LocalEngine(), options=OptimizeOptions())
    assert (len(report.before), len(report.after)) == (2, 1)
    assert is_equal(tmp_path)


def test_a_log_that_is_no_longer_there_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    append(tmp_path / "log", 4)
    load(load_job(place(tmp_path), LocalEngine(), options=LoadOptions(min_partitions=2)))
    (tmp_path / "log").rename(tmp_path / "gone")
    with pytest.raises(UserError, match="neither a directory that exists nor"):
        load_job(place(tmp_path), LocalEngine())
    (tmp_path / "gone").rename(tmp_path / "log")
    assert is_equal(tmp_path)


def test_a_table_is_read_as_it_was_in_a_version_or_at_a_time(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    for count in (20, 5):
        append(tmp_path / "log", count)
        load(load_job(place(tmp_path), LocalEngine()))
    path = str(tmp_path / "table")
    assert [dataset(path, version=one).count_rows() for one in (0, 1)] == [20, 25]
    second, first = (one["timestamp"] for one in deltalake.DeltaTable(path).history())
    for copied in (tmp_path / "table" / "_delta_log").iterdir():
        os.utime(copied, (0, 0))
    at_first = dataset(path, time_ms=first).count_rows()
    assert at_first == (20 if first < second else 25)
    assert [dataset(path, time_ms=one).count_rows() for one in (second, second + 10**6)] == [25, 25]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 25),
        (("--version", "0"), 20),
        (("--at", "2100-01-01"), 25),
        (("--offset", "0=7"), 7),
    ],
)
def test_the_command_reads_an_earlier_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], count: int
) -> None:
    for appended in (20, 5):
        append(tmp_path / "log", appended)
        load(load_job(place(tmp_path), LocalEngine()))
    assert read_by_command(tmp_path, "--json", *options) == 0
    assert len(capsys.readouterr().out.splitlines()) == count


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--version", "7"), "has no version 7; the newest is 0"),
        (("--at", "2000-01-01"), "has no version of 2000-01-01"),
        (("--at", "noon"), "noon"),
        (("--offset", "0=30"), "partition 0 is loaded up to offset 20, not 30"),
        (("--offset", "7"), "--offset 7: use PARTITION=END, such as 0=5000"),
        (("--version", "0", "--offset", "0=3"), "give only one of version, time and offsets"),
    ],
)
def test_the_command_says_which_state_a_table_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    append(tmp_path / "log", 20)
    load(load_job(place(tmp_path), LocalEngine()))
    assert read_by_command(tmp_path, *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_moment_that_a_table_does_not_have_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    append(tmp_path / "log", 1)
    load(load_job(place(tmp_path), LocalEngine()))
    path = str(tmp_path / "table")
    with pytest.raises(UserError, match="has no version of 1970-01-01"):
        dataset(path, time_ms=1000)
    with pytest.raises(UserError, match="a partition is a whole number"):
        dataset(path, offsets={"0": 3})  # type: ignore[dict-item]
    with pytest.raises(UserError, match="give only one of version, time and offsets"):
        dataset(path, version=0, time_ms=1000)
    for version in (-1, 7):
        with pytest.raises(UserError, match=f"table has no version {version}; the newest is 0"):
            dataset(path, version=version)


@pytest.mark.slow
def test_a_version_whose_files_a_vacuum_removed_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    for count in (4, 6):
        append(tmp_path / "log", count)
        load(load_job(place(tmp_path), LocalEngine()))
    path = str(tmp_path / "table")
    optimize(path, LocalEngine(), options=OptimizeOptions())
    assert dataset(path, version=1).count_rows() == 10
    vacuum(path, SystemClock(), retention_ms=0)
    with pytest.raises(
        UserError, match=r"table: 2 of 2 files of version 1 no longer exist; .*vacuum"
    ):
        dataset(path, version=1)
    assert dataset(path, offsets={0: 5}).count_rows() == 5


@pytest.mark.slow
def test_of_an_earlier_version_only_files_that_are_no_longer_current_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake")
    import pyarrow.fs

    asked: list[str] = []

    class Files(pyarrow.fs.LocalFileSystem):
        def get_file_info(self, paths: list[str]) -> object:
            asked.extend(paths)
            return super().get_file_info(paths)

    path = str(tmp_path / "table")
    for count in (4, 6, 3):
        append(tmp_path / "log", count)
        load(load_job(place(tmp_path), LocalEngine()))
    table = Table(path)
    monkeypatch.setattr(table.store, "arrow", Files)
    assert len(Moment(version=1).files_of(table)) == 2
    assert asked == []
    optimize(path, LocalEngine(), options=OptimizeOptions())
    assert len(Moment(version=1).files_of(table)) == len(asked) == 2


def test_an_audit_names_the_schema_that_a_registry_has_no_longer(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    registry = tmp_path / "registry"
    registry.mkdir()
    fields = [{"name": "id", "type": "int"}]
    for name in ("1.avsc", "orders-value.1.avsc"):
        schema = {"type": "record", "name": "order", "fields": fields}
        (registry / name).write_text(json.dumps(schema))
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")
        log.append("orders", PREFIX.pack(0, 1) + b"\x02")
    decoding = Decoding(format=ValueFormat.AVRO, schema="", registry=str(registry))
    options = LoadOptions(layout=LayoutOptions(decoding=decoding))
    load(load_job(place(tmp_path), LocalEngine(), options=options))
    (registry / "1.avsc").unlink()
    source = open_log(topic_options(str(tmp_path / "log"), "orders"))
    (found,) = audit(Table(str(tmp_path / "table")), source, "orders", compare_all=True).differences
    assert "cannot be decoded any more: it was written with schema 1" in found.text


def test_a_follower_grows_with_the_versions_that_are_registered_meanwhile(tmp_path: Path) -> None:
    """Each commit asks the registry, so values of a new version are rows at once."""
    pytest.importorskip("fastavro")
    registry = tmp_path / "registry"
    registry.mkdir()
    with ottla.open(tmp_path / "log") as log:
        log.create_topic("orders")

    def register(number: int, *fields: str) -> None:
        described = [{"name": one, "type": "int"} for one in fields]
        schema = json.dumps({"type": "record", "name": "order", "fields": described})
        for name in (f"{number}.avsc", f"orders-value.{number}.avsc"):
            (registry / name).write_text(schema)
        with ottla.open(tmp_path / "log") as log:
            # A zigzag integer of one byte for each field.
            log.append("orders", PREFIX.pack(0, number) + b"\x02" * len(fields))

    class Stop:
        def is_set(self) -> bool:
            return (registry / "2.avsc").exists()

        def wait(self, seconds: float) -> None:
            register(2, "id", "price")

    register(1, "id")
    decoding = Decoding(format=ValueFormat.AVRO, schema="", registry=str(registry))
    options = LoadOptions(layout=LayoutOptions(decoding=decoding))
    job = load_job(place(tmp_path), LocalEngine(), options=options)
    assert [one.row_count for one in follow([job], FollowRule(interval_s=0, max_age_s=0), Stop())]
    values = dataset(str(tmp_path / "table")).to_table().sort_by("offset")["value"].to_pylist()
    assert values == [{"id": 1, "price": None}, {"id": 1, "price": 1}]
