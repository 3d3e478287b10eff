"""What is not read of a range, by the filters that Spark would apply anyway."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.sources.log_source import LogSource
from ottla.sources.pruning import prune, read_filters

filters = pytest.importorskip("pyspark.sql.datasource")

PLACES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
WHOLE = {place: OffsetRange(from_offset=10, until_offset=20) for place in PLACES}
A_SECOND_IN = datetime(1970, 1, 1, 0, 0, 1, 1500, tzinfo=UTC)


class TimedLog(LogSource):
    """Offset 15 is the first one of 1001 ms; there is nothing after it in the last partition."""

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        assert set(wanted.values()) == {1001}
        return {place: None if place == PLACES[2] else 15 for place in wanted}


class TimelessLog(LogSource):
    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        raise UserError("has message format v0")


def left(*wanted: Any, log: LogSource | None = None) -> dict[str, tuple[int, int]]:
    found = prune(WHOLE, read_filters(wanted), log or TimedLog())
    return {str(place): (one.from_offset, one.until_offset) for place, one in found.items()}


def test_without_filters_all_is_read() -> None:
    assert left() == {str(place): (10, 20) for place in PLACES}


def test_partitions_and_topics_are_left_out() -> None:
    assert list(left(filters.EqualTo(("partition",), 1))) == ["a-1"]
    assert list(left(filters.In(("partition",), (1, 7)))) == ["a-1"]
    assert list(left(filters.Not(filters.EqualTo(("topic",), "a")))) == ["b-0"]
    assert list(left(filters.StringStartsWith(("topic",), "b"))) == ["b-0"]
    assert list(left(filters.GreaterThan(("partition",), 0))) == ["a-1"]


def test_offsets_are_cut_on_both_sides() -> None:
    only = filters.EqualTo(("topic",), "b")
    for wanted, span in (
        ([filters.GreaterThan(("offset",), 12)], (13, 20)),
        ([filters.GreaterThanOrEqual(("offset",), 12)], (12, 20)),
        ([filters.LessThan(("offset",), 12)], (10, 12)),
        ([filters.LessThanOrEqual(("offset",), 12)], (10, 13)),
        ([filters.EqualTo(("offset",), 12)], (12, 13)),
        ([filters.In(("offset",), (17, 12))], (12, 18)),
        ([filters.Not(filters.LessThan(("offset",), 12))], (10, 20)),
        ([filters.GreaterThan(("offset",), 11), filters.LessThan(("offset",), 14)], (12, 14)),
    ):
        assert left(only, *wanted) == {"b-0": span}


def test_a_range_of_which_nothing_is_left_is_not_read() -> None:
    assert left(filters.GreaterThan(("offset",), 19)) == {}
    assert left(filters.LessThan(("offset",), 5)) == {}


def test_times_cut_from_below_only() -> None:
    assert left(filters.GreaterThanOrEqual(("timestamp",), A_SECOND_IN)) == {
        "a-0": (15, 20),
        "a-1": (15, 20),
    }
    assert len(left(filters.LessThan(("timestamp",), A_SECOND_IN))) == 3


def test_a_log_without_times_is_read_whole() -> None:
    wanted = filters.GreaterThan(("timestamp",), A_SECOND_IN)
    assert len(left(wanted, log=TimelessLog())) == 3


def test_what_is_not_known_prunes_nothing() -> None:
    assert len(left(filters.IsNotNull(("key",)), filters.EqualTo(("value",), b"x"))) == 3
    assert len(left(filters.GreaterThan(("partition",), "x"))) == 3
    assert len(left(filters.StringContains(("topic",), "x"))) == 3
    assert len(left(filters.Not(filters.StringContains(("topic",), "x")))) == 3
