"""When a segment is full, decided on values."""

from dataclasses import dataclass, replace

import pytest

from ottla.config.setting import INT32_MAX
from ottla.storage.log.rolling import RollLimits, RollReason, roll_reason, time_waited_ms

LIMITS = RollLimits(segment_bytes=1000, segment_ms=60)


@dataclass
class Active:
    base_offset: int = 100
    size: int = 900
    is_offset_index_full: bool = False
    is_time_index_full: bool = False


def reason(
    active: Active | None = None, waited_ms: int = 0, size: int = 100, last_offset: int = 101
) -> RollReason | None:
    return roll_reason(active or Active(), LIMITS, waited_ms, size, last_offset)


def test_what_fits_to_the_last_byte_is_appended() -> None:
    assert reason(size=100) is None
    assert reason(size=101) is RollReason.SIZE


def test_a_segment_is_too_old_only_after_its_time_and_never_while_it_is_empty() -> None:
    assert reason(waited_ms=60) is None
    assert reason(waited_ms=61) is RollReason.TIME
    assert reason(Active(size=0), waited_ms=61) is None


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("is_offset_index_full", RollReason.OFFSET_INDEX_FULL),
        ("is_time_index_full", RollReason.TIME_INDEX_FULL),
    ],
)
def test_an_index_without_room_ends_the_segment(field: str, expected: RollReason) -> None:
    assert reason(replace(Active(), **{field: True})) is expected


def test_an_offset_that_an_index_entry_cannot_hold_begins_a_segment() -> None:
    assert reason(last_offset=100 + INT32_MAX) is None
    assert reason(last_offset=101 + INT32_MAX) is RollReason.RELATIVE_OFFSET
    assert reason(last_offset=99) is RollReason.RELATIVE_OFFSET


def test_age_goes_by_the_records_own_times_where_they_have_any() -> None:
    assert time_waited_ms(1000, 10, first_timestamp_ms=300, append_timestamp_ms=350) == 50
    assert time_waited_ms(1000, 10, first_timestamp_ms=300, append_timestamp_ms=200) == -100
    assert time_waited_ms(1000, 10, first_timestamp_ms=-1, append_timestamp_ms=350) == 990
