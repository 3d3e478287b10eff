"""Groups neighbouring segments that fit into one, so that compaction does not leave many tiny
segments.

Kafka's counterpart: `Cleaner.groupSegmentsBySize`.
"""

from collections.abc import Sequence

from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSource:
    """A segment to be compacted, as it was when the plan was made; sizes in bytes.

    `is_damaged`: the segment could not be read, and is left unchanged.
    """

    base_offset: int
    size: int
    offset_index_size: int
    time_index_size: int
    modified_ms: int
    is_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """What a compacted segment may be: bytes of its log, and of each index."""

    segment_bytes: int
    segment_index_bytes: int


def group_segments(
    sources: Sequence[SegmentSource], limits: GroupLimits, end_offset: int
) -> list[list[SegmentSource]]:
    """Groups neighbours while their sizes and offset range allow it; leaves out damaged segments.

    `end_offset` is where the last source ends.
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
    """The neighbours collected so far, with their total sizes."""

    sources: list[SegmentSource]
    size: int = 0
    offset_index_size: int = 0
    time_index_size: int = 0

    def has_room(self, source: SegmentSource, end: int, limits: GroupLimits) -> bool:
        return (
            self.size + source.size <= limits.segment_bytes
            and self.offset_index_size + source.offset_index_size <= limits.segment_index_bytes
            and self.time_index_size + source.time_index_size <= limits.segment_index_bytes
            # An empty segment has no offsets, and would otherwise stay forever.
            and (source.size == 0 or end - 1 - self.sources[0].base_offset <= INT32_MAX)
        )

    def add(self, source: SegmentSource) -> None:
        self.sources.append(source)
        self.size += source.size
        self.offset_index_size += source.offset_index_size
        self.time_index_size += source.time_index_size
