"""Segments that parallel tasks write, and that then become part of the target's logs.

A task writes one partition's batches to new log files in its own directory, so that a task may be
retried or run twice at once. The owner of the target then renames the files into the partition's
directory, in order. Recovery does the rest: it checks every batch, builds the indexes, and brings
leader epochs, producers and transactions to the new end.

A crash before the renames leaves unused files, which the next mirror removes; between two renames
it leaves a shorter log. The target must be closed, and must not be opened meanwhile.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem, join
from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.mirror.plan import BulkCopy
from ottla.record.batch import Batch
from ottla.storage import scan
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files.clean_shutdown import remove_clean_shutdown
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    LOCK,
    log_file_name,
    partition_directory_name,
)
from ottla.storage.files.integrity import blank_integrity
from ottla.storage.reading.read_only_directory import open_for_reading

STAGING = ".mirror-staging"
"""The directory for staged files; brokers ignore it, since it is not named like a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The result of a task: durable log files, by ascending base offsets."""

    copy: BulkCopy
    directory: str
    base_offsets: Sequence[int]
    end_offset: int
    size: int


class StagedLog:
    """Writes the segments of one partition; `finish` makes them durable."""

    def __init__(self, target: str, copy: BulkCopy) -> None:
        name = partition_directory_name(copy.topic, copy.partition)
        self._copy = copy
        self._directory = join(target, STAGING, f"{name}.{uuid.uuid4().hex}")
        OsFileSystem().make_directory(self._directory)
        self._base_offsets: list[int] = []
        self._file: int | None = None
        self._file_size = 0
        self._size = 0
        self._end_offset = copy.target_end
        self._ascending = scan.Ascending(copy.target_end)

    def append(self, records: memoryview, place: str) -> None:
        """Appends whole batches after checking them.

        Raises `CorruptionError` with `place` as its path.
        """
        checks = scan.checksum, self._ascending
        start = 0
        for position, batch in scan.batches(records, place, checks=checks):
            if self._is_full(batch, position - start):
                self._write(records[start:position])
                start = position
                self._roll()
            self._end_offset = batch.last_offset + 1
        self._write(records[start:])

    def _is_full(self, batch: Batch, waiting: int) -> bool:
        """Whether a batch needs a new segment, with `waiting` bytes pending for the current one."""
        if self._file is None:
            self._roll()
            return False
        is_large = self._file_size + waiting + batch.size > self._copy.segment_size
        is_far = batch.last_offset - self._base_offsets[-1] > INT32_MAX
        return (is_large or is_far) and self._file_size + waiting > 0

    def _roll(self) -> None:
        """Starts a new segment at the end offset of the one before, so that there is no gap."""
        self._close_file()
        self._base_offsets.append(self._end_offset)
        path = join(self._directory, log_file_name(self._end_offset))
        self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        self._file_size = 0

    def _write(self, records: memoryview) -> None:
        assert self._file is not None or not len(records)
        while self._file is not None and len(records):
            written = os.write(self._file, records)
            records = records[written:]
            self._file_size += written
            self._size += written

    def _close_file(self) -> None:
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def finish(self) -> Staged:
        self._close_file()
        OsFileSystem().sync_directory(self._directory)
        return Staged(
            copy=self._copy,
            directory=self._directory,
            base_offsets=tuple(self._base_offsets),
            end_offset=self._end_offset,
            size=self._size,
        )


def adopt(
    target: str, staged: Iterable[Staged], on_segment: Callable[[], None] = lambda: None
) -> None:
    """Moves staged segments into their logs; the directory must be opened with recovery next.

    `on_segment` is called after each durable move. Raises `UserError` if a log's end has changed
    since the copy was planned, or if the directory is in use.
    """
    files = OsFileSystem()
    with _locked(files, target):
        # First, so that the next open recovers the moved segments, which have no indexes.
        remove_clean_shutdown(files, join(target, CLEAN_SHUTDOWN))
        for one in staged:
            _adopt_one(files, target, one, on_segment)


def _adopt_one(
    files: OsFileSystem, target: str, staged: Staged, on_segment: Callable[[], None]
) -> None:
    copy = staged.copy
    log = open_for_reading(target).partition(copy.topic, copy.partition)
    if log.log_end_offset != copy.target_end:
        raise UserError(
            f"{log.path} ends at offset {log.log_end_offset} instead of {copy.target_end}: another "
            "program wrote to the target; stop it and run the mirror again"
        )
    # The new segments may have gaps, and epochs that the epoch file does not have yet.
    blank_integrity(files, log.path)
    for base_offset in staged.base_offsets:
        name = log_file_name(base_offset)
        files.rename(join(staged.directory, name), join(log.path, name))
        # After each rename, so that a power failure leaves no segment without those before it.
        files.sync_directory(log.path)
        on_segment()


@contextmanager
def _locked(files: OsFileSystem, target: str) -> Iterator[None]:
    lock = files.lock(join(target, LOCK))
    if lock is None:
        raise refuse_in_use(files, target, "stop it, and run the mirror again")
    try:
        yield
    finally:
        lock.release()


def discard_staging(target: str) -> None:
    """Removes staged files that earlier mirrors have left."""
    shutil.rmtree(join(target, STAGING), ignore_errors=True)
