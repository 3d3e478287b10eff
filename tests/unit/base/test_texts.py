"""Sizes and durations as people write them."""

import pytest

from ottla.base.errors import UserError
from ottla.base.texts import UNITS_MS, amount_of, setting_value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "1.5h", "5400000"),
        ("retention.ms", "-1", "-1"),
        ("retention.bytes", "1Gi", "1073741824"),
        ("retention.bytes", "128k", "128000"),
        ("retention.bytes", "2TiB", "2199023255552"),
        ("retention.bytes", "9223372036854775807", "9223372036854775807"),
        ("retention.bytes", "1.5", "1.5"),
        ("cleanup.policy", "7d", "7d"),
    ],
)
def test_units_count_where_a_setting_is_a_time_or_a_size(name: str, text: str, value: str) -> None:
    assert setting_value(name, text) == value


@pytest.mark.parametrize("text", ["", "d", "7", "7 days", "-7d", "7D"])
def test_what_has_no_known_unit_is_no_amount(text: str) -> None:
    assert amount_of(text, UNITS_MS) is None


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("retention.ms", "5days", "there is no unit days; did you mean 5d?"),
        ("retention.ms", "5 min", "there is no unit min; did you mean 5m?"),
        ("retention.ms", "7D", "there is no unit D; did you mean 7d?"),
        ("retention.ms", "5y", "there is no unit y; the units are ms, s, m, h, d and w"),
        ("retention.bytes", "2 gigabytes", "there is no unit gigabytes; did you mean 2G?"),
        ("retention.bytes", "2x", "there is no unit x; the units are k, M, G, T, Ki, Mi, Gi"),
    ],
)
def test_another_unit_is_answered_with_the_one_that_was_meant(
    name: str, text: str, words: str
) -> None:
    with pytest.raises(UserError) as caught:
        setting_value(name, text)
    assert str(caught.value).startswith(f"{name}={text}: {words}")
