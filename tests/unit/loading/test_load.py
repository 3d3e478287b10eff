"""Loads whose tasks run in this process: no engine is needed to fill a table and prove it equal."""

from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.compaction import CompactOptions, compact
from ottla.loading.job import LoadOptions, LoadPlace, Progress, Step
from ottla.loading.load import claimed, load, load_job, load_new
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.table_directory import TableDirectory
from tests.support.local_tasks import LocalTasks

pytest.importorskip("pyarrow")


def append(path: Path, count: int) -> None:
    with ottla.open(path) as log:
        if "orders" not in log.topics():
            log.create_topic("orders")
        for number in range(count):
            log.append("orders", b"%d" % number)


def place(path: Path) -> LoadPlace:
    return LoadPlace(str(path / "log"), "orders", str(path / "table"))


def is_equal(path: Path) -> bool:
    log = open_log(topic_options(str(path / "log"), "orders"))
    return audit(TableDirectory(str(path / "table")), log, "orders", compare_all=True).is_equal


def test_each_load_takes_what_came_since_the_one_before(tmp_path: Path) -> None:
    steps: list[Progress] = []
    for count in (20, 5, 0):
        append(tmp_path / "log", count)
        report = load(load_job(place(tmp_path), LocalTasks(), steps.append))
        assert report.row_count == count
        assert report.nothing_new is not bool(count)
    assert [one.step for one in steps if one.tasks_done == 0][:6] == list(Step)[:6]
    assert is_equal(tmp_path)


def test_the_state_after_a_load_is_what_the_next_one_continues(tmp_path: Path) -> None:
    append(tmp_path / "log", 7)
    job = load_job(place(tmp_path), LocalTasks())
    with claimed(job) as before:
        report, state = load_new(job, before)
        assert (report.commit_id, state.commit_id) == (0, 1)
        append(tmp_path / "log", 3)
        report, _ = load_new(job, state)
    assert [(one.from_offset, one.until_offset) for one in report.partitions] == [(7, 10)]
    with claimed(job) as found:
        assert found.loaded == {**state.loaded, 0: report.partitions[0]}
    assert is_equal(tmp_path)


def test_a_rerun_reads_a_range_again_and_carries_over_the_rest(tmp_path: Path) -> None:
    append(tmp_path / "log", 20)
    load(load_job(place(tmp_path), LocalTasks()))
    report = rerun(load_job(place(tmp_path), LocalTasks()), rerun_range("5", "9", "orders"))
    (only,) = report.partitions
    assert (only.row_count, only.carried_count) == (4, 16)
    assert is_equal(tmp_path)


def test_small_files_become_one(tmp_path: Path) -> None:
    for count in (4, 6):
        append(tmp_path / "log", count)
        load(load_job(place(tmp_path), LocalTasks()))
    report = compact(str(tmp_path / "table"), LocalTasks(), options=CompactOptions())
    assert (len(report.before), len(report.after)) == (2, 1)
    assert is_equal(tmp_path)


def test_a_log_that_is_no_longer_there_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    append(tmp_path / "log", 4)
    load(load_job(place(tmp_path), LocalTasks(), options=LoadOptions(min_partitions=2)))
    (tmp_path / "log").rename(tmp_path / "gone")
    with pytest.raises(UserError, match="neither a directory that exists nor"):
        load_job(place(tmp_path), LocalTasks())
    (tmp_path / "gone").rename(tmp_path / "log")
    assert is_equal(tmp_path)
