"""Streams on a host of any speed."""

import time
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from tests.support.patience import PATIENCE_S


def attempts(
    start: Callable[[], StreamingQuery], wait: Callable[[StreamingQuery], object]
) -> list[StreamingQuery]:
    """Queries on one checkpoint, of which the last did what was waited for.

    Spark waits ten seconds for the Python process in which the source plans, too short for a host
    that is slow enough. The next query continues from the checkpoint.
    """
    until = time.monotonic() + PATIENCE_S
    queries: list[StreamingQuery] = []
    while True:
        queries.append(start())
        try:
            wait(queries[-1])
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error) or time.monotonic() > until:
                raise
        else:
            return queries
