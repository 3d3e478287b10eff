"""A drawing of a partition's log: segments to scale, and important offsets, as numbers.

Texts are those of `ottla explain`. A template turns the numbers into SVG.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum

from ottla.base.times import second_text
from ottla.base.values import dataclass
from ottla.console.pages import Fields
from ottla.diagnosis.compaction import CompactionStatus
from ottla.diagnosis.words.compaction import bound_text, state_text, verdict_text
from ottla.diagnosis.words.retention import when_text, why_text
from ottla.storage.diagnosis.compaction_explanation import SegmentState
from ottla.storage.diagnosis.retention_explanation import ExplainedLog, ExplainedSegment
from ottla.storage.remote.lineage import Piece

WIDTH = 1000.0
MOST_SHAPES = 250
"""The maximum number of shapes; in longer logs neighbouring segments are merged."""
LEAST_WIDTH = 3.0


class Part(Enum):
    """The kind of a segment; the value is the class in the style sheet."""

    DELETABLE = "deletable"
    TIERED = "tiered"
    CLEAN = "clean"
    DIRTY = "dirty"
    WAITING = "waiting"
    """In a compacted topic, dirty but not to be compacted yet."""
    KEPT = "kept"
    ACTIVE = "active"


LEGEND = {
    Part.KEPT: "kept by retention",
    Part.CLEAN: "clean: compacted",
    Part.DIRTY: "dirty: would be compacted now",
    Part.WAITING: "dirty, not to be compacted yet",
    Part.DELETABLE: "deletable: goes at the next check",
    Part.TIERED: "tiered: in remote storage alone",
    Part.ACTIVE: "active: appended to",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A segment, or several neighbours of the same kind; positions are in drawing units."""

    part: str
    x: float
    width: float
    base_offset: int
    next_offset: int
    size: int
    segment_count: int
    goes: str
    why: str
    cleaning: str
    largest_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """An important offset, and its meaning."""

    name: str
    offset: int
    x: float
    meaning: str
    lane: int
    is_right: bool
    """Whether the label is left of the line, near the right edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    shapes: list[Shape]
    markers: list[Marker]
    size: int
    segment_count: int
    is_by_offset: bool

    def fields(self) -> Fields:
        return asdict(self)


MEANINGS = {
    "local start": "the first offset on this disk; what precedes it is in the remote tier",
    "end of the tier": "the remote tier has everything before it; what follows is only here",
    "log start": "the first offset that consumers may read; retention and delete-records move it",
    "cleaner point": "everything before it has been compacted; everything after it is dirty",
    "last stable offset": "read_committed consumers read up to here; an open transaction holds it",
    "high watermark": "consumers read up to here: all in-sync replicas have what comes before",
    "log end": "the offset of the next record",
}


def draw(
    explained: ExplainedLog,
    status: CompactionStatus | None,
    offsets: Mapping[str, int],
    now_ms: int,
    *,
    is_by_offset: bool = False,
    tiered: Sequence[Piece] = (),
) -> Picture:
    """Draws a log; `offsets` are the markers by their names in `MEANINGS`, and `tiered` is what
    lies in its tier before its first local segment.
    """
    cells = [*map(_tiered_cell, tiered), *_cells(explained, status, now_ms)]
    shapes = _placed(_joined(cells, is_by_offset), is_by_offset)
    return Picture(
        shapes=shapes,
        markers=_markers(offsets, shapes),
        size=sum(one.size for one in shapes),
        segment_count=len(cells),
        is_by_offset=is_by_offset,
    )


def _cells(explained: ExplainedLog, status: CompactionStatus | None, now_ms: int) -> "list[Shape]":
    cleaning = {}
    if status is not None and status.explanation.config.is_compacted:
        cleaning = {one.view.base_offset: one for one in status.explanation.segments}
    found = []
    for segment in explained.segments:
        verdict = segment.verdict
        judged = cleaning.get(verdict.base_offset)
        words = ""
        if judged is not None and status is not None:
            words = state_text(judged, status)
        found.append(
            Shape(
                part=_part(segment, None if judged is None else judged.state, explained).value,
                x=0.0,
                width=0.0,
                base_offset=verdict.base_offset,
                next_offset=verdict.next_offset,
                size=verdict.size,
                segment_count=1,
                goes=when_text(segment, now_ms),
                why=why_text(segment, explained),
                cleaning=words,
                largest_timestamp_ms=segment.time.timestamp_ms,
            )
        )
    return found


def _tiered_cell(piece: Piece) -> "Shape":
    segment = piece.segment
    copied = second_text(segment.event_timestamp_ms)
    return Shape(
        part=Part.TIERED.value,
        x=0.0,
        width=0.0,
        base_offset=piece.first_offset,
        next_offset=piece.last_offset + 1,
        size=segment.size,
        segment_count=1,
        goes="",
        why=f"in the remote tier alone; copied by broker {segment.broker_id} at {copied}",
        cleaning="",
        largest_timestamp_ms=segment.max_timestamp_ms,
    )


def _part(segment: ExplainedSegment, state: SegmentState | None, explained: ExplainedLog) -> Part:
    if segment.verdict.goes:
        return Part.DELETABLE
    if segment.verdict.is_active:
        return Part.ACTIVE
    if not explained.facts.config.is_compacted:
        return Part.KEPT
    match state:
        case SegmentState.CLEAN:
            return Part.CLEAN
        case SegmentState.DIRTY:
            return Part.DIRTY
        case _:
            return Part.WAITING


def _joined(cells: Sequence[Shape], is_by_offset: bool) -> list[Shape]:
    """Merges neighbours of the same kind if there are more than a screen shows."""
    if len(cells) <= MOST_SHAPES:
        return list(cells)
    least = sum(_extent(one, is_by_offset) for one in cells) / MOST_SHAPES
    found: list[Shape] = []
    for one in cells:
        last = found[-1] if found else None
        if last is None or last.part != one.part or _extent(last, is_by_offset) >= least:
            found.append(one)
            continue
        found[-1] = Shape(
            part=last.part,
            x=0.0,
            width=0.0,
            base_offset=last.base_offset,
            next_offset=one.next_offset,
            size=last.size + one.size,
            segment_count=last.segment_count + 1,
            goes=last.goes if last.goes == one.goes else f"{last.goes} … {one.goes}",
            why=one.why,
            cleaning=one.cleaning,
            largest_timestamp_ms=max(last.largest_timestamp_ms, one.largest_timestamp_ms),
        )
    return found


def _extent(one: Shape, is_by_offset: bool) -> float:
    return float(one.next_offset - one.base_offset if is_by_offset else one.size)


def _placed(cells: Sequence[Shape], is_by_offset: bool) -> list[Shape]:
    """Places shapes to scale, except that each is wide enough to be seen and clicked."""
    extents = [_extent(one, is_by_offset) for one in cells]
    total = sum(extents)
    least = min(LEAST_WIDTH, WIDTH / max(1, len(cells)))
    widths = [max(least, WIDTH * one / total) if total else WIDTH / len(cells) for one in extents]
    scale = WIDTH / sum(widths) if widths else 1.0
    found, x = [], 0.0
    for one, width in zip(cells, widths, strict=True):
        fields = {**asdict(one), "x": round(x, 2), "width": round(width * scale, 2)}
        found.append(Shape(**fields))
        x += width * scale
    return found


def _markers(offsets: Mapping[str, int], shapes: Sequence[Shape]) -> list[Marker]:
    placed = [(_x_of(offset, shapes), name, offset) for name, offset in offsets.items()]
    placed.sort(key=lambda one: (one[0], list(MEANINGS).index(one[1])))
    return [
        Marker(
            name=name,
            offset=offset,
            x=round(x, 2),
            meaning=MEANINGS[name],
            lane=lane,
            is_right=x > WIDTH * 0.6,
        )
        for lane, (x, name, offset) in enumerate(placed)
    ]


def _x_of(offset: int, shapes: Sequence[Shape]) -> float:
    """The position of an offset, interpolated within its segment."""
    if not shapes:
        return 0.0
    index = bisect_right([one.base_offset for one in shapes], offset) - 1
    if index < 0:
        return 0.0
    shape = shapes[index]
    span = max(1, shape.next_offset - shape.base_offset)
    return shape.x + shape.width * min(1.0, (offset - shape.base_offset) / span)


def remarks(explained: ExplainedLog, status: CompactionStatus | None, now_ms: int) -> list[str]:
    """The conclusions of the picture, as sentences."""
    goes = sum(one.verdict.goes for one in explained.segments)
    found = []
    if goes:
        verb = "goes" if goes == 1 else "go"
        found.append(f"{goes} of {len(explained.segments)} segments {verb} at the next check")
    else:
        due = [one.verdict.due_ms for one in explained.segments if one.verdict.due_ms is not None]
        if due and min(due) > now_ms:
            found.append(f"the oldest segment goes at {second_text(min(due))}")
    if status is not None and status.explanation.config.is_compacted:
        verdict, bound = verdict_text(status), bound_text(status)
        found.append(f"the log {verdict}")
        found += [] if bound in verdict else [bound]
    return found
