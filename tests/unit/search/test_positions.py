"""Where a read begins and ends."""

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange
from ottla.search.positions import Position, PositionKind, parse_position, parse_time, resolve

NOW_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
THERE = OffsetRange(from_offset=10, until_offset=100)


def offset(text: str, at_time: int | None = None, *, is_start: bool = True) -> int:
    return resolve(parse_position("-o", text, NOW_MS), THERE, at_time, is_start=is_start)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", 10),
        ("earliest", 10),
        ("end", 100),
        ("42", 42),
        ("3", 10),
        ("-5", 95),
        ("-500", 10),
    ],
)
def test_a_position_is_an_offset_of_each_partition(text: str, start: int) -> None:
    assert offset(text) == start


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert offset("@1h", 77) == 77
    assert offset("@1h", None) == 100


def test_an_end_is_kept_as_it_is_asked_for() -> None:
    assert offset("1000", is_start=False) == 1000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1699999999999", 1_699_999_999_999),
        ("1699999999", 1_699_999_999_000),
        ("15m", NOW_MS - 900_000),
        ("-1.5h", NOW_MS - 5_400_000),
        ("2d ago", NOW_MS - 172_800_000),
        ("now", NOW_MS),
        ("today", 1_699_920_000_000),
        ("yesterday", 1_699_833_600_000),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T23:13:20.5+01:00", NOW_MS + 500),
    ],
)
def test_times_as_people_write_them(text: str, time_ms: int) -> None:
    assert parse_time(text, NOW_MS) == time_ms
    assert parse_position("-o", f"@{text}", NOW_MS) == Position(PositionKind.TIME, time_ms)


@pytest.mark.parametrize(
    "text",
    ["", "first", "1.5", "--3", "@soon", "٣", "@99999999999999d", "@99999999999999999999"],
)
def test_what_is_no_position_is_answered_with_what_is_one(text: str) -> None:
    with pytest.raises(UserError, match=r"beginning, end, an offset|is not a time; write"):
        parse_position("-o", text, NOW_MS)
