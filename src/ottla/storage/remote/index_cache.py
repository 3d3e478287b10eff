"""The indexes of uploaded segments that were read last: files beside the logs, and some in memory.

Format page: docs/format/remote-log-index-cache.md. The names and the folder are Kafka's, so that
either continues with what the other has fetched. A crash can leave `.tmp` files, which `load`
removes, as it does the `.deleted` ones of Kafka; a file is checked when it is read for the first
time, and fetched again if it is damaged. So losing the folder costs requests to the store only.
Kafka's counterpart: `RemoteIndexCache`, which fetches all three indexes of a segment at once.
"""

import logging
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple, Protocol

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file, remove_if_present, write_file
from ottla.base.ids import uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.storage.remote.index_check import check_index
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata

logger = logging.getLogger(__name__)

SUFFIXES: Final = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.TRANSACTION: ".txnindex",
}

MEMORY_SIZE: Final = 16 << 20
"""The bytes of indexes in memory: those of the segments that are being read."""

_NAME = lazy_pattern(r"[0-9]{1,19}_[a-zA-Z0-9_-]{22}(\.index|\.timeindex|\.txnindex)")
_LEFT = lazy_pattern(r"[0-9]{1,19}_[a-zA-Z0-9_-]{22}\.(index|timeindex|txnindex)\S*\.(tmp|deleted)")


class _Found(NamedTuple):
    name: str
    size: int
    modified_ms: int


class Limits(Protocol):
    """How much is kept (`config/tiering.py: TieringConfig`)."""

    @property
    def remote_log_index_file_cache_total_size_bytes(self) -> int: ...

    @property
    def remote_log_index_file_cache_ttl_ms(self) -> int: ...


class IndexCache:
    """Files up to the limits, the least recently used removed first.

    Several threads may use it at once: then an index may be fetched twice. Without a `folder` only
    the memory is used. `now_ms` is the monotonic time of the last request, which the caller sets.
    """

    def __init__(
        self,
        storage: RemoteStorage,
        file_system: FileSystem,
        folder: str | None,
        limits: Callable[[], Limits],
    ) -> None:
        self._storage = storage
        self._file_system = file_system
        self._folder = folder
        self.now_ms = 0.0
        self._limits = limits
        self._files: dict[str, tuple[int, float]] | None = None
        """The size of each file by its name, and when it was used, the least recently used first.
        """
        self._recent: dict[str, bytes] = {}
        self._numbers = count()
        self._is_failing = False

    def get(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes:
        """The whole index of a segment; empty if it has no transaction index. Raises as
        `RemoteStorage.read_index` does.
        """
        name = file_name(segment, kind)
        content = self._recent.pop(name, None)
        if content is not None:
            self._use(name)
        else:
            content = self._read(name, segment, kind)
        if content is None:
            content = self._storage.read_index(segment, kind) or b""
            self._write(name, content, is_durable=kind is IndexType.TRANSACTION)
        self._recent[name] = content
        self._trim_memory()
        return content

    def _use(self, name: str) -> None:
        files = self._known()
        known = files.pop(name, None)
        if known is not None:
            files[name] = known[0], self.now_ms

    def forget(self, segment: RemoteLogSegmentMetadata) -> None:
        """Removes the indexes of a segment: they are damaged, or the segment was deleted."""
        for kind in SUFFIXES:
            name = file_name(segment, kind)
            self._recent.pop(name, None)
            self._remove(name)

    def load(self) -> None:
        """Takes over the files that an earlier run has left, and removes what it left half done."""
        found: list[_Found] = []
        for name in self._names():
            path = self._path(name)
            status = self._file_system.status(path)
            match = _NAME.fullmatch(name)
            # An empty transaction index may have lost its content with the power.
            is_void = match is not None and match[1] == ".txnindex" and not (status and status.size)
            if _LEFT.fullmatch(name) or is_void:
                remove_if_present(self._file_system, path)
            elif match is not None and status is not None:
                found.append(_Found(name, status.size, status.modified_ms))
        found.sort(key=lambda one: one.modified_ms)
        self._files = {one.name: (one.size, self.now_ms) for one in found}
        self._evict(self._files)

    def _names(self) -> list[str]:
        try:
            return [] if self._folder is None else self._file_system.list(self._folder)
        except FileNotFoundError:
            return []

    def _known(self) -> dict[str, tuple[int, float]]:
        if self._files is None:
            try:
                self.load()
            except OSError as error:
                self._note(error)
        if self._files is None:
            self._files = {}
        return self._files

    def _read(self, name: str, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes | None:
        """The content of a file, unless it is missing or not the segment's."""
        files = self._known()
        if files.pop(name, None) is None:
            return None
        path = self._path(name)
        try:
            content = read_file(self._file_system, path)
            check_index(segment, kind, content, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(error)
            return None
        except CorruptionError as error:
            logger.warning("%s: %s; it is fetched again", path, error.reason)
            self._remove(name)
            return None
        files[name] = len(content), self.now_ms
        return content

    def _write(self, name: str, content: bytes, *, is_durable: bool) -> None:
        files = self._known()
        max_size = self._limits().remote_log_index_file_cache_total_size_bytes
        if self._folder is None or len(content) > max_size:
            return
        # Another thread may write the same file: each has its own until it is renamed.
        temporary = self._path(f"{name}.{next(self._numbers)}.tmp")
        try:
            if self._file_system.status(self._folder) is None:
                self._file_system.make_directory(self._folder)
            # After a power failure other indexes may be short, which costs time; a transaction
            # index that lost its entries would show aborted records.
            write_file(
                self._file_system, temporary, [content], durably=is_durable and bool(content)
            )
            self._file_system.rename(temporary, self._path(name))
        except OSError as error:
            self._note(error)
            return
        self._is_failing = False
        files[name] = len(content), self.now_ms
        self._evict(files)

    def _evict(self, files: dict[str, tuple[int, float]]) -> None:
        limits = self._limits()
        entries = list(files.items())
        excess = sum(size for _, (size, _) in entries)
        excess -= limits.remote_log_index_file_cache_total_size_bytes
        oldest_ms = self.now_ms - limits.remote_log_index_file_cache_ttl_ms
        for name, (size, used_ms) in entries:
            if excess <= 0 and used_ms >= oldest_ms:
                return
            self._remove(name)
            excess -= size

    def _remove(self, name: str) -> None:
        self._known().pop(name, None)
        if self._folder is None:
            return
        try:
            remove_if_present(self._file_system, self._path(name))
        except OSError as error:
            self._note(error)

    def _trim_memory(self) -> None:
        contents = list(self._recent.items())
        excess = sum(len(one) for _, one in contents) - MEMORY_SIZE
        for name, content in contents[:-1]:
            if excess <= 0:
                return
            self._recent.pop(name, None)
            excess -= len(content)

    def _path(self, name: str) -> str:
        assert self._folder is not None
        return join(self._folder, name)

    def _note(self, error: OSError) -> None:
        """Reads go on without the files; said once until a file can be written again."""
        if not self._is_failing:
            self._is_failing = True
            logger.warning(
                "%s: %s; indexes of the remote tier are fetched for each read", self._folder, error
            )


def file_name(segment: RemoteLogSegmentMetadata, kind: IndexType) -> str:
    """Kafka: `RemoteIndexCache.generateFileNamePrefixForIndex`."""
    return f"{segment.start_offset}_{uuid_text(segment.segment_id)}{SUFFIXES[kind]}"
