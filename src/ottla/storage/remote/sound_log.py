"""Whether a log is whole before it is copied to a tier: then local retention may delete it.

Kafka copies what is on the disk without looking at it, and so its consumers find the damage when no
whole copy is left.
"""

from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import File, FileSlice
from ottla.codec.crc32c import checksum_function
from ottla.record import header_walk
from ottla.record.layout import LENGTH_END, OFFSET_AND_LENGTH
from ottla.storage.damage_scan import DamagedRegion, scan_segment

PART_SIZE: Final = 1 << 18
"""Bytes in memory at a time, unless a batch is larger; other threads wait for one half a
millisecond.
"""


def check_log(log: FileSlice, base_offset: int, until_offset: int) -> None:
    """Raises `CorruptionError` for the first batch of a segment whose checksum is wrong, or whose
    offsets are out of place, and `OSError`. The segment ends before `until_offset`.
    """
    if log.position + log.size > log.file.size():
        reason = f"the file ends here, and had {log.size} bytes"
        raise CorruptionError(log.file.path, log.file.size(), reason)
    if header_walk.IS_COMPILED and _is_plain(log, base_offset, until_offset):
        return
    end = log.position + log.size
    for one in scan_segment(log.file, base_offset, until_offset):
        if one.position >= end:
            return
        if isinstance(one, DamagedRegion):
            raise CorruptionError(log.file.path, one.position, one.reason)


def _is_plain(log: FileSlice, offset: int, until_offset: int) -> bool:
    """Whether a log is v2 batches that follow each other up to an offset, all with the right
    checksum; of all others `scan_segment` says what they are, in more steps.
    """
    file, position, end = log.file, log.position, log.position + log.size
    checksum = checksum_function()
    while position < end:
        data = _part(file, position, end)
        size, offset = header_walk.following(data, offset, until_offset + 1)
        if not len(header_walk.find_headers(data, 0, size, checksum)):
            return False
        position += size
    return offset == until_offset


def _part(file: File, position: int, end: int) -> bytes:
    """One whole batch, or several."""
    data = file.pread(min(PART_SIZE, end - position), position)
    if len(data) >= OFFSET_AND_LENGTH.size:
        _, length = OFFSET_AND_LENGTH.unpack_from(data)
        if len(data) < length + LENGTH_END <= end - position:
            return file.pread(length + LENGTH_END, position)
    return data
