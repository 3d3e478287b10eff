"""A periodic job over all logs, done in steps."""

from collections.abc import Iterator

from ottla.base.timestamps import Timestamps
from ottla.storage.directory.log_directories import LogDirectories


class SlicedJob:
    """A job over all logs, of which each round of the server's loop does a step."""

    def __init__(self, directories: LogDirectories) -> None:
        self.directories = directories
        self.at = Timestamps(now_ms=0, monotonic_ms=0.0)
        self._steps: Iterator[None] | None = None

    def run_slice(self, at: Timestamps) -> bool:
        """Does the next step; returns whether more are left."""
        self.at = at
        if self._steps is None:
            self._steps = self._all_steps()
        for _step in self._steps:
            return True
        self._steps = None
        return False

    def _all_steps(self) -> Iterator[None]:
        raise NotImplementedError
