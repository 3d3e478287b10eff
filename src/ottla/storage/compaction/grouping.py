"""Groups adjacent segments that fit into one, so that compaction leaves fewer small segments.

Kafka's counterpart: `Cleaner.groupSegmentsBySize`.
"""

from collections.abc import Sequence

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSource:
    """A segment to be compacted, as of the plan; sizes in bytes.

    If `is_damaged`, the segment could not be read, and is left unchanged.
    """

    base_offset: int
    size: int
    offset_index_size: int
    time_index_size: int
    modified_ms: int
    is_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The largest log and index of a compacted segment, in bytes."""

    segment_bytes: int
    segment_index_bytes: int


def group_segments(
    sources: Sequence[SegmentSource], limits: GroupLimits, end_offset: int
) -> list[list[SegmentSource]]:
    """Groups adjacent segments by size and offset range; leaves out damaged segments.

    The last source ends at `end_offset`.
    """
    if not sources:
        return []
    ends = [*(source.base_offset for source in sources[1:]), end_offset]
    groups: list[list[SegmentSource]] = []
    group: _Group | None = None
    for source, end in zip(sources, ends, strict=True):
        if source.is_damaged:
            group = None
            continue
        if group is None or not group.has_room(source, end, limits):
            group = _Group([])
            groups.append(group.sources)
        group.add(source)
    return groups


@dataclass(slots=True)
class _Group:
    """The adjacent segments collected so far, with their total sizes."""

    sources: list[SegmentSource]
    size: int = 0
    offset_index_size: int = 0
    time_index_size: int = 0

    def has_room(self, source: SegmentSource, end: int, limits: GroupLimits) -> bool:
        return (
            self.size + source.size <= limits.segment_bytes
            and self.offset_index_size + source.offset_index_size <= limits.segment_index_bytes
            and self.time_index_size + source.time_index_size <= limits.segment_index_bytes
            # An empty segment has no offsets to check; it would never be merged otherwise.
            and (source.size == 0 or end - 1 - self.sources[0].base_offset <= INT32_MAX)
        )

    def add(self, source: SegmentSource) -> None:
        self.sources.append(source)
        self.size += source.size
        self.offset_index_size += source.offset_index_size
        self.time_index_size += source.time_index_size
