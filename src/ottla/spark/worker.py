"""Work in Spark's processes of Python, which live for many tasks."""

import gc
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def each_number(
    spark: "SparkSession",
    count: int,
    act: "Callable[[int], Iterator[pa.RecordBatch]]",
    schema: str,
    *,
    task_count: int | None = None,
) -> "DataFrame":
    """What `act` yields for each number below `count`, in tasks of their own by default.

    For a data source Spark would start more processes of Python, one after the other, before the
    first task.
    """

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from act(number)
        exempt_imports()

    return spark.range(0, count, 1, task_count or count).mapInArrow(run, schema)


@cache
def exempt_imports() -> None:
    """Has the garbage collector pass over all that is there by now, once and for good.

    Spark's daemon collects after every task, and looked at all that was ever imported each time:
    a tenth of the processor time of a read. Called at the end of a task, when all is imported.
    """
    gc.collect()
    gc.freeze()
