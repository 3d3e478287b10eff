"""Damage in a log that a reader finds: the lost offsets, and the sound batches after it.

A crash tears only batches that were not flushed. A bad batch below the recovery point, or anywhere
after a clean shutdown, is damage, and so is a log that ends before its recorded end. A reader
raises at damage or, if asked to, skips and reports it. Kafka's tools (`kafka-dump-log`) end at the
first bad batch.
"""

from collections.abc import Iterator

from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError
from ottla.storage.damage_scan import (
    MAX_OFFSETS,
    DamagedRegion,
    ScannedBatch,
    is_torn_append,
    scan_segment,
)
from ottla.storage.files.filenames import (
    BOOT_NOTE,
    CHECKPOINT_RECOVERY_POINT,
    INTEGRITY,
    FileSuffix,
)
from ottla.storage.findings import Finding, FindingKind, unreadable
from ottla.storage.scan import first_offset_in_header
from ottla.storage.segment.partition_files import (
    PartitionFiles,
    SegmentFiles,
)
from ottla.storage.segment.segment_reader import SegmentReader, SegmentTail


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """The recorded end of a log, read from the log directory before its files were listed."""

    was_stopped_cleanly: bool
    recovery_point: int
    """All batches before this offset were flushed, or were written if that is known. If the
    recovery point is lost, the end of the log by another checkpoint; 0 if nothing is recorded."""
    end_offset: int | None
    """The log's end offset if it is certain: a clean shutdown flushes everything."""
    is_complete: bool = False
    """Whether all that was written has to be there, so that only the last append can be torn."""
    witness: str = CHECKPOINT_RECOVERY_POINT
    """The file that states `recovery_point`."""

    def is_contradicted_by(self, tail: SegmentTail) -> bool:
        """Whether the last segment is torn or too long in a way that no crash explains.

        A sound segment that ends too early is left to `tail_at`.
        """
        if not tail.is_whole:
            return self.was_stopped_cleanly or tail.end_offset < self.recovery_point
        return self.end_offset is not None and tail.end_offset > self.end_offset


def known_end(
    *,
    was_stopped_cleanly: bool,
    recovery_point: int,
    high_watermark: int | None,
    reached: int = 0,
    written: int = 0,
    is_complete: bool = False,
) -> KnownEnd:
    """Combines the recovery point and the high watermark checkpoint.

    A broker writes both when it stops, and neither is ever ahead of the log. If they differ after a
    clean shutdown, one may have been damaged, and the end is not certain. `reached` is the log's
    end by another checkpoint if the recovery point is lost, and `written` as of its last write.
    """
    least = recovery_point if high_watermark is None else min(recovery_point, high_watermark)
    is_sure = was_stopped_cleanly and high_watermark in (None, recovery_point)
    is_written_later = written > max(least, reached)
    return KnownEnd(
        was_stopped_cleanly=was_stopped_cleanly,
        recovery_point=max(least, reached, written),
        end_offset=least if is_sure and least else None,
        is_complete=is_complete,
        witness=BOOT_NOTE if is_written_later else CHECKPOINT_RECOVERY_POINT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """Where a log ends, counting recorded offsets that cannot be read."""

    end_offset: int
    damage: Finding | None = None
    """The first damage of the last segment, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlace:
    """The bounds of a segment in its log.

    Its batches end before offset `limit`: the base offset of the next segment, unless that is
    being replaced. `recorded` is set for the last segment only.
    """

    limit: int
    recorded: KnownEnd | None
    size: int = 0
    """The recorded size of a log file that is now shorter; otherwise 0."""


def place_of(segment: SegmentFiles, files: PartitionFiles, known: KnownEnd) -> SegmentPlace:
    """The bounds of a segment among the listed ones."""
    farthest = segment.base_offset + MAX_OFFSETS
    following = files.segments.index_of(segment.base_offset) + 1
    if following < len(files.segments):
        # The segments that a `.swap` file replaces may still be listed beside it.
        is_replacing = segment.log_path.endswith(FileSuffix.SWAP.value)
        limit = farthest if is_replacing else files.segments.base_offsets[following]
        return SegmentPlace(limit=limit, recorded=None)
    if files.least_end_offset:
        return SegmentPlace(limit=files.least_end_offset, recorded=None)
    end = known.end_offset
    return SegmentPlace(limit=farthest if end is None else end, recorded=known)


def tail_at(end_offset: int, known: KnownEnd, path: str, size: int) -> LogTail:
    """The tail of a log whose last segment is sound; batches after it may still be lost."""
    due = known.recovery_point
    if end_offset >= due:
        return LogTail(end_offset=end_offset)
    return LogTail(end_offset=due, damage=_shortened(path, size, end_offset, known))


def damaged_tail(reader: SegmentReader, place: SegmentPlace, log_start_offset: int) -> LogTail:
    """The tail of a log whose last segment is damaged."""
    first: Finding | None = None
    recorded = place.recorded.recovery_point if place.recorded else place.limit
    end = max(log_start_offset, reader.base_offset, recorded)
    for one in stretches(reader, place):
        if isinstance(one, Finding):
            first = first or one
            end = max(end, one.until_offset)
        else:
            end = max(end, one.batch.last_offset + 1)
    return LogTail(end_offset=end, damage=first)


def stretches(reader: SegmentReader, place: SegmentPlace) -> Iterator[ScannedBatch | Finding]:
    """All sound batches of a segment in order, and the damage between them.

    A tail that a crash may have torn is not damage, and is skipped.
    """
    base = reader.files.base_offset
    file = reader.log.reader()
    size = file.size()
    held: DamagedRegion | None = None
    next_offset = base
    for one in scan_segment(file, base, place.limit):
        if isinstance(one, DamagedRegion):
            held = held or one
            continue
        if held is not None:
            yield _damage(reader, held, one.position, (next_offset, _first_offset(one.batch)))
            held = None
        yield one
        next_offset = one.batch.last_offset + 1
    if place.recorded is None:
        if held is not None:
            yield _damage(reader, held, size, (next_offset, place.limit))
        elif place.size:
            yield cut_short(reader, place, next_offset)
        return
    until = place.recorded.recovery_point
    if (
        held is not None
        and place.recorded.is_complete
        and not place.recorded.was_stopped_cleanly
        and not is_torn_append(file, base, held.position, is_complete=True)
    ):
        until = max(until, held.stated_end(next_offset))
    if held is not None and (place.recorded.was_stopped_cleanly or next_offset < until):
        yield _damage(reader, held, size, (next_offset, until))
    elif next_offset < until:
        yield _shortened(reader.log.path, size, next_offset, place.recorded)


def cut_short(reader: SegmentReader, place: SegmentPlace, end_offset: int) -> Finding:
    """The damage of a segment that is not the last and has lost its end."""
    size = reader.log.size
    return unreadable(
        FindingKind.LOST_OFFSETS,
        reader.log.path,
        (size, size),
        f"the file has {size} bytes instead of {place.size}",
        (end_offset, place.limit),
    )


def _shortened(path: str, size: int, end_offset: int, known: KnownEnd) -> Finding:
    """The damage of a log that ends between two batches, but before its recorded end."""
    return unreadable(
        FindingKind.LOST_OFFSETS,
        path,
        (size, size),
        (
            f"the log ends at offset {end_offset}, and {known.witness} says that it "
            f"reached at least to offset {known.recovery_point}"
        ),
        (end_offset, known.recovery_point),
    )


def lost_segments(path: str, size: int, end_offset: int, until_offset: int) -> Finding:
    """The damage of a log whose last segments are gone, after the last file or the directory."""
    return unreadable(
        FindingKind.LOST_OFFSETS,
        path,
        (size, size),
        f"the segments after it are missing, though {INTEGRITY} lists them",
        (end_offset, until_offset),
    )


def _damage(
    reader: SegmentReader, region: DamagedRegion, end: int, offsets: tuple[int, int]
) -> Finding:
    return unreadable(
        FindingKind.LOG_DAMAGE,
        reader.log.path,
        (region.position, end),
        region.reason,
        offsets,
    )


def _first_offset(batch: Batch) -> int:
    try:
        return batch.base_offset
    except InvalidBatchError:
        return first_offset_in_header(batch)
