"""Finds a segment's largest timestamp without opening its indexes.

Retention needs the timestamps of thousands of segments that are not read otherwise: opening the
indexes would map two files of each and keep them open. The result is only used if the log confirms
it. Kafka opens the time index and does not check it.
"""

from struct import Struct

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.storage import scan
from ottla.storage.files.filenames import FileKind
from ottla.storage.files.log_file import LogFile
from ottla.storage.index import offset_index, time_index
from ottla.storage.index.time_index import NO_TIMESTAMP


def largest_without_indexes(
    file_system: FileSystem, base_offset: int, log: LogFile
) -> tuple[int, int] | None:
    """The largest timestamp in milliseconds, and its batch's last offset.

    An empty log opens no file, a short log is read whole, and for a longer one the last entry of
    the time index is read. `None` without an entry, or if the log does not confirm it. Raises
    `OSError`.
    """
    if not log.size:
        return NO_TIMESTAMP, base_offset
    if log.size <= scan.FIRST_CHUNK_SIZE:
        return _largest_of(log)
    stem = log.path.removesuffix(FileKind.LOG.value)
    try:
        last = _last_entry(file_system, stem + FileKind.TIME_INDEX.value, time_index.ENTRY)
        if not last:
            return None
        timestamp_ms, offset = last[0], base_offset + last[1]
        entry = _last_entry(file_system, stem + FileKind.OFFSET_INDEX.value, offset_index.ENTRY)
        if entry is None or not _is_batch_of(log, base_offset, entry, offset):
            return None
        found = scan.search_offset(log, offset, entry[1] if entry else 0)
    except (FileNotFoundError, CorruptionError):
        return None
    if found is None or found[1].max_timestamp_ms != timestamp_ms:
        return None
    return timestamp_ms, offset


def _largest_of(log: LogFile) -> tuple[int, int] | None:
    """The largest timestamp of whole batches, and the last offset of the first that has it."""
    largest: tuple[int, int] | None = None
    content = log.read(0, log.size)
    try:
        for _, batch in scan.batches(content, log.path, checks=(scan.checksum,)):
            timestamp_ms = batch.max_timestamp_ms
            if timestamp_ms > (largest[0] if largest else NO_TIMESTAMP):
                largest = timestamp_ms, batch.last_offset
    except CorruptionError:
        return None
    return largest


def _is_batch_of(log: LogFile, base_offset: int, entry: tuple[int, ...], offset: int) -> bool:
    """Whether an offset index entry points to a batch at or before `offset`; true if empty."""
    if not entry:
        return True
    indexed = base_offset + entry[0]
    header = scan.header_at(log, entry[1])
    return header is not None and base_offset <= header.last_offset <= indexed <= offset


def _last_entry(file_system: FileSystem, path: str, entry: Struct) -> tuple[int, ...] | None:
    """The last entry of an index file; empty without entries, `None` if it is not trimmed."""
    file = file_system.open(path)
    try:
        size = file.size()
        if size == 0:
            return ()
        content = file.pread(entry.size, max(0, size - entry.size))
    finally:
        file.close()
    is_trimmed = size % entry.size == 0 and any(content) and len(content) == entry.size
    return entry.unpack(content) if is_trimmed else None
