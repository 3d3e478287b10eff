"""The files of a local segment that is to be copied to a tier.

They are chosen under the lock of the log's owner, and read without it, in the thread that copies
them. Kafka's counterpart: the beginning of `RemoteLogManager.RLMCopyTask.copyLogSegment`.
"""

from collections.abc import Sequence
from typing import Final

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.files import FileSlice, FileSystem, join, parent_directory, read_file
from ottla.base.values import dataclass
from ottla.record.batch import InvalidBatchError, batch_at
from ottla.storage.files.filenames import LEADER_EPOCHS, FileKind, FileName
from ottla.storage.index import offset_index, time_index, transaction_index
from ottla.storage.index.producer_snapshot import format_snapshot, read_snapshot
from ottla.storage.log.gradual_snapshot import hash_table_order
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_replay import replay_batch
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.log.snapshot_files import producer_entry, snapshot_entry
from ottla.storage.remote.copy_plan import Candidate, epoch_checkpoint
from ottla.storage.remote.index_check import check_index
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.sound_log import check_log

INDEXES: Final = {
    IndexType.OFFSET: FileKind.OFFSET_INDEX,
    IndexType.TIMESTAMP: FileKind.TIME_INDEX,
    IndexType.TRANSACTION: FileKind.TRANSACTION_INDEX,
}
ENTRY_SIZES: Final = {
    IndexType.OFFSET: offset_index.ENTRY.size,
    IndexType.TIMESTAMP: time_index.ENTRY.size,
    IndexType.TRANSACTION: transaction_index.ENTRY.size,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFiles:
    """Where the files of a segment are, and what is not in a file."""

    log: FileSlice
    """Stays readable if retention removes the file."""
    paths: dict[IndexType, str]
    producers: "SnapshotSource"
    epochs: bytes

    def read_sound(
        self, file_system: FileSystem, segment: RemoteLogSegmentMetadata
    ) -> SegmentFiles:
        """As `read`, of files that are the segment's and whole, the log too: what is uploaded may
        soon be all that is left.
        """
        try:
            check_log(self.log, segment.start_offset, segment.end_offset + 1)
        except OSError as error:
            raise self._failure(error) from error
        found = self.read(file_system)
        folder = parent_directory(self.log.file.path)
        paths = {
            **self.paths,
            IndexType.PRODUCER_SNAPSHOT: self.producers.path or folder,
            IndexType.LEADER_EPOCH: join(folder, LEADER_EPOCHS),
        }
        for kind, content in found.indexes.items():
            check_index(segment, kind, content, paths[kind])
        return found

    def _failure(self, error: OSError) -> StorageError:
        path = self.log.file.path
        reason = f"{path}: {error.strerror or error}"
        return StorageError(parent_directory(parent_directory(path)), reason)

    def read(self, file_system: FileSystem) -> SegmentFiles:
        """Reads all but the log. Raises `StorageError`, and `CorruptionError` for damage."""
        try:
            indexes = {
                IndexType.PRODUCER_SNAPSHOT: self.producers.read(file_system),
                IndexType.LEADER_EPOCH: self.epochs,
            }
            for kind, path in self.paths.items():
                content = self._read_index(file_system, kind, path)
                # A segment without aborted transactions has no index of them, or an empty one.
                if content or kind is not IndexType.TRANSACTION:
                    indexes[kind] = content
        except OSError as error:
            raise self._failure(error) from error
        return SegmentFiles(log=self.log, indexes=indexes)

    def _read_index(self, file_system: FileSystem, kind: IndexType, path: str) -> bytes:
        try:
            content = read_file(file_system, path)
        except FileNotFoundError:
            if kind is IndexType.TRANSACTION:
                return b""
            raise
        return _without_room(content, ENTRY_SIZES[kind])

    def close(self) -> None:
        self.log.file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSource:
    """The producers at an offset: a snapshot there, or an earlier one and the logs after it.

    Kafka copies no segment without a snapshot; a log of a Kafka before 2.8 has none.
    """

    until_offset: int
    path: str | None
    """The newest snapshot up to the offset."""
    is_there: bool
    """Whether it is one at the offset itself."""
    logs: Sequence[tuple[str, int]]
    """The logs from the earlier snapshot up to the offset, with their sizes."""

    def read(self, file_system: FileSystem) -> bytes:
        if self.path is not None and self.is_there:
            return read_file(file_system, self.path)
        state = ProducerState()
        if self.path is not None:
            entries, _ = read_snapshot(file_system, self.path)
            state.load(map(producer_entry, entries), 0)
        for path, size in self.logs:
            self._replay(file_system, path, size, state)
        rows = [snapshot_entry(state.entries[one]) for one in hash_table_order(state.entries)]
        return format_snapshot(rows)

    def _replay(self, file_system: FileSystem, path: str, size: int, state: ProducerState) -> None:
        file = file_system.open(path)
        view = file.map(size)
        try:
            position = 0
            while position < size:
                batch = batch_at(view, position)
                if batch.last_offset < self.until_offset:
                    replay_batch(state, batch)
                position += batch.size
        except InvalidBatchError as error:
            raise CorruptionError(path, position, str(error)) from error
        finally:
            view.release()
            file.close()


def _without_room(content: bytes, entry_size: int) -> bytes:
    """An index without the zeros of its room for more, which one of Kafka has after a kill."""
    size = len(content.rstrip(b"\0"))
    return content[: -(-size // entry_size) * entry_size]


def may_be_copied(log: PartitionLog, candidate: Candidate) -> bool:
    """Whether all files of a segment are complete: its producers' snapshot is written in steps, and
    after an upgrade its transaction index is checked.
    """
    check = log.abort_check
    return not log.snapshots.is_begun and (check is None or check.bound >= candidate.next_offset)


def local_files(log: PartitionLog, candidate: Candidate) -> LocalFiles:
    """The files of a segment of an open log. Raises `StorageError`; the caller closes them."""
    base_offset, until_offset = candidate.segment.base_offset, candidate.next_offset
    segment = log.segments.floor(base_offset)
    assert segment is not None
    assert segment.base_offset == base_offset
    with log.health.guarding():
        file = segment.log.reader().duplicate()
    return LocalFiles(
        log=FileSlice(file, 0, segment.size),
        paths={
            kind: join(log.directory, FileName(offset=base_offset, kind=file_kind).text)
            for kind, file_kind in INDEXES.items()
        },
        producers=_snapshot_source(log, until_offset),
        epochs=epoch_checkpoint(log.epochs.entries, until_offset),
    )


def _snapshot_source(log: PartitionLog, until_offset: int) -> SnapshotSource:
    known = [one for one in log.snapshots.offsets if one <= until_offset]
    newest = known[-1] if known else None
    logs = [
        (one.log.path, one.size)
        for one in log.segments.from_offset(newest or 0)
        if one.base_offset < until_offset and newest != until_offset
    ]
    return SnapshotSource(
        until_offset=until_offset,
        path=None if newest is None else log.snapshots.path(newest),
        is_there=newest == until_offset,
        logs=logs,
    )
