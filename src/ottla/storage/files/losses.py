"""Judges the gaps of a log: which are losses, and which are holes that a power failure has left.

Compaction and aborted appends leave gaps in offsets, and so may a follower. What is recorded of a
log (`integrity`) says which gaps can be neither. Recovery, readers and checks ask here. Kafka has
no counterpart: it continues after a gap.
"""

from collections.abc import Iterable

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY
from ottla.storage.findings import Finding, FindingKind, unreadable


@dataclass(frozen=True, slots=True)
class KnownLosses:
    """Which of the offsets that a log lacks are lost; compaction and aborts leave gaps too."""

    gapless_from: int | None = None
    """From this offset on every gap is a loss; `None` if unknown."""
    segments: tuple[tuple[int, int], ...] = ()
    """Missing segments: the base offset of each, and that of the next existing segment."""

    def within(self, start: int, end: int) -> tuple[int, int] | None:
        """Returns the range of lost offsets (end exclusive) in a gap between two batches."""
        lost = [] if self.gapless_from is None else [(max(start, self.gapless_from), end)]
        lost += [(max(start, first), min(end, last)) for first, last in self.segments]
        lost = [one for one in lost if one[0] < one[1]]
        if not lost:
            return None
        return min(first for first, _ in lost), max(last for _, last in lost)

    def before(self, path: str, position: int, gap: tuple[int, int]) -> Finding | None:
        """The finding about batches that are lost in a gap before a position of a log file."""
        lost = self.within(*gap)
        if lost is None:
            return None
        reason = "the batches before it are missing"
        return unreadable(FindingKind.LOST_OFFSETS, path, (position, position), reason, lost)


NO_LOSSES = KnownLosses()


def missing_front(
    begun: tuple[int, str] | None, path: str, first_offset: int, recorded_start: int
) -> Finding | None:
    """The finding about a log's first segment, at `path`, if those before it are lost.

    `begun` is where the log began, and the file that says so, if only Ottla has written the log.
    Retention has deleted what is before the recorded start.
    """
    if begun is None or max(begun[0], recorded_start) >= first_offset:
        return None
    reason = f"the segments before it are missing: {begun[1]} begins at offset {begun[0]}"
    lost = max(begun[0], recorded_start), first_offset
    return unreadable(FindingKind.LOST_OFFSETS, path, (0, 0), reason, lost)


def lost_end(path: str, end_offset: int, *, listed: int, written: int) -> Finding | None:
    """The finding about a log that ends before what Ottla's own files say.

    `listed` is its least end with the segments that the integrity file lists, `written` its end by
    the boot note; 0 if unknown. Callers make sure that no power failure can have taken the end.
    """
    end = max(listed, written)
    if end <= end_offset:
        return None
    reason = f"ends at offset {end_offset}, but {BOOT_NOTE} says that it was written to {written}"
    if listed > written:
        reason = f"its last segments are missing, though {INTEGRITY} lists them"
    reason += f": offsets {end_offset} to {end - 1} are lost"
    return Finding(kind=FindingKind.LOST_OFFSETS, path=path, position=None, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentGap:
    """Offsets that are missing before a segment."""

    before: int
    """The base offset of the segment before."""
    end_offset: int
    """The offset after its last batch, which is the first that is missing."""
    base_offset: int
    """That of the segment after the gap."""
    last_offset: int | None
    """The last offset of that segment's first batch, if that has a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnflushedGaps:
    """Judges the gaps after the recovery point of a log that was not stopped cleanly.

    A power failure can drop the last writes to one file at the end of a batch, so that the segment
    looks sound, and keep the next file. Such a log ends at the hole. Kafka does not check.
    """

    recovery_point: int
    tight_from: int
    """Each segment with a larger base offset began where the one before it ended."""
    log_start_offset: int
    """Before it segments may be missing: retention deletes them, and a crash may undo some of the
    deletions."""
    is_same_boot: bool
    """Whether the system still runs: what is missing was there then, and is a loss."""

    def hole(self, path: str, gap: SegmentGap, wrong_files: Iterable[int]) -> Finding | None:
        """The finding about the first segment after a hole, at `path`, or `None` for another gap.

        `wrong_files` are the base offsets of files that belong to other segments.
        """
        if not self._is_hole(gap, wrong_files):
            return None
        reason = f"offsets {gap.end_offset} to {gap.base_offset - 1} are missing before it"
        return Finding(kind=FindingKind.GAP, path=path, position=None, reason=reason)

    def _is_hole(self, gap: SegmentGap, wrong_files: Iterable[int]) -> bool:
        exempt = max(self.recovery_point, self.tight_from, self.log_start_offset)
        if self.is_same_boot or gap.base_offset <= exempt:
            return False
        if any(gap.before <= one for one in wrong_files):
            return False  # the right file may be put back in place of the wrong one
        # A first batch that the segment before could not have indexed comes from a split segment.
        return gap.last_offset is None or gap.last_offset - gap.before <= INT32_MAX
