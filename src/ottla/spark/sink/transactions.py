"""The sink's transactions: one for the rows of each task, and their commit or abort.

A task leaves its transaction open and reports it to the driver; the driver ends it, so that nothing
is visible before all tasks are done. `sink_state.py` describes the state of a stream, and what a
crash between two ends leaves; `docs/spark.md` the remaining limits.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import (
    Committed,
    GroupMetadata,
    commit_from_outside,
    committed_by,
)
from ottla.client.bulk.producer import Producer
from ottla.client.bulk.producer_identity import ProducerIdentity, init_producer
from ottla.client.bulk.transactions import (
    commit_offsets,
    end_transaction,
    is_initialized,
    ongoing_ids,
)
from ottla.client.connecting.cluster import Cluster, CoordinatorKind
from ottla.client.refusals import refusals
from ottla.spark.sink.row_packing import PackingRules, RowPacker, measure
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.sink.sink_state import (
    Entry,
    Phase,
    SinkState,
    TaskReport,
    decode_state,
    encode_state,
    is_marked,
    marker,
    marker_group,
    settle,
    transactional_id,
)

if TYPE_CHECKING:
    import pyarrow as pa


def connected(options: SinkOptions) -> Cluster:
    """Connects; use the result in a `with` statement."""
    return Cluster(options.bootstrap, options.client, sleep=time.sleep, topics=())


class Step(Enum):
    """Steps between which a crash can happen; each is reported when it is done."""

    STATE_READ = auto()
    PRODUCER_READY = auto()
    ROWS_SENT = auto()
    ROWS_ACKNOWLEDGED = auto()
    MARKED = auto()
    COMMIT_BEGUN = auto()
    INTENT_WRITTEN = auto()
    TRANSACTION_ENDED = auto()
    ALL_ENDED = auto()
    STATE_WRITTEN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A write that becomes visible at once: a batch of a stream, or without `batch` a batch write.

    `sink` is the same for all batches of a stream, whenever and wherever they run; `run` is new for
    each start of the stream, and for each batch write.
    """

    sink: str
    run: str
    batch: int | None = None


@dataclass(slots=True)
class TaskWrite:
    """One task's part of a job."""

    cluster: Cluster
    options: SinkOptions
    job: Job
    task: int
    on_step: Callable[[Step], None] = pass_over
    _producer: Producer | None = field(default=None, init=False)

    def run(self, batches: Iterable["pa.RecordBatch"]) -> TaskReport:
        """Writes the rows, unless that was done before; raises `UserError`, having aborted."""
        if self.job.batch is None or not self.options.is_exactly_once:
            return self._write(batches)
        state = read_state(self.cluster, self.job.sink)
        self.on_step(Step.STATE_READ)
        if state is None or state.batch < self.job.batch:
            return self._write(batches)
        nothing = TaskReport(task=self.task, row_count=0, size=0)
        if state.has(self.job.batch):
            return nothing
        committed = _commit(self.cluster, self.job, state.entries, self.on_step)
        if committed and len(committed) == len(state.entries):
            return nothing
        return self._count(batches) if self.task in committed else self._write(batches)

    def _partition_count(self, topic: str) -> int:
        return partition_count(self.cluster, topic, self.options.topic_patience_s)

    def _count(self, batches: Iterable["pa.RecordBatch"]) -> TaskReport:
        """Counts rows, so that the driver can check that they are divided as before."""
        counts = [measure(batch) for batch in batches]
        rows, sizes = (sum(one[place] for one in counts) for place in (0, 1))
        return TaskReport(task=self.task, row_count=rows, size=sizes)

    def _write(self, batches: Iterable["pa.RecordBatch"]) -> TaskReport:
        try:
            return self._sent(batches)
        except BaseException:
            if self._producer is not None and self._producer.identity.transactional_id:
                # The next writer aborts it if this fails too.
                with contextlib.suppress(UserError):
                    end_transaction(self.cluster, self._producer.identity, is_commit=False)
            raise

    def _sent(self, batches: Iterable["pa.RecordBatch"]) -> TaskReport:
        packer = RowPacker(
            PackingRules(
                topic=self.options.topic,
                batch_size=self.options.batch_size,
                max_record_size=self.options.max_request_size,
                partition_count=cache(self._partition_count),
                first_turn=self.task,
            )
        )
        topics: set[str] = set()
        row_count = size = 0
        for batch in batches:
            for placed in packer.pack(batch):
                self._ready_producer().send(placed.topic, placed.packed)
                topics.add(placed.topic)
                row_count += placed.row_count
                size += placed.size
                self.on_step(Step.ROWS_SENT)
        report = TaskReport(
            task=self.task, row_count=row_count, size=size, topics=tuple(sorted(topics))
        )
        return report if self._producer is None else self._finished(self._producer, report)

    def _ready_producer(self) -> Producer:
        """Creates the producer for the first rows: a task without rows opens no transaction."""
        if self._producer is None:
            is_transactional = self.options.is_exactly_once
            name = transactional_id(self.job.sink, self.task) if is_transactional else ""
            who = init_producer(self.cluster, name, self.options.transaction_timeout_ms)
            if is_transactional and is_initialized(self.cluster, _abort_id(self.job)):
                raise UserError("the write was aborted before this task began to write")
            self._producer = Producer(self.cluster, who, self.options.compression)
            self.on_step(Step.PRODUCER_READY)
        return self._producer

    def _finished(self, producer: Producer, report: TaskReport) -> TaskReport:
        producer.flush()
        self.on_step(Step.ROWS_ACKNOWLEDGED)
        who = producer.identity
        if not who.transactional_id:
            return report
        entry = Entry(
            task=self.task,
            producer_id=who.producer_id,
            epoch=who.epoch,
            row_count=report.row_count,
            size=report.size,
        )
        if self.job.batch is not None:
            batch, topic = self.job.batch, report.topics[0]
            mark = marker(self.job.sink, batch, topic, entry)
            commit_offsets(self.cluster, who, GroupMetadata(group=mark.group), [mark])
            self.on_step(Step.MARKED)
        return report.with_entry(entry)


def commit_write(
    cluster: Cluster, job: Job, reports: Sequence[TaskReport], on_step: Callable[[Step], None]
) -> None:
    """Commits the transactions of a batch write's tasks; raises `UserError`."""
    on_step(Step.COMMIT_BEGUN)
    entries = [one.entry for one in reports if one.entry is not None]
    committed = _commit(cluster, job, entries, on_step)
    if len(committed) < len(entries):
        raise UserError(
            f"the broker aborted the transactions of {len(entries) - len(committed)} tasks out of "
            f"{len(entries)} before they could be committed; raise kafka.transaction.timeout.ms"
        )
    on_step(Step.ALL_ENDED)


def commit_batch(
    cluster: Cluster, job: Job, reports: Sequence[TaskReport], on_step: Callable[[Step], None]
) -> None:
    """Commits a batch of a stream as a whole, once, even if it is called several times.

    Raises `UserError`; the batch must then be run again.
    """
    _commit_batch(cluster, job, reports, on_step)
    _abort_orphans(cluster, job)


def _commit_batch(
    cluster: Cluster, job: Job, reports: Sequence[TaskReport], on_step: Callable[[Step], None]
) -> None:
    assert job.batch is not None
    on_step(Step.COMMIT_BEGUN)
    state = read_state(cluster, job.sink)
    if state is not None and state.has(job.batch):
        _abort_all_but((), cluster, job, reports)
        return
    halfway = state if state is not None and state.is_halfway(job.batch) else None
    before = () if halfway is None else halfway.entries
    committed = _commit(cluster, job, before, on_step)
    entries = settle(halfway, committed, reports)
    _abort_all_but(entries, cluster, job, reports)
    if not entries:
        return
    topic = halfway.topic if halfway else min(name for one in reports for name in one.topics)
    intent = SinkState(batch=job.batch, phase=Phase.COMMITTING, topic=topic, entries=tuple(entries))
    _write_state(cluster, job, intent)
    on_step(Step.INTENT_WRITTEN)
    lost = len(entries) - len(_commit(cluster, job, entries, on_step))
    if lost:
        raise UserError(
            f"batch {job.batch}: the broker aborted the transactions of {lost} tasks out of "
            f"{len(entries)} before they could be committed; start the query again, which writes "
            f"what is missing, and raise kafka.transaction.timeout.ms"
        )
    on_step(Step.ALL_ENDED)
    _write_state(cluster, job, SinkState(batch=job.batch, phase=Phase.COMMITTED, topic=topic))
    on_step(Step.STATE_WRITTEN)


def abort(cluster: Cluster, job: Job, reports: Sequence[TaskReport | None]) -> None:
    """Aborts the open transactions of tasks, so that no reader waits for them.

    Transactions that are about to be committed are left to the next run: Spark also aborts after a
    failed commit. Spark does not wait for tasks that are still running, or have not begun: a task
    that begins later finds `_abort_id`, and fails.
    """
    if job.batch is not None:
        state = read_state(cluster, job.sink)
        if state is not None and state.batch >= job.batch:
            return
    init_producer(cluster, _abort_id(job), _SHORT_TIMEOUT_MS)
    for task, report in enumerate(reports):
        if report is None:
            # A new epoch aborts the transaction of a task that did not report one.
            init_producer(cluster, transactional_id(job.sink, task), _SHORT_TIMEOUT_MS)
        elif report.entry is not None:
            end_transaction(cluster, _identity(job, report.entry), is_commit=False)


def _abort_id(job: Job) -> str:
    """A transactional id that the coordinator knows once a run was aborted."""
    return f"{job.sink}-aborted-{job.run}"


_SHORT_TIMEOUT_MS = 10_000
"""The transaction timeout of an id under which no transaction will begin."""


def read_state(cluster: Cluster, sink: str) -> SinkState | None:
    return decode_state(_offsets(cluster, sink))


def _write_state(cluster: Cluster, job: Job, state: SinkState) -> None:
    count = len(cluster.again(lambda: cluster.topic(state.topic)).leaders)
    offsets = encode_state(job.sink, state, count)
    with refusals(f"group {job.sink}"):
        cluster.ask_coordinator(
            CoordinatorKind.GROUP, job.sink, lambda broker: commit_from_outside(broker, offsets)
        )


def _offsets(cluster: Cluster, group: str) -> list[Committed]:
    with refusals(f"group {group}"):
        return cluster.ask_coordinator(
            CoordinatorKind.GROUP, group, lambda broker: list(committed_by(broker, group))
        )


def partition_count(cluster: Cluster, topic: str, patience_s: float) -> int:
    """Returns the partition count of a topic, which the broker may create automatically.

    Raises `UserError` if it does not within `patience_s`; its first responses may lack the topic.
    """
    until = time.monotonic() + patience_s
    while True:
        with refusals(f"topic {topic}"):
            found = cluster.again(lambda: cluster.look_up([topic])).get(topic)
        if found is not None and found.leaders:
            return len(found.leaders)
        if time.monotonic() >= until:
            raise UserError(
                f"there is no topic {topic}, and the broker created none in {patience_s:g} s "
                f"(auto.create.topics.enable); create it first"
            )
        cluster.sleep(cluster.settings.first_pause_s)


def _commit(
    cluster: Cluster, job: Job, entries: Sequence[Entry], on_step: Callable[[Step], None]
) -> set[int]:
    """Commits transactions; returns the tasks whose transactions are committed, now or before."""
    committed = set()
    for entry in entries:
        if _is_committed(cluster, job, entry):
            committed.add(entry.task)
        on_step(Step.TRANSACTION_ENDED)
    return committed


def _is_committed(cluster: Cluster, job: Job, entry: Entry) -> bool:
    """If the commit is refused, the producer has a newer epoch; the marker shows how it ended.

    The producer with the newer epoch waited for that end, so the marker of a committed transaction
    exists.
    """
    if end_transaction(cluster, _identity(job, entry), is_commit=True):
        return True
    if job.batch is None:
        return False
    return is_marked(_offsets(cluster, marker_group(job.sink, entry.task)), job.batch, entry)


def _abort_all_but(
    kept: Sequence[Entry], cluster: Cluster, job: Job, reports: Sequence[TaskReport]
) -> None:
    for report in reports:
        if report.entry is not None and report.entry not in kept:
            end_transaction(cluster, _identity(job, report.entry), is_commit=False)


def _abort_orphans(cluster: Cluster, job: Job) -> None:
    """Aborts the open transactions of a killed run that had more tasks than this one.

    Their ids may not be used again soon, and readers would wait until the transactions time out.
    """
    start = transactional_id(job.sink, 0).removesuffix("0")
    for name in ongoing_ids(cluster):
        if name.startswith(start):
            init_producer(cluster, name, _SHORT_TIMEOUT_MS)


def _identity(job: Job, entry: Entry) -> ProducerIdentity:
    return ProducerIdentity(
        transactional_id=transactional_id(job.sink, entry.task),
        producer_id=entry.producer_id,
        epoch=entry.epoch,
    )
