"""Reads short segments that are as they should be: of ten thousand, opening each would cost most.

Each is read at once and compared with all that is known about it. A segment in which anything is
unusual is left to `SegmentReader`, which says what is wrong. Kafka has no counterpart.
"""

from collections.abc import Iterator
from itertools import islice, pairwise

from ottla.record.batch import Batch, batch_at
from ottla.record.layout import HEADER_SIZE, LENGTH_END, struct_of
from ottla.storage.files.filenames import LOG_END
from ottla.storage.files.integrity import NOTHING_KNOWN, SegmentFacts
from ottla.storage.reading.listed_segments import Cursor
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.storage.segment.segment_reader import Region

WHOLE_SIZE = 64 * 1024
"""Up to this size in bytes a segment is read at once."""

_STEP = struct_of("base_offset", "length", "magic", "crc", "last_offset_delta")


class ShortSegments:
    """The short segments of one log."""

    def __init__(self, facts: LogFacts) -> None:
        self._facts = facts

    def regions(self, cursor: Cursor, until_offset: int) -> Iterator[Region]:
        """A region for each segment that begins at the cursor and is short, sound and followed by
        another up to `until_offset`; the cursor moves on behind each. CRCs are not checked.
        """
        listed = self._facts.listed
        segments = listed.values
        index = listed.index_of(cursor.offset)
        if index < 0 or segments[index].base_offset != cursor.offset:
            return
        integrity = self._facts.integrity
        known = integrity.segments if integrity else {}
        for segment, after in pairwise(islice(segments, index, None)):
            following = after.base_offset
            if following > until_offset:
                return
            facts = known.get(segment.base_offset, NOTHING_KNOWN)
            data = self._sound(segment, facts, following)
            if data is None:
                return
            yield Region(segment.log_path, 0, memoryview(data), following)
            cursor.offset = following

    def headers(self, cursor: Cursor, until_offset: int) -> Iterator[Batch]:
        """The batches of the same segments, with their payload. Those with control batches are left
        out, whose checksums matter.
        """
        for region in self.regions(cursor, until_offset):
            position = 0
            found = []
            while position < len(region.data):
                found.append(batch_at(region.data, position))
                position += found[-1].size
            if any(batch.is_control for batch in found):
                return
            yield from found

    def _sound(self, segment: SegmentFiles, known: SegmentFacts, until_offset: int) -> bytes | None:
        """The whole batches of a segment that ends at `until_offset`; `None` for any other."""
        if segment.size > WHOLE_SIZE or not segment.log_path.endswith(LOG_END):
            return None
        try:
            data = self._facts.file_system.read_start(segment.log_path, segment.size)
        except OSError:
            return None
        end = len(data)
        if known.size not in (None, end):
            return None
        position, due = 0, segment.base_offset
        while position + HEADER_SIZE <= end:
            offset, length, magic, crc, delta = _STEP.unpack_from(data, position)
            size = length + LENGTH_END
            is_other = not position and known.first_checksum not in (None, crc)
            if magic != 2 or offset != due or delta < 0 or size < HEADER_SIZE or is_other:
                return None
            position += size
            due += delta + 1
        return data if position == end and due == until_offset else None
