"""Compares the integrity file's facts about a segment with the segment's files.

Format page: docs/format/ottla-integrity.md. Kafka has no counterpart: a `.log` file does not say
which log it belongs to.
"""

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join
from ottla.storage import scan
from ottla.storage.files.filenames import FileKind, FileName, FileSuffix
from ottla.storage.files.integrity import (
    NOTHING_KNOWN,
    Integrity,
    SegmentFacts,
    checksum_of,
)
from ottla.storage.files.log_file import LogFile
from ottla.storage.files.losses import KnownLosses
from ottla.storage.findings import Finding, FindingKind

if TYPE_CHECKING:
    from ottla.storage.segment.segment import Segment


def segment_facts(file_system: FileSystem, log: LogFile, index_path: str) -> SegmentFacts:
    """The facts about the current log file and transaction index."""
    return SegmentFacts(
        first_checksum=first_checksum(log),
        aborted=checksum_of(file_system, index_path),
        size=log.size,
    )


def cleaned_facts(file_system: FileSystem, directory: str, base_offset: int) -> SegmentFacts:
    """The facts about a segment that compaction has written, and not yet put in place."""
    name = FileName(offset=base_offset, kind=FileKind.LOG, suffix=FileSuffix.CLEANED)
    with closing(file_system.open(join(directory, name.text))) as file:
        log = LogFile(file_system, file, file.size())
        return SegmentFacts(first_checksum=first_checksum(log), size=log.size)


def first_checksum(log: LogFile) -> int | None:
    """The CRC in the header of the first batch; `None` without a batch."""
    first = scan.header_at(log, 0)
    return None if first is None else first.crc


def wrong_file(log: LogFile, facts: SegmentFacts) -> Finding | None:
    """The finding about a log file that begins with a sound batch other than the recorded one.

    A first batch that is damaged is left to the checks of its own CRC.
    """
    found = first_checksum(log)
    was_empty = facts.size == 0
    is_known = was_empty or facts.first_checksum is not None
    if not is_known or found is None or found == facts.first_checksum:
        return None
    try:
        scan.sound_batch(log, 0)
    except CorruptionError:
        return None
    had = "it was empty" if was_empty else f"had {facts.first_checksum:08x}"
    return Finding(
        kind=FindingKind.WRONG_FILE,
        path=log.path,
        position=0,
        reason=f"its first batch has checksum {found:08x}, and {had}: this is the file of another "
        "segment; put the right one in its place",
    )


def known_losses(
    integrity: Integrity, segments: Sequence["Segment"], cleaned_until: int
) -> KnownLosses:
    """The lost parts of a log: missing segments and truncated ones."""
    known = integrity.losses((one.base_offset for one in segments), cleaned_until)
    cut = []
    for segment, following in pairwise(segments):
        size = integrity.segments.get(segment.base_offset, NOTHING_KNOWN).size
        if size is not None and segment.log.size < size:
            # If the segment's end is unreadable, reads report the damage.
            with suppress(CorruptionError):
                cut.append((segment.next_offset(), following.base_offset))
    return replace(known, segments=(*known.segments, *cut)) if cut else known
