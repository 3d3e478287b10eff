"""A read-only broker of directories that may change, replaced when they have."""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.base.files import FileSystem, OsFileSystem, join
from ottla.diagnosis.directories import read_directories
from ottla.diagnosis.losses import OnLost
from ottla.embedded.read_only.broker import ReadOnlyBroker
from ottla.protocol.api_keys import ApiKey

OF_PARTITIONS: Final = frozenset({ApiKey.DESCRIBE_PRODUCERS, ApiKey.FETCH, ApiKey.LIST_OFFSETS})
"""Maybe asked once for each partition, of logs, which are opened for each request: for these the
directories are not searched for changes."""


class FollowedBroker:
    """Keeps topics, settings, groups and transactions until their files change; logs are opened for
    each request.
    """

    def __init__(self, paths: Sequence[str], on_lost: OnLost) -> None:
        """Raises `UserError`."""
        self._paths = paths
        self._on_lost = on_lost
        self._file_system = OsFileSystem()
        self._look()

    def _look(self) -> None:
        # First, so that what changes meanwhile is found the next time.
        self._seen = _files_of(self._file_system, self._paths)
        self._broker = ReadOnlyBroker(read_directories(self._paths), self._on_lost)

    def broker_for(self, api_key: int) -> ReadOnlyBroker:
        self._broker.topics.look_again()
        if api_key not in OF_PARTITIONS and self._seen != _files_of(self._file_system, self._paths):
            self._look()
        return self._broker


def _files_of(file_system: FileSystem, paths: Sequence[str]) -> list[object]:
    """The names in directories and in the partitions of internal topics, with what changes with
    their content, or for a folder when another one has its name.
    """
    return [_seen(file_system, one) for path in paths for one in _names(file_system, path)]


def _seen(file_system: FileSystem, path: str) -> object:
    status = file_system.status(path)
    return path, status.number if status is not None and status.is_directory else status


def _names(file_system: FileSystem, path: str) -> Iterator[str]:
    for name in _listed(file_system, path):
        yield join(path, name)
        if name.startswith("__"):
            yield from (join(path, name, one) for one in _listed(file_system, join(path, name)))


def _listed(file_system: FileSystem, path: str) -> list[str]:
    """Nothing for what is no directory, or is gone: who reads it says so."""
    try:
        return file_system.list(path)
    except OSError:
        return []
