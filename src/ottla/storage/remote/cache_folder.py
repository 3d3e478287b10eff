"""A folder of files that can be fetched again: up to a size, and only while they are used.

A file gets its name when it is whole. A crash can leave `.tmp` files, which `load` removes, as it
does the `.deleted` ones of Kafka; whoever reads a file checks it, since nothing is synced unless
that is asked for. Kafka's counterpart: `RemoteIndexCache`, by its files.
"""

import logging
import re
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer, FileSystem, join, read_file, remove_if_present, write_file
from ottla.base.values import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContents:
    """What a folder is for. `name` matches the names of its files, and `left` what a crash leaves
    of them; of other files nothing is known, and they stay. Not every file is worth to be taken
    over by another process: `is_of_use` is asked for its name and size. `noun` is what the files
    have, for messages.
    """

    name: re.Pattern[str]
    left: re.Pattern[str]
    noun: str
    is_of_use: Callable[[str, int], bool] = lambda name, size: True


class Limits(NamedTuple):
    """In bytes, and in milliseconds since the last use."""

    max_size: int
    ttl_ms: float


class _Found(NamedTuple):
    name: str
    size: int
    modified_ms: int


class CacheFolder:
    """Files up to the limits, the least recently used removed first.

    Several threads may use it at once: then a file may be written twice. The process has the folder
    for itself, apart from its own files' readers. `now_ms` is the monotonic time of the last
    request, which the caller sets.
    """

    def __init__(
        self,
        file_system: FileSystem,
        path: str,
        contents: FolderContents,
        limits: Callable[[], Limits],
    ) -> None:
        self.path = path
        self.now_ms = 0.0
        self._file_system = file_system
        self._contents = contents
        self._limits = limits
        self._files: dict[str, tuple[int, float]] | None = None
        """The size of each file by its name, and when it was used, the least recently used first.
        """
        self._numbers = count()
        self._is_failing = False

    def load(self) -> None:
        """Takes over the files that an earlier run has left, and removes what it left half done."""
        found: list[_Found] = []
        for name in self._names():
            path = self.path_of(name)
            status = self._file_system.status(path)
            is_ours = self._contents.name.fullmatch(name) is not None
            is_void = is_ours and status and not self._contents.is_of_use(name, status.size)
            if self._contents.left.fullmatch(name) or is_void:
                remove_if_present(self._file_system, path)
            elif is_ours and status is not None:
                found.append(_Found(name, status.size, status.modified_ms))
        found.sort(key=lambda one: one.modified_ms)
        self._files = {one.name: (one.size, self.now_ms) for one in found}
        self._evict(self._files)

    def path_of(self, name: str) -> str:
        return join(self.path, name)

    def use(self, name: str) -> None:
        """Notes that a file is used, though it is not read."""
        files = self._known()
        known = files.pop(name, None)
        if known is not None:
            files[name] = known[0], self.now_ms

    def read(self, name: str, check: Callable[[bytes, str], None]) -> bytes | None:
        """The content of a file; `None` if there is none, or if `check`, which gets the content and
        the path, raises `CorruptionError`: then it is removed.
        """
        files = self._known()
        if files.pop(name, None) is None:
            return None
        path = self.path_of(name)
        try:
            content = read_file(self._file_system, path)
            check(content, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(error)
            return None
        except CorruptionError as error:
            logger.warning("%s: %s; it is fetched again", path, error.reason)
            self.remove(name)
            return None
        files[name] = len(content), self.now_ms
        return content

    def write(self, name: str, parts: Sequence[Buffer], *, is_durable: bool = False) -> None:
        files = self._known()
        size = sum(map(len, parts))
        if size > self._limits().max_size:
            return
        # Another thread may write the same file: each has its own until it is renamed.
        temporary = f"{name}.{next(self._numbers)}.tmp"
        try:
            if self._file_system.status(self.path) is None:
                self._file_system.make_directory(self.path)
            write_file(self._file_system, self.path_of(temporary), parts, durably=is_durable)
            self._file_system.rename(self.path_of(temporary), self.path_of(name))
        except OSError as error:
            self._note(error)
            self._remove(temporary)  # A full disk has room again.
            return
        self._is_failing = False
        files.pop(name, None)
        files[name] = size, self.now_ms
        self._evict(files)

    def remove(self, name: str) -> None:
        self._known().pop(name, None)
        self._remove(name)

    def remove_all(self, prefix: str) -> None:
        """Removes the files whose names begin so."""
        for name in [one for one in list(self._known()) if one.startswith(prefix)]:
            self.remove(name)

    def _known(self) -> dict[str, tuple[int, float]]:
        if self._files is None:
            try:
                self.load()
            except OSError as error:
                self._note(error)
        if self._files is None:
            self._files = {}
        return self._files

    def _names(self) -> list[str]:
        try:
            return self._file_system.list(self.path)
        except FileNotFoundError:
            return []

    def _evict(self, files: dict[str, tuple[int, float]]) -> None:
        max_size, ttl_ms = self._limits()
        entries = list(files.items())
        excess = sum(size for _, (size, _) in entries) - max_size
        oldest_ms = self.now_ms - ttl_ms
        for name, (size, used_ms) in entries:
            if excess <= 0 and used_ms >= oldest_ms:
                return
            self.remove(name)
            excess -= size

    def _remove(self, name: str) -> None:
        try:
            remove_if_present(self._file_system, self.path_of(name))
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        """Reads go on without the files; said once until a file can be written again."""
        if not self._is_failing:
            self._is_failing = True
            logger.warning(
                "%s: %s; %s of the remote tier are fetched for each read",
                self.path, error, self._contents.noun,
            )  # fmt: skip
