"""Damage of a log that is only read is named with its place."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.reading_logs import reading, values_of


def test_a_damaged_batch_is_reported_with_its_place(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    size = next(iter(reader.batches.read(0))).size
    file = disk.open(reader.segments[0].log_path, writable=True)
    file.pwrite(b"?", size + 80)
    assert values_of(reader, 4) == list(range(4, 20))
    with pytest.raises(CorruptionError, match="CRC") as error:
        values_of(reader)
    assert (error.value.path, error.value.position) == (reader.segments[0].log_path, size)
