"""Every batch of a stream is in the log once, whatever is killed, and wherever."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import ottla
from ottla.base.addresses import parse_address
from ottla.base.errors import UserError
from ottla.client.bulk.producer_identity import init_producer
from ottla.embedded.log import Log
from ottla.spark.sink.sink_state import transactional_id
from ottla.spark.sink.transactions import Step, abort, connected, read_state
from ottla.storage.reading.read_only_directory import open_for_reading
from tests.unit.spark.sinking import (
    SETTINGS,
    KilledError,
    Killer,
    Query,
    committed_values,
    divided,
    rows_of,
)

TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sink") / "d"


@pytest.fixture(scope="module")
def log(data: Path) -> Iterator[Log]:
    with ottla.open(data, SETTINGS) as log:
        log.listen("127.0.0.1:0")
        yield log


class Queries:
    """Each has a topic of its own in the same broker."""

    def __init__(self, log: Log, data: Path) -> None:
        self.log = log
        self.data = data

    def new(self, name: str) -> Query:
        self.log.create_topic(name, partitions=3)
        listening = self.log._listening
        assert listening is not None
        return Query(parse_address(listening.address), name, f"sink-{name}")

    def values(self, query: Query) -> list[str]:
        return committed_values(self.data, query.topic)


@pytest.fixture
def queries(log: Log, data: Path) -> Queries:
    return Queries(log, data)


def steps_of_a_batch(queries: Queries, name: str, batch: int) -> list[Step]:
    query = queries.new(name)
    for number in range(batch):
        query.run(number, divided(rows_of(number), 2))
    whole = Killer()
    query.run(batch, divided(rows_of(batch), 2), whole)
    return whole.steps


def test_a_batch_is_seen_as_a_whole_and_one_that_comes_again_writes_nothing(
    queries: Queries,
) -> None:
    query = queries.new("whole")
    reports = [query.task(0, number, rows) for number, rows in enumerate(divided(rows_of(0), 2))]
    assert queries.values(query) == []
    query.commit(0, reports)
    assert queries.values(query) == sorted(rows_of(0))
    for count in (2, 3):
        query.run(0, divided(rows_of(0), count))
    assert queries.values(query) == sorted(rows_of(0))


def test_a_batch_without_rows_leaves_nothing_to_be_committed(queries: Queries) -> None:
    query = queries.new("empty")
    kill = Killer()
    query.run(0, [[], []], kill)
    assert Step.PRODUCER_READY not in kill.steps
    query.run(1, [rows_of(1), []])
    assert queries.values(query) == sorted(rows_of(1))


@pytest.mark.slow
@pytest.mark.parametrize("tasks_again", [2, 3])
def test_a_kill_at_every_step_loses_and_doubles_nothing(queries: Queries, tasks_again: int) -> None:
    """Also when the rows come divided in another way: the state is enough to continue."""
    steps = steps_of_a_batch(queries, f"steps-{tasks_again}", 1)
    assert set(steps) == set(Step)
    for at in range(len(steps)):
        query = queries.new(f"kill-{at}-{tasks_again}")
        query.run(0, divided(rows_of(0), 2))
        with pytest.raises(KilledError):
            query.run(1, divided(rows_of(1), 2), Killer(at))
        query.run(1, divided(rows_of(1), tasks_again))
        query.run(2, divided(rows_of(2), 2))
        expected = sorted(row for batch in range(3) for row in rows_of(batch))
        assert queries.values(query) == expected, (at, steps[at])


def killed_halfway(queries: Queries, name: str) -> Query:
    """One of three transactions is committed, then the driver dies, and the broker aborts."""
    query = queries.new(name)
    kill = Killer()
    reports = [
        query.task(0, number, rows, kill) for number, rows in enumerate(divided(rows_of(0), 3))
    ]
    kill.at = len(kill.steps) + 2
    with pytest.raises(KilledError):
        query.commit(0, reports, kill)
    assert kill.steps[-3:] == [Step.COMMIT_BEGUN, Step.INTENT_WRITTEN, Step.TRANSACTION_ENDED]
    with connected(query.options) as cluster:
        for number in (1, 2):
            # What the end of the time that a transaction has does as well.
            init_producer(cluster, transactional_id(query.name, number), TIMEOUT_MS)
    assert 0 < len(queries.values(query)) < len(rows_of(0))
    return query


@pytest.mark.slow
def test_transactions_that_the_broker_aborted_halfway_are_written_again_alone(
    queries: Queries,
) -> None:
    query = killed_halfway(queries, "aborted")
    query.run(0, divided(rows_of(0), 3))
    assert queries.values(query) == sorted(rows_of(0))
    again = killed_halfway(queries, "aborted-twice")
    kill = Killer()
    reports = [
        again.task(0, number, rows, kill) for number, rows in enumerate(divided(rows_of(0), 3))
    ]
    kill.at = len(kill.steps) + 6
    with pytest.raises(KilledError):
        again.commit(0, reports, kill)
    again.run(0, divided(rows_of(0), 3))
    assert queries.values(again) == sorted(rows_of(0))


@pytest.mark.slow
def test_rows_divided_again_are_refused_when_half_of_them_are_committed_for_good(
    queries: Queries,
) -> None:
    query = killed_halfway(queries, "divided")
    before = queries.values(query)
    with pytest.raises(UserError, match=r"batch 0 is half written: .* tasks 1, 2 .*as many tasks"):
        query.run(0, divided(rows_of(0), 2))
    assert queries.values(query) == before
    query.run(0, divided(rows_of(0), 3))
    assert queries.values(query) == sorted(rows_of(0))


def test_a_marker_says_that_a_transaction_was_committed_whose_producer_moved_on(
    queries: Queries,
) -> None:
    """A task that was thought lost wakes up between the commit and the note of it."""
    query = queries.new("zombie")
    kill = Killer()
    reports = [query.task(0, 0, rows_of(0), kill)]
    kill.at = kill.steps.index(Step.MARKED) + 3
    with pytest.raises(KilledError):
        query.commit(0, reports, kill)
    with connected(query.options) as cluster:
        init_producer(cluster, transactional_id(query.name, 0), TIMEOUT_MS)
    query.run(0, [rows_of(0)])
    assert queries.values(query) == sorted(rows_of(0))


@pytest.mark.slow
def test_a_commit_that_the_broker_does_not_take_any_more_is_reported_and_made_up_for(
    queries: Queries,
) -> None:
    query = queries.new("late")
    reports = [query.task(0, number, rows) for number, rows in enumerate(divided(rows_of(0), 2))]
    with connected(query.options) as cluster:
        init_producer(cluster, transactional_id(query.name, 1), TIMEOUT_MS)
    with pytest.raises(UserError, match=r"1 tasks out of 2 .*transaction\.timeout"):
        query.commit(0, reports)
    query.run(0, divided(rows_of(0), 2))
    assert queries.values(query) == sorted(rows_of(0))


def test_an_abort_ends_what_tasks_left_open(queries: Queries) -> None:
    query = queries.new("abort")
    first = [query.task(0, 0, rows_of(0)), None]
    query.task(0, 1, rows_of(0))  # and its report never arrives
    with connected(query.options) as cluster:
        abort(cluster, query.job(0), first)
        assert read_state(cluster, query.name) is None
    log = open_for_reading(str(queries.data))
    for number in range(3):
        partition = log.partition(query.topic, number)
        assert partition.transactions.last_stable_offset == partition.log_end_offset


def test_a_task_that_begins_after_the_abort_leaves_nobody_waiting(queries: Queries) -> None:
    """Spark asks for the abort while other tasks of the batch may be anywhere."""
    query = queries.new("abort-early")
    with connected(query.options) as cluster:
        abort(cluster, query.job(0), [None, None])
    with pytest.raises(UserError, match="aborted before this task"):
        query.task(0, 0, rows_of(0))
    log = open_for_reading(str(queries.data))
    ends = [log.partition(query.topic, number).log_end_offset for number in range(3)]
    assert ends == [0, 0, 0]
    replace(query, started="again").run(0, divided(rows_of(0), 2))
    assert queries.values(query) == sorted(rows_of(0))


def test_an_abort_leaves_alone_what_is_being_committed(queries: Queries) -> None:
    """Spark aborts when a commit fails as well; what is left then is the next run's to commit."""
    query = queries.new("abort-halfway")
    kill = Killer()
    reports = [
        query.task(0, number, rows, kill) for number, rows in enumerate(divided(rows_of(0), 3))
    ]
    kill.at = len(kill.steps) + 2
    with pytest.raises(KilledError):
        query.commit(0, reports, kill)
    with connected(query.options) as cluster:
        abort(cluster, query.job(0), reports)
    query.run(0, divided(rows_of(0), 2))
    assert queries.values(query) == sorted(rows_of(0))


def test_an_older_attempt_cannot_write_into_a_newer_ones_transaction(queries: Queries) -> None:
    query = queries.new("attempts")
    old = query.task(0, 0, rows_of(0))
    new = query.task(0, 0, rows_of(0))
    query.commit(0, [new])
    assert queries.values(query) == sorted(rows_of(0))
    query.commit(0, [old])
    assert queries.values(query) == sorted(rows_of(0))
