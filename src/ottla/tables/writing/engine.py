"""The interface between commits and what runs their tasks: Spark, or this process."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

_Item = TypeVar("_Item")

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


def no_tasks_shown(done: int, count: int) -> None:
    """An `OnTasks` for tasks whose progress nobody needs."""


def shared_out(
    items: Iterable[_Item], size_of: Callable[[_Item], float], limit: float
) -> list[list[_Item]]:
    """Groups items by task, in order: small neighbours share one, up to `limit` together."""
    tasks: list[list[_Item]] = []
    size = 0.0
    for item in items:
        if not tasks or size + size_of(item) > limit:
            tasks.append([])
            size = 0.0
        tasks[-1].append(item)
        size += size_of(item)
    return tasks
