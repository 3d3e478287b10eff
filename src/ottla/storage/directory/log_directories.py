"""The log directories of one broker: which can be used, and the files in each.

Kafka's counterpart: the `liveLogDirs` of `LogManager`.
"""

from collections.abc import Callable, Sequence
from typing import overload

from ottla.base.errors import StorageError
from ottla.storage.directory.log_directory import LogDirectory


class LogDirectories(Sequence[LogDirectory]):
    """`is_cordoned` says of a path whether it is to get no further partitions (KIP-1066)."""

    def __init__(
        self, directories: Sequence[LogDirectory], is_cordoned: Callable[[str], bool]
    ) -> None:
        self._directories = tuple(directories)
        self._is_cordoned = is_cordoned

    @overload
    def __getitem__(self, index: int) -> LogDirectory: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LogDirectory]: ...
    def __getitem__(self, index: int | slice) -> LogDirectory | Sequence[LogDirectory]:
        return self._directories[index]

    def __len__(self) -> int:
        return len(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [one for one in self._directories if not one.is_offline]

    @property
    def is_offline(self) -> bool:
        """Whether the last log directory has failed."""
        return not self.online

    @property
    def is_complete(self) -> bool:
        """Whether no directory is offline: only then is the content of all directories known."""
        return len(self.online) == len(self._directories)

    def is_cordoned(self, directory: LogDirectory) -> bool:
        return self._is_cordoned(directory.path)

    @property
    def are_cordoned(self) -> bool:
        """Whether every directory that is online is cordoned."""
        online = self.online
        return bool(online) and all(map(self.is_cordoned, online))

    def emptiest(self) -> LogDirectory:
        """Returns the directory for a new partition; raises `StorageError` when all are offline."""
        online = self._any_online()
        open_ones = [one for one in online if not self.is_cordoned(one)]
        return min(open_ones or online, key=lambda one: len(one.logs) + len(one.futures))

    def write_in_each(self, write: Callable[[str], None]) -> None:
        """Writes a file into each online directory; `write` gets the directory's path.

        Raises `StorageError`.
        """
        for directory in self.online:
            with directory.health.guarding():
                write(directory.path)

    def check_any_online(self) -> None:
        """Raises `StorageError` when all are offline."""
        self._any_online()

    def _any_online(self) -> list[LogDirectory]:
        online = self.online
        if not online:
            raise StorageError(self._directories[0].path, "every log directory is offline")
        return online
