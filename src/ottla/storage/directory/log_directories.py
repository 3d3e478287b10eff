"""The log directories of one broker: which are online, and which gets a new partition.

Kafka's counterpart: the `liveLogDirs` of `LogManager`.
"""

from collections.abc import Callable, Sequence
from typing import overload

from ottla.base.errors import StorageError
from ottla.base.ids import Uuid
from ottla.storage.directory.log_directory import LogDirectory


class LogDirectories(Sequence[LogDirectory]):
    """A sequence of log directories.

    `is_cordoned` says whether the directory at a path gets no new partitions (KIP-1066).
    """

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
        """Whether all log directories have failed."""
        return not self.online

    @property
    def is_complete(self) -> bool:
        """Whether no directory is offline, so that the content of all directories is known."""
        return len(self.online) == len(self._directories)

    @property
    def refuse_some(self) -> bool:
        """Whether some partition is not served though its directory is online."""
        return any(one.refused for one in self._directories)

    def is_cordoned(self, directory: LogDirectory) -> bool:
        return self._is_cordoned(directory.path)

    @property
    def are_cordoned(self) -> bool:
        """Whether all online directories are cordoned."""
        online = self.online
        return bool(online) and all(map(self.is_cordoned, online))

    def online_with(self, directory_id: Uuid) -> LogDirectory | None:
        """The online directory with an id."""
        return next((one for one in self.online if one.directory_id == directory_id), None)

    def emptiest(self) -> LogDirectory:
        """The directory for a new partition; raises `StorageError` if all are offline.

        It has the fewest logs of those that are not cordoned, or of all if all are cordoned.
        """
        online = self.online
        if not online:
            raise StorageError(self._directories[0].path, "every log directory is offline")
        open_ones = [one for one in online if not self.is_cordoned(one)]
        return min(open_ones or online, key=lambda one: len(one.logs) + len(one.futures))
