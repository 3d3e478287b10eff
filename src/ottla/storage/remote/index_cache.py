"""The indexes of uploaded segments that were read last: files beside the logs, and some in memory.

Format page: docs/format/remote-log-index-cache.md. The names and the folder are Kafka's, so that
either continues with what the other has fetched. A crash can leave `.tmp` files, which `load`
removes, as it does the `.deleted` ones of Kafka; a file is checked when it is read for the first
time, and fetched again if it is damaged. So losing the folder costs requests to the store only.
Kafka's counterpart: `RemoteIndexCache`, which fetches all three indexes of a segment at once.
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.base.files import FileSystem
from ottla.base.ids import uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.storage.remote.cache_folder import CacheFolder, FolderContents
from ottla.storage.remote.cache_folder import Limits as FolderLimits
from ottla.storage.remote.index_check import check_index
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata

SUFFIXES: Final = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.TRANSACTION: ".txnindex",
}

MEMORY_SIZE: Final = 16 << 20
"""The bytes of indexes in memory: those of the segments that are being read."""

CONTENTS: Final = FolderContents(
    name=lazy_pattern(r"[0-9]{1,19}_[a-zA-Z0-9_-]{22}(\.index|\.timeindex|\.txnindex)"),
    left=lazy_pattern(
        r"[0-9]{1,19}_[a-zA-Z0-9_-]{22}\.(index|timeindex|txnindex)\S*\.(tmp|deleted)"
    ),
    noun="indexes",
    # An empty transaction index may have lost its content with the power.
    is_of_use=lambda name, size: size > 0 or not name.endswith(".txnindex"),
)


class Limits(Protocol):
    """How much is kept (`config/tiering.py: TieringConfig`)."""

    @property
    def remote_log_index_file_cache_total_size_bytes(self) -> int: ...

    @property
    def remote_log_index_file_cache_ttl_ms(self) -> int: ...


class IndexCache:
    """Indexes in a `CacheFolder`, and some in memory; without a `folder` in memory only."""

    def __init__(
        self,
        storage: RemoteStorage,
        file_system: FileSystem,
        folder: str | None,
        limits: Callable[[], Limits],
    ) -> None:
        self._storage = storage
        self._recent: dict[str, bytes] = {}
        self._folder: CacheFolder | None = None
        if folder is not None:
            self._folder = CacheFolder(
                file_system, folder, CONTENTS, lambda: _folder_limits(limits())
            )

    @property
    def now_ms(self) -> float:
        """The monotonic time of the last request, which the caller sets."""
        return 0.0 if self._folder is None else self._folder.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: float) -> None:
        if self._folder is not None:
            self._folder.now_ms = now_ms

    def get(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes:
        """The whole index of a segment; empty if it has no transaction index. Raises as
        `RemoteStorage.read_index` does.
        """
        name, folder = file_name(segment, kind), self._folder
        content = self._recent.pop(name, None)
        if folder is not None and content is not None:
            folder.use(name)
        elif folder is not None:
            content = folder.read(name, lambda found, path: check_index(segment, kind, found, path))
        if content is None:
            content = self._storage.read_index(segment, kind) or b""
            # After a power failure other indexes may be short, which costs time; a transaction
            # index that lost its entries would show aborted records.
            is_durable = kind is IndexType.TRANSACTION and bool(content)
            if folder is not None:
                folder.write(name, [content], is_durable=is_durable)
        self._recent[name] = content
        self._trim_memory()
        return content

    def forget(self, segment: RemoteLogSegmentMetadata) -> None:
        """Removes the indexes of a segment: they are damaged, or the segment was deleted."""
        for kind in SUFFIXES:
            name = file_name(segment, kind)
            self._recent.pop(name, None)
            if self._folder is not None:
                self._folder.remove(name)

    def load(self) -> None:
        """See `CacheFolder.load`."""
        if self._folder is not None:
            self._folder.load()

    def _trim_memory(self) -> None:
        contents = list(self._recent.items())
        excess = sum(len(one) for _, one in contents) - MEMORY_SIZE
        for name, content in contents[:-1]:
            if excess <= 0:
                return
            self._recent.pop(name, None)
            excess -= len(content)


def _folder_limits(limits: Limits) -> FolderLimits:
    return FolderLimits(
        limits.remote_log_index_file_cache_total_size_bytes,
        limits.remote_log_index_file_cache_ttl_ms,
    )


def file_name(segment: RemoteLogSegmentMetadata, kind: IndexType) -> str:
    """Kafka: `RemoteIndexCache.generateFileNamePrefixForIndex`."""
    return f"{segment.start_offset}_{uuid_text(segment.segment_id)}{SUFFIXES[kind]}"
