"""What is damaged or lost in a log that is only read, and the errors that reads raise for it."""

from collections.abc import Iterator
from contextlib import closing
from typing import NoReturn

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.storage.damage_scan import ScannedBatch
from ottla.storage.files.integrity import NOTHING_KNOWN
from ottla.storage.findings import Finding, repair_hint, unreadable
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.reading.lost_offsets import Gaps
from ottla.storage.reading.offsets import OffsetsOnDisk
from ottla.storage.reading.read_damage import SegmentPlace, cut_short, stretches
from ottla.storage.segment.segment_facts import first_checksum, wrong_file
from ottla.storage.segment.segment_reader import SegmentReader


class DamageOnDisk:
    """The damage of one log: errors for those who stop at it, reports for those who skip it."""

    def __init__(self, facts: LogFacts, offsets: OffsetsOnDisk) -> None:
        self._facts = facts
        self._offsets = offsets
        self.gaps = Gaps(facts.file_system, facts.path, facts.cleaned_until)

    def lost_parts(self) -> Iterator[Finding]:
        """The lost parts of the log that are found without reading its batches."""
        front, tail = self._offsets.lost_front(), self._offsets.tail.damage
        yield from () if front is None else (front,)
        yield from self.gaps.lost_segments()
        yield from () if tail is None else (tail,)

    # Errors

    def error_at(self, path: str, position: int, reason: str) -> CorruptionError:
        """The error for a bad batch that was read from a log file."""
        error = CorruptionError(path, position, reason)
        for segment in self._facts.segments:
            if segment.log_path == path:
                try:
                    with closing(SegmentReader(self._facts.file_system, segment)) as reader:
                        return self.located(error, reader)
                except FileNotFoundError:
                    return error
        return error

    def located(self, error: CorruptionError, reader: SegmentReader) -> CorruptionError:
        """The error with the unreadable offsets and the repair commands in its reason."""
        for one in stretches(reader, self._offsets.place(reader)):
            if isinstance(one, Finding) and one.end > error.position:
                return one.error()
        reason = f"{error.reason}; {repair_hint(self._facts.directory.path)}"
        return CorruptionError(error.path, error.position, reason)

    def check_size(
        self, reader: SegmentReader, end_offset: int, place: SegmentPlace | None = None
    ) -> None:
        """Raises `CorruptionError` if a segment that was read to its end has lost its tail.

        `place` is the segment's place, if it is known already.
        """
        place = place or self._offsets.place(reader)
        if place.size and end_offset < place.limit:
            raise cut_short(reader, place, end_offset).error()

    def check_reached(self, until_offset: int) -> None:
        """Raises `CorruptionError` if a range reaches damage at the log's end."""
        damage = self._offsets.tail.damage
        if damage is not None and until_offset >= damage.from_offset:
            raise damage.error()

    def raise_missing(self, offset: int) -> NoReturn:
        """Raises the error for an offset that no segment holds: it is lost, or was deleted."""
        lost = self._offsets.lost_front()
        if lost is not None and offset >= lost.from_offset:
            raise lost.error()
        raise self.out_of_range(offset)

    def out_of_range(self, offset: int) -> ApiError:
        facts, offsets = self._facts, self._offsets
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in {facts.path}, which has "
            f"{max(facts.listed.first_offset, offsets.log_start_offset)} to "
            f"{offsets.log_end_offset}",
        )

    # Reports

    def report_front(self, from_offset: int) -> int:
        """Reports lost first segments; returns where a read that skips them begins."""
        lost = self._offsets.lost_front()
        if lost is None or from_offset >= lost.until_offset:
            return from_offset
        self._facts.directory.report(lost)
        return lost.until_offset

    def report_gap(self, path: str, found: ScannedBatch, due_offset: int) -> None:
        """Reports the batches that are missing before one that was found, if they are lost."""
        batch = found.batch
        if batch.magic < 2 or batch.base_offset <= due_offset:
            return
        damage = self.gaps.damage(path, found.position, (due_offset, batch.base_offset))
        if damage is not None:
            self._facts.directory.report(damage)

    def report_end(self, until_offset: int) -> None:
        """Reports damage at the log's end if a range reaches it."""
        damage = self._offsets.tail.damage
        if damage is not None and (not self._facts.segments or until_offset >= damage.from_offset):
            self._facts.directory.report(damage)

    # Files of other logs

    def is_of_this_log(self, reader: SegmentReader) -> bool:
        """Whether a segment's first batch matches its recorded checksum.

        On a mismatch raises `CorruptionError`, or reports the damage if damage is skipped.
        """
        facts = self._facts
        found = self._wrong_file(reader)
        if found is not None:
            # Compaction may have replaced the segment and its recorded facts.
            facts.forget_integrity()
            found = self._wrong_file(reader)
        if found is None or self._is_replaced(reader):
            return True
        if not facts.directory.steps_over_damage:
            raise CorruptionError(found.path, 0, found.reason)
        facts.directory.report(
            unreadable(
                found.kind,
                found.path,
                (0, reader.log.size),
                found.reason,
                (reader.files.base_offset, self._offsets.place(reader).limit),
            )
        )
        return False

    def _is_replaced(self, reader: SegmentReader) -> bool:
        """Whether the file name of an open segment now belongs to another file.

        The recorded facts are then about the new file; the open file is still valid to read.
        """
        try:
            now = SegmentReader(self._facts.file_system, reader.files)
        except FileNotFoundError:
            return True
        try:
            return first_checksum(now.log) != first_checksum(reader.log)
        finally:
            now.close()

    def _wrong_file(self, reader: SegmentReader) -> Finding | None:
        integrity = self._facts.integrity
        if integrity is None:
            return None
        facts = integrity.segments.get(reader.files.base_offset, NOTHING_KNOWN)
        return wrong_file(reader.log, facts)
