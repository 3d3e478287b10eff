"""Streams on a busy machine, where a Python process of Spark may connect too late.

Spark waits ten seconds, which no setting changes, until the process in which a source plans has
started and connected; then the query ends. It has done nothing by then, and continues from its
checkpoint when it is started again.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

LIMIT_S = 10.0
"""Spark's limit (`PythonWorkerFactory.createSimpleWorker`)."""

_PLANNING_PROCESS = "pyspark.sql.streaming.python_streaming_source_runner"
_LATE = "failed to connect back"
_SLOW_S = LIMIT_S / 2

logger = logging.getLogger(__name__)


def run_to_end(
    start: "Callable[[], StreamingQuery]",
    wait: "Callable[[StreamingQuery], object] | None" = None,
    *,
    tries: int = 10,
) -> "list[StreamingQuery]":
    """Starts a query and waits for its end; starts it again whenever a process connected late.

    Returns all the queries that were started. `start` starts the query on its checkpoint, and
    `wait` may wait for something else (`StreamingQuery.processAllAvailable`). Any other error of
    the query is raised, and the last one after `tries`.
    """
    from pyspark.errors import StreamingQueryException

    queries: list[StreamingQuery] = []
    while True:
        queries.append(start())
        try:
            if wait is None:
                queries[-1].awaitTermination()
            else:
                wait(queries[-1])
        except StreamingQueryException as error:
            if _LATE not in str(error) or len(queries) >= tries:
                raise
            logger.warning(
                "a Python process of Spark connected too late; the query is started again"
            )
        else:
            return queries


def warn_if_slow() -> None:
    """Warns, in a process that plans, if it was so slow to start that the next may be too late."""
    seconds = _age_s() if _is_waited_for() else None
    if seconds is not None and seconds > _SLOW_S:
        logger.warning(
            "Spark's Python process took %.1f s to start; Spark waits %.0f s, and then ends the "
            "query (Python worker %s): give Spark fewer cores (spark.master=local[N]) or run fewer "
            "queries at once, let Python write byte code (PYTHONDONTWRITEBYTECODE), and start the "
            "query with ottla.spark.restarts.run_to_end, which starts it again",
            seconds, LIMIT_S, _LATE,
        )  # fmt: skip


def _is_waited_for() -> bool:
    """Whether Spark started this process for a stream alone: others, which its daemon forked, are
    not waited for, and may have served other queries for long.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(started, "name", "") == _PLANNING_PROCESS


def _age_s() -> float | None:
    """How long this process has been running; `None` if the system does not tell."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = int(file.read().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return None
