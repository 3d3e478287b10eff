"""Runs work in Spark's Python processes, which serve many tasks."""

import gc
import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.sources.client_options import logger as options_logger

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_DAEMON = "pyspark.daemon"


def each_number(
    spark: "SparkSession",
    count: int,
    act: "Callable[[int], Iterator[pa.RecordBatch]]",
    schema: str,
    *,
    task_count: int | None = None,
) -> "DataFrame":
    """What `act` yields for each number below `count`, by default in one task per number.

    For a data source Spark would start more Python processes, one after the other, before the first
    task.
    """

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        quieten()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from act(number)
        exempt_imports()

    return spark.range(0, count, 1, task_count or count).mapInArrow(run, schema)


@cache
def quieten() -> None:
    """Makes only one of Spark's processes log a message that concerns a whole job."""
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if scratch:
        # The directory exists while Spark runs, and all its Python processes have the same one.
        options_logger.addFilter(lambda record: _is_first(scratch, record.getMessage()))


def _is_first(directory: str, message: str) -> bool:
    """Whether no other process has logged this message."""
    name = hashlib.sha256(message.encode()).hexdigest()
    try:
        os.close(os.open(os.path.join(directory, f"ottla-said-{name}"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    except OSError:
        pass
    return True


def hang_up_quietly_in_daemon() -> None:
    """For a planning process, which Spark's own daemon forks, and not Ottla's."""
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if getattr(started, "name", "") == _DAEMON:
        hang_up_quietly()


def hang_up_quietly() -> None:
    """Suppresses tracebacks of broken pipes: Java closes a pipe when a query has enough rows
    (LIMIT), and the job succeeds."""
    show = traceback.print_exc

    def print_exc(*arguments: Any, **named: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            show(*arguments, **named)

    traceback.print_exc = print_exc


@cache
def exempt_imports() -> None:
    """Exempts all current objects from garbage collection, once per process.

    Spark's daemon collects after every task, and traversed all imported modules each time: a tenth
    of the processor time of a read. Called at the end of a task, when everything is imported.
    """
    gc.collect()
    gc.freeze()
