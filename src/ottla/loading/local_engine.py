"""Tasks that run in this process: no Spark, and no Java."""

from collections.abc import Sequence

from ottla.loading.engine import OnTasks, Work


class LocalEngine:
    """Runs tasks one after another in this process."""

    def start(self, *, is_short: bool) -> None:
        """There is nothing to start."""

    def run(self, tasks: Sequence[Work], on_tasks: OnTasks) -> list[str]:
        found: list[str] = []
        for number, task in enumerate(tasks, 1):
            found += task()
            on_tasks(number, len(tasks))
        return found
