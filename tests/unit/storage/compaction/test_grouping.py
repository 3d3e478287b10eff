"""Which segments become one."""

from ottla.config.setting import INT32_MAX
from ottla.storage.compaction.grouping import GroupLimits, SegmentSource, group_segments

LIMITS = GroupLimits(segment_bytes=100, segment_index_bytes=24)


def source(
    base_offset: int, size: int, *, index: int = 8, time: int = 12, is_damaged: bool = False
) -> SegmentSource:
    return SegmentSource(
        base_offset=base_offset,
        size=size,
        offset_index_size=index,
        time_index_size=time,
        modified_ms=0,
        is_damaged=is_damaged,
    )


def groups(*sources: SegmentSource, end_offset: int = 1000) -> list[list[int]]:
    made = group_segments(sources, LIMITS, end_offset)
    return [[one.base_offset for one in group] for group in made]


def test_neighbours_are_joined_while_they_fit() -> None:
    assert groups(source(0, 40), source(10, 40), source(20, 40)) == [[0, 10], [20]]
    assert groups(source(0, 50), source(10, 50), source(20, 101)) == [[0, 10], [20]]


def test_indexes_must_fit_too() -> None:
    assert groups(source(0, 1, index=16), source(10, 1, index=16)) == [[0], [10]]
    assert groups(source(0, 1, time=16), source(10, 1, time=16)) == [[0], [10]]


def test_offsets_must_fit_into_one_index() -> None:
    far = INT32_MAX + 5
    assert groups(source(5, 1), source(50, 1), end_offset=far + 1) == [[5, 50]]
    assert groups(source(5, 1), source(50, 1), end_offset=far + 2) == [[5], [50]]
    assert groups(source(5, 1), source(far, 0), source(far + 9, 1)) == [[5, far], [far + 9]]


def test_a_damaged_segment_is_left_out_and_joins_nobody() -> None:
    sources = source(0, 1), source(10, 1, is_damaged=True), source(20, 1), source(30, 1)
    assert groups(*sources) == [[0], [20, 30]]
    assert groups(source(0, 1, is_damaged=True)) == []


def test_nothing_makes_no_group() -> None:
    assert groups() == []
