"""Loads that follow a log: when they commit, how they end, and what a kill leaves: no loss."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.bounds import parse_place
from ottla.loading.follow import FollowRule, follow
from ottla.loading.job import LoadOptions
from ottla.loading.load import claimed, load
from ottla.table import dataset
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError
from tests.integration.cli.support import ENVIRONMENT, serving
from tests.support.following import (
    DECODED,
    EAGER,
    INFERRED,
    StopAfter,
    append_values,
    audited,
    some_orders,
    table_load,
)
from tests.support.patience import PATIENCE_S
from tests.support.topics import log_rows

ROOT = Path(__file__).parents[3]
SECOND_COMMIT = [
    Step.PLANNED,
    Step.WRITING,
    Step.WRITTEN,
    Step.VERIFIED,
    Step.SYNCED,
    Step.COMMITTED,
]


class Stopped(BaseException):
    """Ends a follower on the spot, as a kill does, but leaves the process."""


def followed_to_the_end(path: Path) -> None:
    for _ in follow([table_load(path)], EAGER, StopAfter(0)):
        pass


def assert_complete(path: Path, count: int) -> None:
    """Every record is a row or set aside, once, and what killed loads left can be removed."""
    report = audited(path)
    assert report.differences == []
    assert report.rows + report.quarantined == report.rows_counted == count
    assert report.rows_compared == report.rows
    aside = sum(value == b"{" for value in some_orders(count, 0))
    assert report.quarantined == aside
    named = {file.path for file in Table(str(path / "table")).current_files()}
    vacuum(str(path / "table"), SystemClock(), retention_ms=0)
    there = {str(one.relative_to(path / "table")) for one in (path / "table").rglob("part-*")}
    assert there == named


def test_a_follower_commits_what_is_there_and_what_comes(tmp_path: Path) -> None:
    append_values(tmp_path / "log", some_orders(50, 0))

    def feed(round_number: int) -> None:
        if round_number == 2:
            append_values(tmp_path / "log", some_orders(30, 50))

    loads = [table_load(tmp_path)]
    reports = list(follow(loads, EAGER, StopAfter(6, feed)))
    assert [one.commit_id for one in reports] == [0, 1]
    assert_complete(tmp_path, 80)


def test_a_follower_waits_until_it_is_enough_or_old_enough_and_ends_with_a_commit(
    tmp_path: Path,
) -> None:
    rule = FollowRule(interval_s=1, max_age_s=60, target_size=1 << 30)
    append_values(tmp_path / "log", some_orders(10, 0))
    commits: list[int] = []
    now = 0.0

    def feed(round_number: int) -> None:
        nonlocal now
        now += 25.0
        if round_number == 1:
            append_values(tmp_path / "log", some_orders(10, 10))
        if round_number == 6:
            append_values(tmp_path / "log", some_orders(10, 20))

    loads = [table_load(tmp_path)]
    for report in follow(loads, rule, StopAfter(8, feed), clock=lambda: now):
        commits.append(int(now))
        assert report.row_count + report.quarantined_count == 10
    # Seen at 50, and 60 seconds later at the next look; the last ones as it ends.
    assert commits == [0, 125, 200]
    assert_complete(tmp_path, 30)
    assert rule.is_due(1 << 30, 0)


@pytest.mark.parametrize("step", SECOND_COMMIT, ids=lambda step: step.name.lower())
def test_a_follower_that_stops_anywhere_is_completed_by_the_next(
    tmp_path: Path, step: Step
) -> None:
    append_values(tmp_path / "log", some_orders(40, 0))
    commits = 0

    def stop(progress: Progress) -> None:
        nonlocal commits
        if commits and progress.step is step:
            raise Stopped
        commits += progress.step is Step.COMMITTED

    def feed(round_number: int) -> None:
        if round_number == 0:
            append_values(tmp_path / "log", some_orders(40, 40))

    with pytest.raises(Stopped):
        list(follow([table_load(tmp_path, stop)], EAGER, StopAfter(9, feed)))
    followed_to_the_end(tmp_path)
    assert_complete(tmp_path, 80)


@pytest.mark.long  # Each step is a process.
def test_a_follower_that_is_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    for step in SECOND_COMMIT:
        path = tmp_path / step.name
        append_values(path / "log", some_orders(100, 0))
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.killed_follow", str(path), step.name],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        followed_to_the_end(path)
        assert_complete(path, 500)


def test_a_first_load_begins_where_it_is_told_and_later_ones_may_not(tmp_path: Path) -> None:
    append_values(tmp_path / "log", some_orders(60, 0), step_ms=1000)
    begin = LoadOptions(starting=parse_place("--from", "0:20,1:0", "orders"))
    job = table_load(tmp_path, options=begin)
    report = load(job)
    assert [(one.from_offset, one.until_offset) for one in report.partitions] == [(20, 60), (0, 0)]
    again = table_load(tmp_path, options=begin)
    with pytest.raises(UserError, match="--from is for a table's first load"), claimed(again):
        pass
    assert audited(tmp_path).differences == []


def test_a_first_load_from_the_latest_remembers_where_that_was(tmp_path: Path) -> None:
    append_values(tmp_path / "log", some_orders(5, 0))
    begin = parse_place("--from", "latest", "orders")
    inferred = LayoutOptions(decoding=INFERRED)
    job = table_load(tmp_path, options=LoadOptions(starting=begin, layout=inferred))
    with pytest.raises(UserError, match="no record yet to infer"):
        load(job)
    job = table_load(tmp_path, options=replace(DECODED, starting=begin))
    assert load(job).row_count == 0
    append_values(tmp_path / "log", some_orders(7, 5))
    job = table_load(tmp_path)
    assert [one.from_offset for one in load(job).partitions] == [5, 0]


def test_a_load_ends_where_it_is_told_and_the_next_continues(tmp_path: Path) -> None:
    append_values(tmp_path / "log", some_orders(60, 0), step_ms=1000)
    found = []
    for text in ("2023-11-14T22:00:30", "@1700000000000", "0:61,1:0", "0:30,1:0", "latest"):
        job = table_load(
            tmp_path,
            options=LoadOptions(ending=parse_place("--to", text, "orders")),
        )
        try:
            found.append(load(job).partitions[0].until_offset)
        except UserError as error:
            found.append(str(error).partition(":")[0])
    assert found == [30, 60, "orders-0", "orders-0", 60]


def test_the_command_follows_until_it_is_told_to_end(tmp_path: Path) -> None:
    append_values(tmp_path / "log", some_orders(50, 0))
    command = [sys.executable, "-m", "ottla", "load", str(tmp_path / "log"), "--topic", "orders"]
    command += ["--into", str(tmp_path / "table"), "--decode", "json", "--schema", "id bigint"]
    command += ["--on-error", "quarantine", "--follow", "--interval", "100ms", "--engine", "local"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        assert "orders: commit 0, " in process.stdout.readline()
        append_values(tmp_path / "log", some_orders(30, 50))
        process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
    assert "orders: commit 1, " in said
    assert "stopped: everything appended so far is loaded" in said
    assert_complete(tmp_path, 80)


def test_a_log_under_a_broker_that_appends_rolls_and_deletes_is_loaded_as_it_is(
    tmp_path: Path, crash_seconds: float
) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    settings = {
        "log.segment.bytes": 20_000,
        "log.retention.bytes": 200_000,
        "log.retention.check.interval.ms": 50,
        "log.segment.delete.delay.ms": 0,
        "log.initial.task.delay.ms": 0,
    }
    arguments = [one for name, value in settings.items() for one in ("-o", f"{name}={value}")]
    rounds = 200 if crash_seconds else 7
    with serving(tmp_path / "log", *arguments) as (address, _):
        # Batches that fit into the small segments.
        producer = confluent.Producer({"bootstrap.servers": address, "batch.size": 4000})

        def feed(round_number: int) -> None:
            for number in range(600):
                producer.produce("orders", json.dumps({"id": number, "pad": "x" * 100}).encode())
            producer.produce("orders", b"poison")
            assert producer.flush(60) == 0

        feed(-1)
        options = LoadOptions(layout=DECODED.layout, on_error=OnError.QUARANTINE, allow_gaps=True)
        job = table_load(tmp_path, options=options)
        reports = list(follow([job], EAGER, StopAfter(rounds, feed)))
    report = audited(tmp_path)
    assert report.differences == []
    assert len(reports) > rounds / 3
    assert report.quarantined > 0
    assert report.unseen, "nothing was deleted"
    lost = sum(
        one.lost.until_offset - one.lost.from_offset
        for each in reports
        for one in each.partitions
        if one.lost is not None
    )
    assert report.rows + report.quarantined + lost == 601 * (rounds + 1)


def test_a_log_that_is_compacted_meanwhile_has_each_record_that_is_left_in_the_table_once(
    tmp_path: Path, crash_seconds: float
) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    settings = {
        "log.segment.bytes": 10_000,
        "log.cleanup.policy": "compact",
        "log.cleaner.min.cleanable.ratio": 0.01,
        "log.cleaner.backoff.ms": 20,
        "log.initial.task.delay.ms": 100,
    }
    arguments = [one for name, value in settings.items() for one in ("-o", f"{name}={value}")]
    with serving(tmp_path / "log", *arguments) as (address, _):
        # Batches that fit into the small segments.
        producer = confluent.Producer({"bootstrap.servers": address, "batch.size": 4000})

        def feed(done: int) -> None:
            for number in range(500):
                value = json.dumps({"id": number, "pad": "x" * 50}).encode()
                producer.produce("orders", value, key=b"%d" % (number % 50))
            assert producer.flush(60) == 0
            while done == 1 and len(log_rows(tmp_path / "log")) == 500 * (done + 2):
                pass  # Nothing was compacted yet; the test's own limit ends this.

        feed(-1)
        loads = [table_load(tmp_path)]
        rounds = 100 if crash_seconds else 5
        list(follow(loads, EAGER, StopAfter(rounds, feed)))
        there = log_rows(tmp_path / "log")
    assert len(there) < 500 * (rounds + 1)
    rows = dataset(str(tmp_path / "table")).to_table()
    offsets = rows["offset"].to_pylist()
    assert len(set(offsets)) == len(offsets)
    ids = dict(zip(offsets, rows["value"].to_pylist(), strict=True))
    assert all(ids[row[1]] == {"id": json.loads(row[3])["id"]} for row in there)
