"""Searches logs that another broker has written for aborted transactions without an index entry.

The search runs in slices, between which the broker serves clients; each slice continues with the
next log. Until it has passed an offset, consumers of committed records get no records from there:
see `storage/log/abort_check.py`.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from ottla.base.errors import StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.storage.directory.log_directory import LogDirectory

logger = logging.getLogger(__name__)


INTERVAL_MS = 60_000
"""How often to look for further logs once all are checked: moves between directories add logs."""


class AbortChecking:
    """`on_progress` is called with a partition of which more can be read."""

    def __init__(
        self, directories: Sequence[LogDirectory], on_progress: Callable[[TopicPartition], None]
    ) -> None:
        self._directories = directories
        self._on_progress = on_progress
        self._to_do: deque[tuple[LogDirectory, TopicPartition]] = deque()

    def run_slice(self, _: Timestamps) -> bool:
        """Continues with one log; returns whether more is left to do."""
        if not self._to_do:
            self._find_some()
        if self._to_do:
            directory, key = self._to_do.popleft()
            if self._go_on(directory, key):
                self._to_do.append((directory, key))
        return bool(self._to_do)

    def _find_some(self) -> None:
        for directory in self._directories:
            for key, log in directory.logs.items():
                if log.abort_check is not None and not directory.is_offline:
                    self._to_do.append((directory, key))
                    logger.info(
                        "%s: its transaction indexes are compared with the log, which another "
                        "broker has written; consumers of committed records wait for that",
                        log.name,
                    )

    def _go_on(self, directory: LogDirectory, key: TopicPartition) -> bool:
        log = directory.logs.get(key)
        check = None if log is None else log.abort_check
        if log is None or check is None or directory.is_offline:
            return False
        bound = check.bound
        try:
            log.maintenance.check_aborts()
        except StorageError:
            return False  # logged where the directory went offline
        if check.is_done:
            logger.info("%s: its transaction indexes are checked", log.name)
        if check.is_done or check.bound > bound:
            self._on_progress(key)
        return not check.is_done
