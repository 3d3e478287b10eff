"""Reads short segments that are as they should be: of ten thousand, opening each would cost most.

Each is read at once and compared with all that is known about it. A segment in which anything is
unusual is left to `SegmentReader`, which says what is wrong. Kafka has no counterpart.
"""

from collections.abc import Iterator

from ottla.base.files import join
from ottla.record.batch import Batch, batch_at
from ottla.record.layout import HEADER_SIZE, LENGTH_END, struct_of
from ottla.storage.files.filenames import LOG_END
from ottla.storage.files.integrity import NOTHING_KNOWN, SegmentFacts
from ottla.storage.reading.listed_segments import Cursor
from ottla.storage.reading.log_facts import LogFacts
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
        segments = self._facts.listed.values
        offsets, names, sizes = segments.base_offsets, segments.names, segments.sizes
        index = segments.index_of(cursor.offset)
        if index < 0 or offsets[index] != cursor.offset:
            return
        integrity = self._facts.integrity
        known = integrity.segments if integrity else {}
        start = join(segments.directory, "")
        for at in range(index, len(offsets) - 1):
            following = offsets[at + 1]
            is_short = sizes[at] <= WHOLE_SIZE and names[at].endswith(LOG_END)
            if not is_short or following > until_offset:
                return
            path, span = start + names[at], (cursor.offset, following)
            data = self._sound(path, sizes[at], span, known.get(cursor.offset, NOTHING_KNOWN))
            if data is None:
                return
            yield Region(path, 0, memoryview(data), following)
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

    def _sound(
        self, path: str, size: int, offsets: tuple[int, int], known: SegmentFacts
    ) -> bytes | None:
        """The whole batches of a segment that has these offsets; `None` for any other."""
        try:
            data = self._facts.file_system.read_start(path, size)
        except OSError:
            return None
        due, until_offset = offsets
        end = len(data)
        if known.size not in (None, end):
            return None
        position = 0
        while position + HEADER_SIZE <= end:
            offset, length, magic, crc, delta = _STEP.unpack_from(data, position)
            size = length + LENGTH_END
            is_other = not position and known.first_checksum not in (None, crc)
            if magic != 2 or offset != due or delta < 0 or size < HEADER_SIZE or is_other:
                return None
            position += size
            due += delta + 1
        return data if position == end and due == until_offset else None
