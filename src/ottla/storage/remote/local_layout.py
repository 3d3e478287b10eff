"""The layout of Kafka's `LocalTieredStorage`: a file for each file of a segment.

Format page: docs/format/tier-objects.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer, join
from ottla.base.ids import parse_uuid, uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.index import offset_index, time_index
from ottla.storage.log.leader_epochs import EpochEntry, parse_epoch_entries
from ottla.storage.remote.block_cache import BlockCache, Load, slice_of
from ottla.storage.remote.index_check import check_index
from ottla.storage.remote.log_check import FIRST_SIZE, check_first, check_last_entry
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from ottla.storage.remote.stored_upload import OnOther, StoredUpload, stored_uploads
from ottla.storage.remote.tier_objects import TierObjects
from ottla.storage.scan import batches, checksum

ROOT: Final = "kafka-tiered-storage"
"""The folder that `LocalTieredStorage` makes in its directory."""

LOG: Final = ".log"
SUFFIXES: Final = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.TRANSACTION: ".txnindex",
    IndexType.LEADER_EPOCH: ".leader_epoch_checkpoint",
    IndexType.PRODUCER_SNAPSHOT: ".snapshot",
}
"""In the order in which they are uploaded, after the log."""

_OPTIONAL: Final = IndexType.TRANSACTION

NEEDED: Final = (LOG, SUFFIXES[IndexType.PRODUCER_SNAPSHOT])
"""What a whole upload has: the snapshot is uploaded last, and the log deleted first."""

BLOCK_SIZE: Final = 1 << 20
"""What is read at once of an object store, where nothing follows."""

CHECKED_COUNT: Final = 10_000

FOLDER = lazy_pattern(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})-([a-zA-Z0-9_-]{22})")
OBJECT = lazy_pattern(
    r"([0-9]{20})-([a-zA-Z0-9_-]{22})"
    r"(\.log|\.index|\.timeindex|\.txnindex|\.leader_epoch_checkpoint|\.snapshot)"
)


class LocalTier:
    """Implements `RemoteStorage`. `root` is the folder of partitions' folders, in the store.

    Without `deletes` (`delete.enable`) objects stay when their segment is deleted.
    """

    def __init__(
        self, objects: TierObjects, root: str, cache: BlockCache, *, deletes: bool = True
    ) -> None:
        self._objects = objects
        self._root = root
        self._deletes = deletes
        self._cache = cache
        self._known: dict[bytes, RemoteLogSegmentMetadata] = {}
        """Segments whose logs have been checked."""

    @property
    def address(self) -> str:
        return self._objects.address

    def log_size(self, segment: RemoteLogSegmentMetadata) -> int:
        self._check(segment)
        return segment.size

    def read_log(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        self._check(segment)
        size = min(size, segment.size - position)
        if size <= 0:
            return b""
        path = self._path(segment, LOG)
        if not self._objects.read_ahead:
            return self._objects.get(path, position, size, segment)
        first, last = position // BLOCK_SIZE, (position + size - 1) // BLOCK_SIZE
        blocks = self._cache.read(segment.segment_id, first, last, self._loading(segment))
        return slice_of(blocks, position % BLOCK_SIZE, size)

    def forget(self, segment: RemoteLogSegmentMetadata) -> None:
        self._cache.forget(segment.segment_id)

    def read_index(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes | None:
        path = self._path(segment, SUFFIXES[kind])
        content: bytes | None
        if kind is IndexType.TRANSACTION:
            content = None if segment.has_no_transactions else self._objects.find(path)
        else:
            content = self._objects.read(path, segment)
        if content is not None:
            with self._objects.about(segment, path):
                check_index(segment, kind, content, path)
                if kind is IndexType.OFFSET:
                    check_last_entry(segment, content, self._reading(segment), path)
        return content

    def segments(
        self, topic: str | None = None, partition: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Those with a log and a producer snapshot, which is uploaded last; deleting removes the
        log first.
        """
        for upload in self.uploads(topic, partition):
            found = self.examine(upload) if upload.is_complete else None
            if found is not None:
                yield found

    def uploads(
        self,
        topic: str | None = None,
        partition: int | None = None,
        on_other: OnOther = lambda path: None,
    ) -> Iterator[StoredUpload]:
        for folder in self._objects.folders(self._root):
            match = FOLDER.fullmatch(folder)
            if match is None or topic not in (None, match[1]):
                continue
            place = TopicIdPartition(match[1], parse_uuid(match[3]), int(match[2]))
            if partition not in (None, place.partition):
                continue
            objects = self._objects.find_all(join(self._root, folder))
            yield from stored_uploads(objects, OBJECT, place, NEEDED, on_other)

    def object_paths(self, segment: RemoteLogSegmentMetadata) -> dict[str, bool]:
        log = {self._path(segment, LOG): True}
        kinds = SUFFIXES.items()
        return log | {self._path(segment, one): kind is not _OPTIONAL for kind, one in kinds}

    def copy_segment(self, segment: RemoteLogSegmentMetadata, files: SegmentFiles) -> None:
        self._objects.put(self._path(segment, LOG), files.log_parts())
        for kind, suffix in SUFFIXES.items():
            content = files.indexes.get(kind)
            if content is not None:
                self._objects.put(self._path(segment, suffix), [content])

    def delete_segment(self, segment: RemoteLogSegmentMetadata) -> None:
        self._known.pop(segment.segment_id, None)
        if not self._deletes:
            return
        # The log by itself and first: without it what is left of a segment does not look like one.
        self._objects.delete_all([self._path(segment, LOG)])
        self._objects.delete_all([self._path(segment, suffix) for suffix in SUFFIXES.values()])

    def has(self, path: str) -> bool:
        return self._objects.has(path)

    def path_of(self, segment: RemoteLogSegmentMetadata, kind: IndexType | None) -> str:
        suffix = LOG if kind is None else SUFFIXES[kind]
        return self._objects.full_path(self._path(segment, suffix))

    def _path(self, segment: RemoteLogSegmentMetadata, suffix: str) -> str:
        one = segment.partition
        folder = f"{one.topic}-{one.partition}-{uuid_text(one.topic_id)}"
        stem = f"{segment.start_offset:020d}-{uuid_text(segment.segment_id)}"
        return self._objects.checked(segment, join(self._root, folder, stem + suffix))

    def _check(self, segment: RemoteLogSegmentMetadata) -> None:
        """Compares a segment's log with its metadata, before the first read."""
        if self._known.get(segment.segment_id) == segment:
            return
        path = self._path(segment, LOG)
        size = self._objects.size(path, segment)
        if size != segment.size:
            reason = f"has {size} bytes instead of {segment.size}"
            raise self._objects.damage(segment, path, reason, min(size, segment.size))
        head = self._objects.get(path, 0, min(FIRST_SIZE, size), segment)
        with self._objects.about(segment, path):
            check_first(segment, head, path)
        self._known[segment.segment_id] = segment
        for one in list(self._known)[:-CHECKED_COUNT]:
            self._known.pop(one, None)

    def _reading(self, segment: RemoteLogSegmentMetadata) -> Callable[[int, int], bytes]:
        """Reads single bytes of a log, of which the metadata may not be known yet."""
        path = self._path(segment, LOG)

        def read(position: int, size: int) -> bytes:
            size = min(size, segment.size - position)
            return self._objects.get(path, position, size, segment)

        return read

    def _loading(self, segment: RemoteLogSegmentMetadata) -> Load:
        """Loads blocks of a log."""
        path = self._path(segment, LOG)
        ahead = self._objects.read_ahead // BLOCK_SIZE

        def load(first: int, last: int, is_sequential: bool) -> list[Buffer]:
            last = max(last, first + ahead - 1) if is_sequential else last
            start, end = first * BLOCK_SIZE, min((last + 1) * BLOCK_SIZE, segment.size)
            if start >= end:
                return []
            content = memoryview(self._objects.get(path, start, end - start, segment))
            return [content[at : at + BLOCK_SIZE] for at in range(0, len(content), BLOCK_SIZE)]

        return load

    def examine(self, upload: StoredUpload) -> RemoteLogSegmentMetadata | None:
        named = RemoteLogSegmentMetadata(
            partition=upload.partition,
            segment_id=upload.segment_id,
            start_offset=upload.start_offset,
            end_offset=MAX_OFFSET,
            broker_id=-1,
            max_timestamp_ms=MAX_OFFSET,
            event_timestamp_ms=-1,
            leader_epochs=(),
            size=0,
            state=SegmentState.COPY_SEGMENT_FINISHED,
            has_no_transactions=not any(
                one.path.endswith(SUFFIXES[_OPTIONAL]) for one in upload.objects
            ),
        )
        try:
            return self._measured(named)
        except CorruptionError:
            if self._objects.has(self._path(named, LOG)):
                raise
        return None

    def _measured(self, named: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
        """A segment with what its name does not say."""
        sized = replace(named, size=self._objects.size(self._path(named, LOG), named))
        end_offset, timestamp_ms = self._end_of(sized)
        return replace(
            sized,
            end_offset=end_offset,
            max_timestamp_ms=timestamp_ms,
            leader_epochs=self._epochs_of(sized, end_offset),
        )

    def _end_of(self, segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
        """The last offset and the largest timestamp, by the batches after the last index entry and
        the last entry of the time index.
        """
        path = self._path(segment, LOG)
        index = self.read_index(segment, IndexType.OFFSET)
        times = self.read_index(segment, IndexType.TIMESTAMP)
        position = offset_index.ENTRY.unpack(index[-8:])[1] if index else 0
        timestamp_ms = time_index.ENTRY.unpack(times[-12:])[0] if times else -1
        content = self._objects.get(path, position, segment.size - position, segment)
        with self._objects.about(segment, path):
            found = [one for _, one in batches(content, path, position, checks=(checksum,))]
        if not found:
            raise self._objects.damage(segment, path, "has no batch")
        return found[-1].last_offset, max(timestamp_ms, *(one.max_timestamp_ms for one in found))

    def _epochs_of(
        self, segment: RemoteLogSegmentMetadata, end_offset: int
    ) -> tuple[tuple[int, int], ...]:
        path = self._path(segment, SUFFIXES[IndexType.LEADER_EPOCH])
        content = self._objects.read(path, segment)
        with self._objects.about(segment, path):
            entries = parse_epoch_entries(path, content)
        last = EpochEntry(-1, end_offset + 1)
        epochs = tuple(
            (one.epoch, max(one.start_offset, segment.start_offset))
            for one, following in pairwise([*entries, last])
            if one.start_offset <= end_offset and following.start_offset > segment.start_offset
        )
        if not epochs:
            raise self._objects.damage(segment, path, "has no leader epoch of the segment")
        return epochs
