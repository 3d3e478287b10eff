"""The sink `ottla` as Spark calls it: `df.write`, `df.writeStream` and INSERT INTO.

Spark creates a writer in the planning process, sends copies of it to the tasks, and for streams
creates another one to commit; they share nothing but the content of a task's `TaskMessage`. A task
gets the query and the batch from properties that Spark sets for every job of a stream. Options:
`sink_options.py`; writes and commits: `transactions.py`.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.sources.client_options import warn_without_effect
from ottla.spark.plain_errors import plain_errors
from ottla.spark.sink.sink_options import check_columns, parse_sink_options
from ottla.spark.sink.sink_state import TaskReport
from ottla.spark.sink.transactions import (
    Job,
    Step,
    TaskWrite,
    abort,
    commit_batch,
    commit_write,
    connected,
    partition_count,
)
from ottla.spark.worker import quieten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

PREFIX = "ottla-sink-"
"""The prefix of transactional ids and groups."""

QUERY_PROPERTY = "sql.streaming.queryId"
RUN_PROPERTY = "spark.jobGroup.id"
BATCH_PROPERTY = "streaming.sql.batchId"


class TaskMessage(WriterCommitMessage):  # type: ignore[misc]
    """A task's report to the driver."""

    def __init__(self, job: Job, report: TaskReport) -> None:
        self.job = job
        self.report = report


Messages = Sequence[TaskMessage | None]


class _Writing:
    """The base of both writers: checks the options, and connects to the cluster."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: "StructType",
        on_step: Callable[[Step], None] = pass_over,
    ) -> None:
        quieten()
        self._options = parse_sink_options(options)
        self._on_step = on_step
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        check_columns(types, self._options)
        for name in self._options.without_effect:
            warn_without_effect(name)
        if self._options.topic is not None:
            # Here a mistake is one error; each task would report it with Java's traceback.
            with connected(self._options) as cluster:
                partition_count(cluster, self._options.topic, self._options.topic_patience_s)

    def _write(self, job: Job, batches: "Iterator[pa.RecordBatch]") -> TaskMessage:
        quieten()
        task = TaskContext.get().partitionId()
        with connected(self._options) as cluster:
            write = TaskWrite(cluster, self._options, job, task, self._on_step)
            return TaskMessage(job, write.run(batches))

    def _abort(self, job: Job, messages: Messages) -> None:
        if self._options.is_exactly_once:
            with connected(self._options) as cluster:
                abort(cluster, job, [message and message.report for message in messages])


class OttlaWriter(_Writing, DataSourceArrowWriter):  # type: ignore[misc]
    """One batch write: visible as a whole at its end, and not at all if it fails."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: "StructType",
        overwrite: bool,
        on_step: Callable[[Step], None] = pass_over,
    ) -> None:
        if overwrite:
            raise UserError("a log can only be appended to; write with mode append")
        super().__init__(options, schema, on_step)
        name = str(uuid.uuid4())
        self._job = Job(sink=PREFIX + name, run=name)

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        return self._write(self._job, iterator)

    @plain_errors()
    def commit(self, messages: Messages) -> None:
        if self._options.is_exactly_once:
            with connected(self._options) as cluster:
                commit_write(cluster, self._job, _reports(messages), self._on_step)

    @plain_errors()
    def abort(self, messages: Messages) -> None:
        self._abort(self._job, messages)


class OttlaStreamWriter(_Writing, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream's batches, each once."""

    @plain_errors()
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskMessage:
        context = TaskContext.get()
        local_properties = [
            context.getLocalProperty(name) for name in (QUERY_PROPERTY, RUN_PROPERTY)
        ]
        batch = context.getLocalProperty(BATCH_PROPERTY)
        if None in local_properties or batch is None:
            raise UserError("Spark does not say which batch of which query this is")
        query, run = local_properties
        return self._write(Job(sink=PREFIX + query, run=run, batch=int(batch)), iterator)

    @plain_errors()
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        job = _job(messages)
        if job is not None and self._options.is_exactly_once:
            with connected(self._options) as cluster:
                commit_batch(cluster, job, _reports(messages), self._on_step)

    @plain_errors()
    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        job = _job(messages)
        if job is not None:
            self._abort(job, messages)


def _job(messages: Messages) -> Job | None:
    """`None` if no task has reported: the next run then aborts their transactions."""
    return next((message.job for message in messages if message is not None), None)


def _reports(messages: Messages) -> list[TaskReport]:
    return [message.report for message in messages if message is not None]
