"""What this process decodes itself it checks first, and says where the damage lies."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSlice
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.checked_batches import checked_batches, damage_in
from ottla.testing import FakeFileSystem
from tests.support.logs import fill, open_log


@pytest.fixture
def log() -> PartitionLog:
    log = open_log(FakeFileSystem())
    fill(log, 3)
    return log


def found_from(log: PartitionLog, offset: int) -> FileSlice:
    found = log.reader.read(offset, 10_000, Isolation.HIGH_WATERMARK).records
    assert found is not None
    return found


def test_whole_batches_come_and_a_cut_one_at_the_end_does_not(log: PartitionLog) -> None:
    found = found_from(log, 0)
    data = found.read()
    assert [one.base_offset for one in checked_batches(found, data)] == [0, 2, 4]
    assert [one.base_offset for one in checked_batches(found, data[:-1])] == [0, 2]


def test_a_flipped_bit_is_named_by_its_place_in_the_file_after_the_batches_before_it(
    log: PartitionLog,
) -> None:
    found = found_from(log, 2)
    assert found.position > 0
    data = bytearray(found.read())
    data[-1] ^= 1
    read = checked_batches(found, bytes(data))
    assert next(read).base_offset == 2
    with pytest.raises(CorruptionError) as raised:
        next(read)
    assert raised.value.path == found.file.path
    assert raised.value.position == found.position + len(data) // 2
    assert "`ottla log repair data` help once it is closed" in raised.value.reason


def test_records_that_cannot_be_read_are_named_by_where_their_read_began(log: PartitionLog) -> None:
    found = found_from(log, 4)
    error = damage_in(found, "a record is too long")
    assert (error.path, error.position) == (found.file.path, found.position)
    assert error.reason.startswith("a record is too long; `ottla log check data`")
