"""Which segments become one: neighbours that fit together, so that segments do not shrink away.

Kafka's counterpart: `Cleaner.groupSegmentsBySize`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.config.setting import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSource:
    """A segment to be compacted, as it was when the plan was made; sizes in bytes.

    `is_damaged`: it is left as it is, for it could not be read.
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
    """Neighbours together while sizes and the span of offsets allow it; damaged ones are left out.

    `end_offset` is where the last source ends.
    """
    if not sources:
        return []
    ends = [*(source.base_offset for source in sources[1:]), end_offset]
    groups: list[list[SegmentSource]] = []
    group: list[SegmentSource] = []
    for source, end in zip(sources, ends, strict=True):
        if source.is_damaged:
            group = []
            continue
        if not group or not _fits(group, source, end, limits):
            group = []
            groups.append(group)
        group.append(source)
    return groups


def _fits(
    group: Sequence[SegmentSource], source: SegmentSource, end: int, limits: GroupLimits
) -> bool:
    together = [*group, source]
    return (
        sum(one.size for one in together) <= limits.segment_bytes
        and sum(one.offset_index_size for one in together) <= limits.segment_index_bytes
        and sum(one.time_index_size for one in together) <= limits.segment_index_bytes
        # An empty segment has no offsets, and would otherwise stay for ever.
        and (source.size == 0 or end - 1 - group[0].base_offset <= INT32_MAX)
    )
