"""The interface between a load and what runs its tasks: Spark, or this process."""

from collections.abc import Callable, Sequence
from typing import Protocol

Work = Callable[[], Sequence[str]]
"""A task. It can be pickled and returns texts, usually the paths of files that it wrote."""

OnTasks = Callable[[int, int], None]
"""Called with the number of completed tasks and the number of tasks."""


class Engine(Protocol):
    """Runs tasks in threads or processes.

    Implemented by `SparkEngine` (`spark/engine.py`) and `LocalEngine`.
    """

    def start(self, *, is_short: bool) -> object:
        """Prepares the engine, if necessary; `is_short` means that there is little work."""

    def run(self, tasks: Sequence[Work], on_tasks: OnTasks) -> list[str]:
        """Returns the results of all tasks; raises `OttlaError` or `OSError` if one fails."""
