"""The streaming side of the data source: `spark.readStream.format("ottla")`.

Spark keeps one reader for a query, which returns offsets and partitions, and creates another one
for the tasks; nothing in memory needs to survive. The end of a batch is in Spark's checkpoint
(`stream_offset.py`), and what it reads is computed from that and the log (`stream_plan.py`).

Spark asks for the latest offset only when the previous batch is done, and passes that batch's end,
which is then committed to the group. Spark's own `commit` comes one batch late, and never for the
last one.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import OttlaError, UserError
from ottla.base.partitions import TopicPartition
from ottla.sources.log_source import LogPartition, LogSource
from ottla.sources.opening import open_client, open_log
from ottla.sources.options import ReadOptions
from ottla.sources.ranges import resolve_bound
from ottla.sources.stream.continuity import Continuation, Position, report
from ottla.sources.stream.stream_offset import (
    INITIAL,
    Positions,
    StreamOffset,
    offsets_json,
    parse_stream_offset,
)
from ottla.sources.stream.stream_plan import ends_of, go_on, is_due, plan_batch
from ottla.sources.wire.wire_client import WireClient
from ottla.spark.plain_errors import plain_errors
from ottla.spark.split_reader import SplitPartition, check_schema, read_partition, split_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

LOOK_INTERVAL_MS = 100
"""An idle query asks for the latest offset every dozen milliseconds; the log is asked this often.
"""

MISSING_SECONDS = 0.2
"""A partition that moves to another directory is in none of them for a moment."""

logger = logging.getLogger(__name__)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """One query's reader. All its errors are `UserError`, and end the query."""

    def __init__(
        self, options: ReadOptions, schema: "StructType", clock: Clock | None = None
    ) -> None:
        check_schema(schema)
        self._start = options.stream_start
        self._options = options
        self._spark_schema = schema
        self._clock = clock or SystemClock()
        self._log: LogSource | None = None
        self._seen: tuple[float, list[LogPartition]] | None = None
        self._pinned: list[LogPartition] | None = None
        self._first: Positions | None = None
        self._last_batch_ms: float | None = None
        self._client: WireClient | None = None
        self._committed: Mapping[TopicPartition, Position] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark accepts only one limit; if there are two, this reader applies the other."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._pinned = self._source().partitions(allow_missing=True)

    @plain_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself if there is none."""
        if start == INITIAL:
            return self._first_end(limit)
        known = parse_stream_offset(start).positions
        there = self._look(known)
        begins = go_on(known, there, self._source())
        if self._options.fail_on_data_loss:
            report([one.loss for one in begins.values() if one.loss], fail=True)
        self._commit(begins, there)
        end = self._end(begins, there, limit)
        return start if end is None or end == known else StreamOffset(positions=end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end offsets at the last look, for Spark's progress reports."""
        there = self._pinned or (self._seen[1] if self._seen else None)
        if there is None:
            return None
        return offsets_json({one.place: Position(offset=one.end_offset) for one in there})

    @plain_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitPartition]:
        """The tasks of a batch; `end` was determined earlier, perhaps by another process."""
        until = parse_stream_offset(end)
        known = until.start if start == INITIAL else parse_stream_offset(start).positions
        log = self._source()
        plan = plan_batch(known, until, self._there(until.positions), log)
        report(plan.losses, fail=self._options.fail_on_data_loss)
        return [
            SplitPartition(split) for split in log.splits(plan.ranges, split_options(self._options))
        ]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        yield from read_partition(self._options, partition, self._spark_schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: see the module's docstring."""

    def stop(self) -> None:
        """Does nothing: Spark may never call it."""

    def _source(self) -> LogSource:
        if self._log is None:
            self._log = open_log(self._options)
        return self._log

    def _look(self, known: Positions) -> list[LogPartition]:
        if self._pinned is not None:
            return self._pinned
        now_ms = self._clock.monotonic_ms()
        if self._seen is None or now_ms - self._seen[0] >= LOOK_INTERVAL_MS:
            self._seen = now_ms, self._there(known)
        return self._seen[1]

    def _there(self, known: Positions) -> list[LogPartition]:
        """The current partitions; looks a second time if a known one is missing."""
        there = self._source().partitions(allow_missing=True)
        if set(known) <= {one.place for one in there}:
            return there
        time.sleep(MISSING_SECONDS)
        return self._source().partitions(allow_missing=True)

    def _first_end(self, limit: ReadLimit) -> dict[str, Any]:
        """The first batch's end, which records where the query starts, even for an empty batch."""
        log = self._source()
        if self._first is None:
            present = log.partitions()
            # Records that are deleted after this look are lost; earlier deletions are not losses.
            self._seen = self._clock.monotonic_ms(), present
            offsets = resolve_bound(self._start, log, present, self._options.no_match)
            self._first = {
                one.place: Position(offset=offsets[one.place], topic_id=one.topic_id)
                for one in present
            }
        there = [one for one in self._look(self._first) if one.place in self._first]
        begins = go_on(self._first, there, log)
        losses = [one.loss for one in begins.values() if one.loss]
        report(losses, fail=self._options.fail_on_data_loss)
        self._commit(begins, there)
        end = self._end(begins, there, limit) or ends_of(begins, there, 0)
        started = {place: one.offset for place, one in begins.items() if one.offset is not None}
        return StreamOffset(positions=end, started=started).to_json()

    def _end(
        self,
        begins: Mapping[TopicPartition, Continuation],
        there: Sequence[LogPartition],
        limit: ReadLimit,
    ) -> dict[TopicPartition, Position] | None:
        """`None` while there is too little for a batch."""
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        now_ms = self._clock.monotonic_ms()
        if not isinstance(limit, ReadAllAvailable) and self._pinned is None:
            now = {one.place: one for one in there}
            count = sum(
                max(0, now[place].end_offset - one.offset)
                for place, one in begins.items()
                if one.offset is not None
            )
            if not is_due(count, self._options.limits, now_ms, self._last_batch_ms):
                return None
        self._last_batch_ms = now_ms
        return ends_of(begins, there, max_offsets)

    def _commit(
        self, begins: Mapping[TopicPartition, Continuation], there: Sequence[LogPartition]
    ) -> None:
        """Commits the end of the finished batches to the group.

        The first commit must succeed, so that a mistake is noticed; later ones are retried.
        """
        if self._options.group_id is None:
            return
        epochs = {one.place: one.leader_epoch for one in there}
        reached = {
            place: Position(offset=one.offset, leader_epoch=epochs.get(place))
            for place, one in begins.items()
            if one.offset is not None
        }
        if reached == self._committed:
            return
        if self._client is None:
            self._client = open_client(self._options)
        try:
            self._client.commit(self._options.group_id, reached)
        except UserError as error:
            if self._committed is None:
                raise
            logger.warning("%s; the commit is retried at the next look", error)
        else:
            self._committed = reached


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """The reader of a query that cannot be: raises what is wrong when it is asked for offsets."""

    def __init__(self, error: OttlaError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        self._refuse()

    def stop(self) -> None:
        """Does nothing, as there is nothing."""

    @plain_errors()
    def _refuse(self) -> NoReturn:
        raise self._error
