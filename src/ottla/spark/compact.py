"""A pass of the cleaner as Spark jobs, for logs with more keys than one machine's offset map holds.

Spark keeps the last offset of each key's digest, one long per key, so that values never reach the
JVM; then one task for each group of segments copies the retained records, to the same bytes as the
other engines. Executors must have access to the log's directory. Kafka has no counterpart.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.spark.task_errors import own_errors
from ottla.spark.worker import each_number
from ottla.storage.compaction.compaction import (
    CleanedGroup,
    CompactionPlan,
    CompactionResult,
    CompactionStats,
    StoppedError,
    Surroundings,
)
from ottla.storage.compaction.replacement import remove_all_cleaned
from ottla.storage.compaction.transactions import TransactionsSeen

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_KEYS = "first long, second long, offset long"
_SEEN = "number long, " + ", ".join(f"{one.name} array<long>" for one in fields(TransactionsSeen))
_PLACED = "number int, offset long"
_COPIED = "number int, cleaned array<long>, stats array<long>"
TASKS_PER_CORE = 4
"""So that small segments share tasks, and no core waits long for the last."""

_SENTINEL = -1
"""Stands for a group without retained records."""


class SparkEngine:
    """Compacts with a session, on any cluster."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def __call__(self, task: CleaningTask, _: object) -> CompactionResult:
        """Raises `TaskError` for a segment that cannot be read, `UserError`, and `StoppedError`."""
        _require_one_attempt(self._spark)
        context, group = self._spark.sparkContext, f"ottla-{secrets.token_hex(8)}"
        context.setJobGroup(group, f"compact {task.log.name}", interruptOnCancel=True)
        task.on_stop = lambda: context.cancelJobGroup(group)
        try:
            with own_errors():
                return _Pass(self._spark, task.plan).run()
        except BaseException:
            remove_all_cleaned(OsFileSystem(), task.plan.directory)
            if task.is_stopped:
                raise StoppedError(f"the compaction of {task.log.name} was stopped") from None
            raise
        finally:
            task.on_stop = lambda: None


def _require_one_attempt(spark: "SparkSession") -> None:
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise UserError(
            "two attempts at one task would write the same file; set spark.speculation=false"
        )


class _Pass:
    def __init__(self, spark: "SparkSession", plan: CompactionPlan) -> None:
        self._spark = spark
        self._plan = plan
        self._groups = plan.groups(plan.end_offset)

    def run(self) -> CompactionResult:
        dirty = self._dirty_keys().cache()
        try:
            copied = self._copy(self._place(self._survivors(dirty))).collect()
            stats = CompactionStats(keys=dirty.count())
        finally:
            dirty.unpersist()
        cleaned: dict[int, tuple[int, ...]] = {}
        for row in copied:
            cleaned[row.number] = tuple(row.cleaned)
            stats = stats.plus(_stats(row.stats))
        groups = tuple(
            CleanedGroup(replaced=tuple(one.base_offset for one in group), cleaned=cleaned[number])
            for number, group in enumerate(self._groups)
        )
        return CompactionResult(groups=groups, end_offset=self._plan.end_offset, stats=stats)

    # The transactions before each segment

    def _seen_before(self) -> dict[int, TransactionsSeen]:
        from ottla.storage.compaction.shares import transactions_before

        plan = self._plan

        def look(number: int) -> "Iterator[pa.RecordBatch]":
            import pyarrow as pa

            from ottla.storage.compaction.shares import transactions_in

            seen = transactions_in(plan, number, _around())
            sets = [pa.array([list(one)], pa.list_(pa.int64())) for one in astuple(seen)]
            names = [one.name for one in fields(seen)]
            yield pa.record_batch([pa.array([number], pa.int64()), *sets], ["number", *names])

        rows = self._each_source(range(len(plan.sources)), look, _SEEN).collect()
        found = {
            row.number: TransactionsSeen(
                **{one.name: frozenset(row[one.name]) for one in fields(TransactionsSeen)}
            )
            for row in rows
        }
        return transactions_before(plan, [found[number] for number in sorted(found)])

    def _each_source(
        self,
        numbers: "range | list[int]",
        act: "Callable[[int], Iterator[pa.RecordBatch]]",
        schema: str,
    ) -> "DataFrame":
        """Runs `act` for each of these sources, in up to `_task_count` tasks."""
        count = len(numbers)
        return each_number(
            self._spark,
            count,
            lambda place: act(numbers[place]),
            schema,
            task_count=self._task_count(count),
        )

    def _task_count(self, count: int) -> int:
        cores: int = self._spark.sparkContext.defaultParallelism
        return max(1, min(count, TASKS_PER_CORE * cores))

    # The retained offsets

    def _keys(self, numbers: list[int]) -> "DataFrame":
        plan = self._plan

        def read(number: int) -> "Iterator[pa.RecordBatch]":
            import numpy as np
            import pyarrow as pa

            from ottla.storage.compaction.shares import read_keys

            for first, second, offset in read_keys(plan, number, _around()):
                columns = [first.view(np.int64), second.view(np.int64), offset]
                yield pa.record_batch(
                    [pa.array(one) for one in columns], ["first", "second", "offset"]
                )

        return self._each_source(numbers, read, _KEYS)

    def _dirty_keys(self) -> "DataFrame":
        """The last offset of each key of the dirty part."""
        from pyspark.sql import functions as sql

        first_dirty = self._plan.first_dirty_offset
        numbers = [
            number for number, (_, end) in enumerate(self._plan.with_ends()) if end > first_dirty
        ]
        keys = self._keys(numbers).where(sql.col("offset") >= first_dirty)
        return keys.groupBy("first", "second").agg(sql.max("offset").alias("offset"))

    def _survivors(self, dirty: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as sql

        first_dirty = self._plan.first_dirty_offset
        numbers = [
            number for number, one in enumerate(self._plan.sources) if one.base_offset < first_dirty
        ]
        if not numbers:
            return dirty.select("offset")
        keys = self._keys(numbers).where(sql.col("offset") < first_dirty)
        old = keys.join(dirty.select("first", "second"), ["first", "second"], "left_anti")
        return dirty.select("offset").union(old.select("offset"))

    # The copies

    def _place(self, survivors: "DataFrame") -> "DataFrame":
        """Each offset with the number of its group; damaged segments are in none."""
        starts = [group[0].base_offset for group in self._groups]
        count = len(starts)

        def place(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            import numpy as np
            import pyarrow as pa

            for batch in batches:
                offset = batch.column(0).to_numpy()
                number = np.searchsorted(starts, offset, side="right") - 1
                known = number >= 0
                yield pa.record_batch(
                    [pa.array(number[known].astype(np.int32)), pa.array(offset[known])],
                    ["number", "offset"],
                )

        sentinels = self._spark.range(0, count, 1, 1).selectExpr(
            "cast(id as int) as number", f"cast({_SENTINEL} as long) as offset"
        )
        placed = survivors.mapInArrow(place, _PLACED).union(sentinels)
        return placed.repartition(self._task_count(count), "number")

    def _copy(self, placed: "DataFrame") -> "DataFrame":
        plan, groups = self._plan, self._groups
        seen = self._seen_before()

        def copy(table: "pa.Table") -> "pa.Table":
            import pyarrow as pa

            from ottla.storage.compaction.shares import copy_group

            number: int = table["number"][0].as_py()
            offsets = table["offset"].to_numpy()
            group = groups[number]
            cleaned, stats = copy_group(
                plan, group, offsets[offsets != _SENTINEL], seen[group[0].base_offset], _around()
            )
            longs = pa.list_(pa.int64())
            return pa.table(
                {
                    "number": pa.array([number], pa.int32()),
                    "cleaned": pa.array([list(cleaned.cleaned)], longs),
                    "stats": pa.array([list(astuple(stats))], longs),
                }
            )

        return placed.groupBy("number").applyInArrow(copy, _COPIED)


def _stats(values: Sequence[int]) -> CompactionStats:
    names = (one.name for one in fields(CompactionStats))
    return CompactionStats(**dict(zip(names, values, strict=True)))


def _around() -> Surroundings:
    return Surroundings(file_system=OsFileSystem())
