"""Batches that are whole but in the wrong place: no checksum covers a batch's base offset."""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.record.batch import Batch
from ottla.storage.damage_scan import DamagedRegion, ScannedBatch, offset_in_header


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBounds:
    """Where a segment's offsets may lie: from `start` to before `limit`; its log's `size`."""

    start: int
    limit: int
    size: int


def in_order(
    found: Iterator[ScannedBatch | DamagedRegion], bounds: SegmentBounds
) -> Iterator[ScannedBatch | DamagedRegion]:
    """Passes on what ascends; the rest becomes damage with the reason.

    When a batch does not come after the one before it, either can be the wrong one: see
    `_is_ahead`.
    """
    held: ScannedBatch | None = None
    last = bounds.start - 1
    for one in found:
        refused = one if isinstance(one, DamagedRegion) else _out_of_bounds(one, bounds)
        if refused is None and isinstance(one, ScannedBatch):
            first = offset_in_header(one.batch)
            if held is not None and _is_ahead(held.batch, last, first):
                yield _refused(held, bounds, f"the next batch begins at offset {first}")
                held = one
                continue
            before = last if held is None else held.batch.last_offset
            if first <= before:
                refused = _refused(one, bounds, f"offset {before} lies before it")
        if held is not None:
            yield held
            last, held = held.batch.last_offset, None
        if refused is not None:
            yield refused
        elif isinstance(one, ScannedBatch):
            held = one
    if held is not None:
        yield held


def _is_ahead(batch: Batch, last: int, following: int) -> bool:
    """Whether it is this batch that is wrong, between offset `last` and a batch at `following`.

    The two overlap, and the one behind would fit without this one, which lies ahead of it or has
    left a gap.
    """
    first = offset_in_header(batch)
    return last < following <= batch.last_offset and (following < first or first != last + 1)


def _out_of_bounds(one: ScannedBatch, bounds: SegmentBounds) -> DamagedRegion | None:
    if offset_in_header(one.batch) < bounds.start:
        return _refused(one, bounds, f"the segment begins at offset {bounds.start}")
    if one.batch.last_offset >= bounds.limit:
        return _refused(one, bounds, f"the segment ends before offset {bounds.limit}")
    return None


def _refused(one: ScannedBatch, bounds: SegmentBounds, reason: str) -> DamagedRegion:
    return DamagedRegion(
        position=one.position,
        size=one.batch.size,
        reason=f"a batch of {offsets_of(one.batch)} is out of place: {reason}",
        batch=one.batch,
        is_tail=one.end == bounds.size,
        is_misplaced=True,
    )


def offsets_of(batch: Batch) -> str:
    first, last = offset_in_header(batch), batch.last_offset
    return f"offset {last}" if first == last else f"offsets {first} to {last}"
