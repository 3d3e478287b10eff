"""Errors of the source and the sink as Spark shows them: a sentence, without Python's frames."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.base.errors import OttlaError
from ottla.sources.conditions import ConditionError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The variable by which Spark's processes send an error without its traceback; Spark sets it for
`spark.sql.execution.pyspark.udf.hideTraceback.enabled`."""

_OF_SPARKS_PROCESSES = "SPARK_BUFFER_SIZE"
"""A variable that Spark sets for each of its Python processes."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Hides the traceback of Ottla's errors, and puts Spark's condition before the sentence.

    Errors of other kinds keep their traceback. A process of Spark ends after an error, so that the
    variable concerns no other.
    """
    try:
        yield
    except OttlaError as error:
        if _OF_SPARKS_PROCESSES in os.environ and "OTTLA_TRACEBACK" not in os.environ:
            os.environ[HIDE_TRACEBACK] = "1"
        if isinstance(error, ConditionError) and not str(error).startswith("["):
            error.args = (f"[{error.condition}] {error}",)
        raise
