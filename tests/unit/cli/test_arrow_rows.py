"""Rows of Arrow as Python's values."""

from datetime import UTC, datetime

import pytest

pa = pytest.importorskip("pyarrow")

from ottla.cli.arrow_rows import python_rows  # noqa: E402


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        (pa.timestamp("us", "UTC"), 253402300800000000, "+10000-01-01T00:00:00.000000Z"),
        (pa.timestamp("us"), -62135596800000001, "0000-12-31T23:59:59.999999"),
        (pa.timestamp("ns", "UTC"), 1700000000123456789, "2023-11-14T22:13:20.123456789Z"),
        (pa.timestamp("ms", "UTC"), 253402300800000, "+10000-01-01T00:00:00.000Z"),
        (pa.date32(), 2932897, "+10000-01-01"),
    ],
)
def test_a_time_that_python_has_no_type_for_is_its_text_wherever_it_is(
    kind: pa.DataType, number: int, text: str
) -> None:
    times = pa.array([number, None], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    struct = pa.StructArray.from_arrays([times], ["t"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), times)
    batch = pa.record_batch({"a": times, "s": struct, "l": lists, "n": pa.array([1, 2])})
    assert python_rows(batch) == [
        {"a": text, "s": {"t": text}, "l": [text], "n": 1},
        {"a": None, "s": {"t": None}, "l": [None], "n": 2},
    ]


def test_other_times_are_pythons() -> None:
    batch = pa.record_batch({"a": pa.array([0], pa.timestamp("us", "UTC"))})
    assert python_rows(batch) == [{"a": datetime(1970, 1, 1, tzinfo=UTC)}]
