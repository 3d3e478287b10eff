"""The interface of a load to what runs its tasks: Spark, or this process alone."""

from collections.abc import Callable, Sequence
from typing import Protocol

Work = Callable[[], Sequence[str]]
"""One task. It can be pickled; it returns texts, as a rule the paths of files written."""

OnTasks = Callable[[int, int], None]
"""Is called with how many tasks are done, and of how many."""


class Engine(Protocol):
    """Runs tasks, each in whatever process or thread there is for it.

    There are two: `spark/engine.py: SparkEngine`, and `LocalEngine` beside this.
    """

    def start(self, *, is_short: bool) -> object:
        """Gets ready, if that is still to be done; `is_short` says that there is little to do."""

    def run(self, tasks: Sequence[Work], on_tasks: OnTasks) -> list[str]:
        """All that the tasks return; raises `OttlaError` or `OSError` when one fails."""
