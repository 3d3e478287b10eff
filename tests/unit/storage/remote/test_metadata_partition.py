"""The partition of `__remote_log_metadata` is the one that Kafka chooses."""

import pytest

from ottla.base.ids import parse_uuid
from ottla.storage.remote.metadata_partition import metadata_partition

GOLDEN = {"AAAAAAAAAAAAAAAAAAAAAQ": [35, 6, 18, 29], "AAECAwQFBgcICQoLDA0ODw": [45, 3, 5, 36]}
"""Partitions 0 to 3, computed in Java, of 50."""


@pytest.mark.parametrize("topic_id", GOLDEN)
def test_a_partition_has_the_metadata_partition_that_java_computes(topic_id: str) -> None:
    found = [metadata_partition(parse_uuid(topic_id), partition, 50) for partition in range(4)]
    assert found == GOLDEN[topic_id]


def test_every_partition_of_every_id_has_one() -> None:
    every_bit = parse_uuid("_____________________w")
    assert metadata_partition(every_bit, (1 << 31) - 1, 1) == 0
    assert 0 <= metadata_partition(every_bit, (1 << 31) - 1, 50) < 50
