"""Reads in process of a log that has changed on the disk: a process that decodes batches checks."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.base.errors import CorruptionError
from ottla.record.batch import batch_at
from ottla.storage.files.filenames import INTEGRITY
from tests.support.damaged_logs import with_right_checksum

if TYPE_CHECKING:
    import pyarrow as pa

VALUE = b"forty-two"


def stopped(path: Path) -> Path:
    """Ten records after a clean stop; returns the log file."""
    with ottla.open(path) as log:
        log.create_topic("t")
        for _ in range(10):
            log.append("t", VALUE)
    return path / "t-0" / f"{0:020d}.log"


def small_segments(path: Path) -> None:
    """Twenty records after a clean stop, each in a segment of its own."""
    with ottla.open(path) as log:
        log.create_topic("t", config={"segment.bytes": 100})
        for number in range(20):
            log.append("t", VALUE + b"%d" % number)


def damaged_segment(path: Path, *, is_garbled: bool) -> Path:
    """Changes the size of a value in the thirteenth, whose checksum may be right all the same."""
    file = path / "t-0" / f"{12:020d}.log"
    content = bytearray(file.read_bytes())
    content[content.index(VALUE) - 1] ^= 0x40
    if is_garbled:
        with_right_checksum(content, 0)
    file.write_bytes(content)
    (path / "t-0" / INTEGRITY).unlink()  # which has the checksum of that batch
    return file


def test_a_flipped_bit_of_a_value_is_no_value(tmp_path: Path) -> None:
    file = stopped(tmp_path / "d")
    content = bytearray(file.read_bytes())
    content[content.index(VALUE, len(content) * 3 // 10)] ^= 1
    file.write_bytes(content)
    with ottla.open(tmp_path / "d") as log:
        records = log.read("t")
        assert [next(records).value for _ in range(3)] == [VALUE] * 3
        with pytest.raises(CorruptionError, match=r"CRC mismatch.*ottla log repair") as error:
            next(records)
        assert (error.value.path, error.value.position) == (str(file), len(content) * 3 // 10)


def test_a_log_that_has_lost_its_end_does_not_give_its_offsets_away_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = stopped(tmp_path / "d")
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 3 // 10])
    with ottla.open(tmp_path / "d") as log:
        assert "the log ends at offset 3, but at its clean shutdown it ended at 10" in caplog.text
        assert log.append("t", b"new").offset == 10
        assert [one.offset for one in log.read("t")] == [0, 1, 2, 10]


def test_a_log_without_its_files_does_not_give_its_offsets_away_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stopped(tmp_path / "d").unlink()
    with ottla.open(tmp_path / "d") as log:
        assert "offsets 0 to 9; they are lost" in caplog.text
        assert log.append("t", b"new").offset == 10


@pytest.mark.parametrize("count", [3, 700])
def test_what_precedes_a_garbled_record_of_a_sound_batch_is_read(
    tmp_path: Path, count: int
) -> None:
    directory = tmp_path / "d"
    with ottla.open(directory) as log:
        log.create_topic("t")
        log.append("t", VALUE)
        log.append_many("t", [VALUE] * count)
        log.append("t", VALUE)
    file = directory / "t-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    start = batch_at(content, 0).size
    end = start + batch_at(content, start).size
    content[content.rindex(VALUE, 0, end) - 1] ^= 0x40  # the size of its last value
    with_right_checksum(content, start)
    file.write_bytes(content)
    with ottla.open(directory) as log:
        read = log.read("t", from_offset=1)
        assert [next(read).offset for _ in range(count - 1)] == list(range(1, count))
        with pytest.raises(CorruptionError, match=f"after it, offsets 1 to {count}"):
            next(read)


@pytest.mark.parametrize("is_followed", [False, True])
def test_batches_before_a_damaged_one_are_read(tmp_path: Path, is_followed: bool) -> None:
    directory = tmp_path / "d"
    with ottla.open(directory) as log:
        log.create_topic("t")
        for _ in range(5):
            log.append_many("t", [VALUE] * 700)
    file = directory / "t-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    opened = ottla.open(directory, read_only=True) if is_followed else ottla.open(directory)
    with opened as log:
        read = log.read("t")
        assert [next(read).offset for _ in range(1400)] == list(range(1400))
        with pytest.raises(CorruptionError, match="CRC mismatch"):
            next(read)


@pytest.mark.parametrize("read_only", [False, True])
def test_of_many_small_segments_all_rows_before_a_garbled_one_are_given(
    tmp_path: Path, read_only: bool
) -> None:
    directory = tmp_path / "d"
    small_segments(directory)
    with ottla.open(directory) as log:
        assert log.scan("t").to_arrow().column("offset").to_pylist() == list(range(20))
        assert len(list(log.scan("t").batches())) < 8, "small segments are decoded together"
    file = damaged_segment(directory, is_garbled=True)
    found: list[int] = []

    def take(batches: Iterator["pa.RecordBatch"]) -> None:
        for one in batches:
            found.extend(one.column("offset").to_pylist())

    with (
        ottla.open(directory, read_only=True) if read_only else ottla.open(directory) as log,
        pytest.raises(CorruptionError, match="after it, offset 12") as error,
    ):
        take(log.scan("t").batches())
    assert error.value.path == str(file)
    assert found == list(range(12))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("is_garbled", [False, True])
def test_of_many_small_segments_all_records_before_a_damaged_one_are_given(
    tmp_path: Path, is_garbled: bool, read_only: bool
) -> None:
    directory = tmp_path / "d"
    small_segments(directory)
    file = damaged_segment(directory, is_garbled=is_garbled)
    reason = "after it, offset 12" if is_garbled else "CRC mismatch"
    with ottla.open(directory, read_only=True) if read_only else ottla.open(directory) as log:
        for read in (log.read, log.scan):
            records = iter(read("t"))
            assert [next(records).offset for _ in range(12)] == list(range(12))
            with pytest.raises(CorruptionError, match=reason) as error:
                next(records)
            assert (error.value.path, error.value.position) == (str(file), 0)


@pytest.mark.parametrize("read_only", [False, True])
def test_small_segments_are_handed_out_together(tmp_path: Path, read_only: bool) -> None:
    small_segments(tmp_path)
    with ottla.open(tmp_path, read_only=True) if read_only else ottla.open(tmp_path) as log:
        regions = list(log.regions(ottla.TopicPartition("t", 0), 0, 20))
        assert len(regions) <= 4
        batches = [batch for one in regions for batch in one.batches()]
        assert [one.base_offset for one in batches] == list(range(20))
        assert sum(len(one.data) for one in regions) == sum(one.size for one in batches)
