"""The flushes of logs that are due. Kafka's counterpart: `LogManager.flushDirtyLogs`."""

from collections.abc import Iterator
from typing import Final

from ottla.base.open_files import OpenFiles
from ottla.base.turns import parts_of
from ottla.broker.log_jobs.moves import Moves
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.maintenance import FlushPlan

LOGS_PER_STEP: Final = 1024
"""The number of logs that are asked at a time: 1 ms."""


class Flushes:
    """Those of all logs, and of the copies that `moves` fills."""

    def __init__(self, directories: LogDirectories, moves: Moves, open_files: OpenFiles) -> None:
        self._directories = directories
        self._moves = moves
        self._open_files = open_files

    def due(self, monotonic_ms: float) -> list[tuple[LogDirectory, FlushPlan]]:
        """Returns the flushes that are due because of rolled segments and `flush.ms`."""
        return [one for part in self.due_in_steps(monotonic_ms) for one in part]

    def due_in_steps(self, monotonic_ms: float) -> Iterator[list[tuple[LogDirectory, FlushPlan]]]:
        """Like `due`, in short steps."""
        is_short = self._open_files.is_short
        for directory in self._directories.online:
            for part in parts_of(list(directory.logs.items()), LOGS_PER_STEP):
                plans = [
                    log.maintenance.due_flush(monotonic_ms, is_short_of_files=is_short)
                    for place, log in part
                    if directory.logs.get(place) is log
                ]
                yield [(directory, plan) for plan in plans if plan is not None]
            yield [(directory, plan) for plan in self._moves.due_flushes(directory, monotonic_ms)]
