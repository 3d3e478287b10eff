"""Where a log that is only read begins and ends."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, append, fill, open_directory
from tests.support.reading_logs import reading, values_of


def test_after_a_clean_stop_everything_is_replicated(
    disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog
) -> None:
    assert not open_for_reading(DIRECTORY, disk).was_stopped_cleanly
    assert reading(disk).offsets.high_watermark == 0
    broker.checkpoints.write()
    append(log, b"20")
    assert reading(disk).offsets.high_watermark == 20
    broker.close()
    assert open_for_reading(DIRECTORY, disk).was_stopped_cleanly
    assert reading(disk).offsets.high_watermark == 21


@pytest.mark.parametrize("garbage", [bytes(500), b"\xff" * 40, b"\0"])
def test_the_log_ends_before_a_torn_append(
    disk: FakeFileSystem, log: PartitionLog, garbage: bytes
) -> None:
    last = log.segments.active
    disk.open(last.log.path, writable=True).pwrite(garbage, last.size)
    assert values_of(reading(disk)) == list(range(20))


def test_a_last_segment_that_goes_is_looked_for_again(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    log.writer.roll(NOW_MS)
    log.maintenance.delete_records_before(20)
    for segment in reader.segments:
        disk.rename(segment.log_path, segment.log_path + ".deleted")
    assert reader.log_end_offset == 20
    assert reader.log_start_offset == 20


class NeverThere(FakeFileSystem):
    """A disk on which logs are always gone when they are to be opened."""

    def open(self, path: str, *, writable: bool = False, create: bool = False):  # type: ignore[no-untyped-def]
        if path.endswith(".log") and not writable and not create:
            raise FileNotFoundError(path)
        return super().open(path, writable=writable, create=create)


def test_files_that_are_never_there_are_given_up() -> None:
    disk = NeverThere()
    fill(open_directory(disk).create_log("t", 0, TOPIC_ID), 2)
    with pytest.raises(CorruptionError, match="faster"):
        _ = reading(disk).log_end_offset
