"""The log of a node of the quorum on its disk: `__cluster_metadata-0` with its snapshots.

What is appended is written at once, and durable after `sync`, which may run in another thread.
A disk error takes the directory offline: no call succeeds after it, so that nothing is acknowledged
of which it is not known whether it is there.

Format page: docs/format/cluster-metadata.md. Kafka's counterparts: `KafkaMetadataLog`,
`FileRawSnapshotWriter`.
"""

import contextlib
import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from ottla.base.errors import DISK_REMEDIES, ShortageError, StorageError
from ottla.base.files import Buffer, File, FileSystem, join, remove_if_present, sync_file
from ottla.base.values import dataclass
from ottla.config.broker import BrokerConfig
from ottla.quorum.messages import SnapshotId
from ottla.record.batch import batch_at, whole_size
from ottla.storage.files.metadata_files import SNAPSHOT_NAME
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog

T = TypeVar("T")

PART: Final = ".part"
"""The ending of a snapshot's name while it is written (Kafka: `Snapshots.PARTIAL_SUFFIX`)."""

BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""Kafka: `Snapshots.BOOTSTRAP_SNAPSHOT_ID`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """When a segment ends (`metadata.log.segment.bytes`, `metadata.log.segment.ms`)."""

    size: int = 1 << 30
    age_ms: int = 604_800_000

    @classmethod
    def of(cls, config: BrokerConfig) -> "SegmentLimits":
        return cls(size=config.metadata_log_segment_bytes, age_ms=config.metadata_log_segment_ms)


DEFAULT_LIMITS: Final = SegmentLimits()


class PartitionQuorumLog:
    """A `QuorumLog` over a `PartitionLog`. All methods raise `StorageError`."""

    def __init__(
        self,
        log: PartitionLog,
        file_system: FileSystem,
        now_ms: Callable[[], int],
        limits: SegmentLimits = DEFAULT_LIMITS,
    ) -> None:
        self._log = log
        self._file_system = file_system
        self._now_ms = now_ms
        self._limits = limits
        self.appended_size = 0
        """How many bytes were appended since it was opened."""
        self._snapshots = set(find_snapshots(file_system, log.directory))
        # Both are used by two threads, each by operations that no other can interrupt.
        self._unsynced: deque[File] = deque()
        """Own descriptors of the segments that were appended to since the last sync."""
        self._new_names: deque[str] = deque([log.segments.active.log.path])
        """Segments whose names may not be durable yet."""

    # The log

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        return [(one.epoch, one.start_offset) for one in self._log.epochs.entries]

    @property
    def size(self) -> int:
        """The bytes of the segments."""
        return self._log.size

    def size_from(self, offset: int) -> int:
        """The bytes of the records from an offset on."""
        with self._log.health.guarding():
            size = 0
            for one in self._log.segments.from_offset(offset):
                found = one.translate(offset)
                size += 0 if found is None else one.size - found.position
            return size

    def timestamp_before(self, offset: int) -> int:
        """The time of the record before an offset of the log, in milliseconds."""
        return batch_at(self.read(offset - 1, 1), 0).max_timestamp_ms

    def read(self, offset: int, max_bytes: int) -> Buffer:
        found = self._log.reader.read(offset, max_bytes, Isolation.LOG_END).records
        if found is None:
            return b""
        with self._log.health.guarding():
            content = found.read()
        return memoryview(content)[: whole_size(content)]

    def append(self, records: Buffer) -> None:
        log = self._log
        now_ms = self._now_ms()
        self._check_file(log.segments.active.log.path)
        if self._is_segment_full(len(records), now_ms):
            self._roll(now_ms)
        log.writer.append_as_follower(records, now_ms=now_ms)
        log.writer.write_out()
        self.appended_size += len(records)
        active = log.segments.active.log
        # After the write: what a sync takes out of the list later than this covers it.
        if not any(one.path == active.path for one in tuple(self._unsynced)):
            with log.health.guarding():
                self._unsynced.append(active.reader().duplicate())

    def _check_file(self, path: str) -> None:
        """Raises `StorageError` if another program has removed or cut the file that is written:
        it stays open here, and everything that was acknowledged from now on would be lost.
        """
        damage = self._log.reader.shortened(path)
        if damage is not None:
            raise self._log.health.fail(OSError(errno.EIO, damage.reason, path), is_half_done=True)

    def _is_segment_full(self, size: int, now_ms: int) -> bool:
        active = self._log.segments.active
        if not active.size:
            return False
        return (
            active.size + size > self._limits.size
            or now_ms - active.created_ms > self._limits.age_ms
        )

    def end_segment(self, least_size: int) -> None:
        """Begins another segment if the last one has this size, so that it can be deleted soon."""
        if self._log.segments.active.size >= max(least_size, 1):
            self._roll(self._now_ms())

    def _roll(self, now_ms: int) -> None:
        # What is before a segment is durable before it: a start may take a hole there for damage.
        log = self._log
        log.writer.flush()
        log.writer.roll(now_ms)
        for one in log.segments.values[:-1]:
            one.synced()
        self._new_names.append(log.segments.active.log.path)

    def sync(self) -> None:
        """Makes durable what was appended before the call; another thread may call it."""
        files, names = _taken(self._unsynced), _taken(self._new_names)
        try:
            with self._log.health.guarding(changes_files=True):
                for file in files:
                    file.sync()
                if names:
                    self._file_system.sync_directory(self._log.directory)
        finally:
            for file in files:
                file.close()

    def close(self) -> None:
        """Releases descriptors; who opened the log closes that."""
        for file in _taken(self._unsynced):
            file.close()

    def give_up(self) -> None:
        """The disk does not answer: nobody is to wait for it, also when the directory is closed."""
        health = self._log.health
        if health.failure is None:
            health.failure = StorageError(health.directory, "the disk has not answered")

    def truncate_to(self, offset: int) -> None:
        self._log.maintenance.truncate_to(offset, now_ms=self._now_ms())

    def start_at(self, offset: int) -> None:
        self._log.maintenance.truncate_fully_and_start_at(offset, now_ms=self._now_ms())

    def delete_records_before(self, offset: int) -> None:
        log = self._log
        log.writer.move_high_watermark(offset)
        log.maintenance.delete_records_before(offset)
        with log.health.guarding(changes_files=True):
            for gone in log.maintenance.delete_segments_below_start():
                gone.remove()

    # Snapshots

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        return sorted(self._snapshots)

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> Buffer:
        with self._log.health.guarding(), self._open(self.snapshot_path(snapshot)) as file:
            return file.pread(max_bytes, position)

    def snapshot_size(self, snapshot: SnapshotId) -> int:
        with self._log.health.guarding(), self._open(self.snapshot_path(snapshot)) as file:
            return file.size()

    def write_snapshot(self, snapshot: SnapshotId, position: int, content: Buffer) -> None:
        """Raises `ShortageError` where there is no room: nothing is lost, and the same part may be
        written later.
        """
        path = self.snapshot_path(snapshot) + PART
        with (
            self._log.health.guarding(changes_files=True),
            self._needing_room(path),
            self._open(path, is_new=position == 0) as file,
        ):
            assert file.size() >= position, "a part of a snapshot is missing"
            # What is behind it was written when there was too little room for all of it.
            file.truncate(position)
            file.pwrite(content, position)

    def finish_snapshot(self, snapshot: SnapshotId) -> None:
        """Raises `ShortageError` where there is no room. Then it may be called again if it
        `has_part`; a part that could not be synced is gone.
        """
        path = self.snapshot_path(snapshot)
        with self._log.health.guarding(changes_files=True):
            with self._needing_room(path):
                try:
                    sync_file(self._file_system, path + PART)
                except OSError:
                    remove_if_present(self._file_system, path + PART)
                    raise
            with self._needing_room(path):
                self._file_system.rename(path + PART, path)
            self._file_system.sync_directory(self._log.directory)
        self._snapshots.add(snapshot)

    def has_part(self, snapshot: SnapshotId) -> bool:
        with self._log.health.guarding():
            return self._file_system.status(self.snapshot_path(snapshot) + PART) is not None

    def drop_snapshot(self, snapshot: SnapshotId) -> None:
        """Removes what is written of a snapshot that is not finished."""
        with self._log.health.guarding():
            remove_if_present(self._file_system, self.snapshot_path(snapshot) + PART)

    @contextlib.contextmanager
    def _needing_room(self, path: str) -> Iterator[None]:
        """A full disk is no broken one to what is needed by nobody yet."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            reason = f"{error.strerror} ({path}); {DISK_REMEDIES[error.errno]}"
            raise ShortageError(self._log.health.directory, reason) from error

    def delete_snapshots_before(self, snapshot: SnapshotId) -> None:
        for one in self.snapshots:
            if one < snapshot:
                with self._log.health.guarding():
                    remove_if_present(self._file_system, self.snapshot_path(one))
                self._snapshots.discard(one)

    def snapshot_path(self, snapshot: SnapshotId) -> str:
        return join(self._log.directory, snapshot_name(snapshot))

    @contextlib.contextmanager
    def _open(self, path: str, *, is_new: bool | None = None) -> Iterator[File]:
        """Opens a file, to be written unless `is_new` is `None`."""
        file = self._file_system.open(path, writable=is_new is not None, create=bool(is_new))
        try:
            yield file
        finally:
            file.close()


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020}-{snapshot.epoch:010}.checkpoint"


def remove_parts(file_system: FileSystem, folder: str) -> None:
    """Removes snapshots that were not finished; raises `OSError`."""
    for name in file_system.list(folder):
        if name.endswith(PART) and SNAPSHOT_NAME.fullmatch(name.removesuffix(PART)):
            remove_if_present(file_system, join(folder, name))


def find_snapshots(file_system: FileSystem, folder: str) -> list[SnapshotId]:
    """The complete snapshots in a folder, the oldest first; raises `OSError`."""
    matches = map(SNAPSHOT_NAME.fullmatch, file_system.list(folder))
    return sorted(SnapshotId(int(one[1]), int(one[2])) for one in matches if one)


def _taken(items: "deque[T]") -> list[T]:
    taken: list[T] = []
    while items:
        taken.append(items.popleft())
    return taken
