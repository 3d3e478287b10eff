"""Spark's processes of Python, which live for many tasks."""

import gc
from functools import cache


@cache
def exempt_imports() -> None:
    """Has the garbage collector pass over all that is there by now, once and for good.

    Spark's daemon collects behind every task, and looked at all that was ever imported each time:
    a tenth of the processor time of a read. Called at the end of a task, when all is imported.
    """
    gc.collect()
    gc.freeze()
