"""Where a log that is only read begins and ends, by its files and what is recorded about them.

A tail that a crash has torn is skipped: the log ends before it. Lost offsets at either end count as
the log's (`read_damage`, `lost_offsets`). Kafka has no counterpart.
"""

from contextlib import closing
from dataclasses import replace
from functools import cached_property

from ottla.storage.damage_scan import is_torn_append
from ottla.storage.files.filenames import CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_RECOVERY_POINT
from ottla.storage.files.integrity import NOTHING_KNOWN
from ottla.storage.findings import Finding
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.reading.lost_offsets import lost_front
from ottla.storage.reading.read_damage import (
    LogTail,
    SegmentPlace,
    damaged_tail,
    lost_segments,
    place_of,
    tail_at,
)
from ottla.storage.segment.segment_reader import SegmentReader


class OffsetsOnDisk:
    """The offsets of one log; raises `CorruptionError` for damaged checkpoints."""

    def __init__(self, facts: LogFacts) -> None:
        self._facts = facts

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is flushed; the log's end after a clean shutdown."""
        if self._facts.directory.was_stopped_cleanly:
            return self.log_end_offset
        return min(self.log_end_offset, self._facts.checkpointed(CHECKPOINT_RECOVERY_POINT))

    @cached_property
    def log_start_offset(self) -> int:
        lost = self.lost_front()
        facts = self._facts
        return lost.from_offset if lost else max(facts.listed.first_offset, facts.recorded_start)

    def look_for_start(self) -> int:
        """The log's start by the segments as they are listed now."""
        self.__dict__.pop("log_start_offset", None)
        return self.log_start_offset

    def lost_front(self) -> Finding | None:
        """The damage at the log's start, if its first segments are missing."""
        facts = self._facts
        if facts.listed.first_offset <= facts.recorded_start:
            return None  # and a directory of many partitions is not asked for each one's topic
        return lost_front(
            facts.file_system,
            facts.path,
            facts.listed.first_offset,
            facts.recorded_start,
            is_same_boot=facts.directory.is_same_boot,
            is_tiered=facts.directory.is_tiered(facts.topic),
        )

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch that the log must hold, readable or not."""
        return self.tail.end_offset

    @property
    def readable_end_offset(self) -> int:
        """The log end offset, or the first offset of damage at the end of the log."""
        damage = self.tail.damage
        return self.log_end_offset if damage is None else damage.from_offset

    @cached_property
    def tail(self) -> LogTail:
        tail = self._look_at_tail()
        if tail.damage is not None:
            self._facts.look_again()
            tail = self._look_at_tail()
        return tail

    def _look_at_tail(self) -> LogTail:
        facts = self._facts
        tail = self._tail_of_files()
        known = facts.integrity if facts.known_end.is_complete else None
        missing = known.end_of_missing(facts.segments.base_offsets) if known else 0
        if missing <= tail.end_offset:
            return tail
        path, size = facts.listed.end_of_files
        lost = lost_segments(path, size, tail.end_offset, missing)
        return LogTail(end_offset=missing, damage=tail.damage or lost)

    def _tail_of_files(self) -> LogTail:
        facts, known = self._facts, self._facts.known_end
        reader = facts.listed.open_last()
        if reader is None:
            return tail_at(self.log_start_offset, known, facts.path, 0)
        with closing(reader):
            tail = reader.tail()
            is_damaged = not tail.is_whole and not is_torn_append(
                reader.log.reader(),
                reader.base_offset,
                tail.position,
                is_complete=known.is_complete,
            )
            if is_damaged or known.is_contradicted_by(tail):
                return damaged_tail(reader, self.place(reader), self.log_start_offset)
            least = max(self.log_start_offset, facts.listed.files.least_end_offset)
            return tail_at(max(tail.end_offset, least), known, reader.log.path, reader.log.size)

    def place(self, reader: SegmentReader) -> SegmentPlace:
        """The bounds of an open segment in its log."""
        place = place_of(reader.files, self._facts.listed.files, self._facts.known_end)
        size = self._size_before(reader) if place.recorded is None else 0
        return replace(place, size=size) if size else place

    def _size_before(self, reader: SegmentReader) -> int:
        """The recorded size of a log file that is now shorter; otherwise 0."""
        facts = self._facts
        size = 0
        for _ in range(2):
            known = facts.integrity.segments if facts.integrity else {}
            size = known.get(reader.base_offset, NOTHING_KNOWN).size or 0
            if reader.log.size >= size:
                return 0
            status = facts.file_system.status(reader.files.log_path)
            if status is None or status.size >= size:
                return 0
            # Compaction may have replaced the segment and its recorded facts.
            facts.forget_integrity()
        return size

    @cached_property
    def high_watermark(self) -> int:
        """Records before this offset are replicated; a lower bound while a broker is running.

        A broker checkpoints its high watermarks every five seconds, so the value lags while it is
        running or after it was killed. After a clean shutdown it is the log end offset, and for an
        Ottla broker of a cluster the checkpoint, which is then exact.
        """
        directory = self._facts.directory
        if directory.was_stopped_cleanly and not directory.has_replicas:
            return self.log_end_offset
        checkpointed = self._facts.checkpointed(CHECKPOINT_HIGH_WATERMARK)
        # Nothing is copied that could still be lost.
        tiered = directory.tiered_end(self._facts.topic, self._facts.partition)
        return min(max(self.log_start_offset, checkpointed, tiered), self.log_end_offset)
