"""Java's hash of a string, and the partition that Kafka makes of it."""

import pytest

from ottla.coordinator.placement import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),
        ("\udc80", 0xDC80),
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("group_id", "partition_count", "expected"),
    [("", 50, 0), ("polygenelubricants", 50, 0), ("g-classic", 50, 18), ("g-static", 50, 34)],
)
def test_the_partition_is_the_absolute_hash_modulo_the_count(
    group_id: str, partition_count: int, expected: int
) -> None:
    assert partition_for(group_id, partition_count) == expected
