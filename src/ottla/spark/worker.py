"""Work in Spark's processes of Python, which live for many tasks."""

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
    """What `act` yields for each number below `count`, in tasks of their own by default.

    For a data source Spark would start more processes of Python, one after the other, before the
    first task.
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
    """Makes a process of Spark's report once what concerns a whole job."""
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if scratch:
        # It lasts as long as Spark runs, and all its processes of Python have the same one.
        options_logger.addFilter(lambda record: _is_first(scratch, record.getMessage()))


def _is_first(directory: str, message: str) -> bool:
    """Whether no other process has said so."""
    name = hashlib.sha256(message.encode()).hexdigest()
    try:
        os.close(os.open(os.path.join(directory, f"ottla-said-{name}"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    except OSError:
        pass
    return True


def hang_up_quietly_in_daemon() -> None:
    """For a child of Spark's own daemon, which plans: it takes no daemon of ours."""
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if getattr(started, "name", "") == _DAEMON:
        hang_up_quietly()


def hang_up_quietly() -> None:
    """Java closes a pipe when a query has rows enough (LIMIT). The daemon's child then ended with a
    traceback on the standard error of a job that succeeded."""
    show = traceback.print_exc

    def print_exc(*arguments: Any, **named: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            show(*arguments, **named)

    traceback.print_exc = print_exc


@cache
def exempt_imports() -> None:
    """Has the garbage collector pass over all that is there by now, once and for good.

    Spark's daemon collects after every task, and looked at all that was ever imported each time:
    a tenth of the processor time of a read. Called at the end of a task, when all is imported.
    """
    gc.collect()
    gc.freeze()
