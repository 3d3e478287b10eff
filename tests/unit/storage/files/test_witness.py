"""What Ottla keeps beside Kafka's files, so that a flipped bit in them is noticed or mended."""

from dataclasses import replace

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, replace_file
from ottla.record.layout import BASE_OFFSET
from ottla.storage.diagnosis.dump import dump_file
from ottla.storage.diagnosis.rows import PropertyRow
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.checksummed import with_checksum, without_checksum
from ottla.storage.files.filenames import (
    CHECKPOINT_LOG_START,
    META_PROPERTIES,
    PARTITION_METADATA,
    WITNESS,
    WITNESSED_LOG_STARTS,
    WITNESSED_META_PROPERTIES,
)
from ottla.storage.files.witness import (
    Witness,
    dismiss_witness,
    parse_witness,
    read_witness,
    witness_text,
)
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    batch,
    fill,
    open_directory,
    open_log,
    values,
)

PARTITION = "data/t-0"
LOG = join(PARTITION, f"{0:020d}.log")
ROOMY = replace(SMALL, segment_bytes=1 << 20)


def gapless_from(disk: FakeFileSystem) -> int | None:
    witness = read_witness(disk, PARTITION)
    assert witness is not None
    assert witness.topic_id == TOPIC_ID
    return witness.gapless_from


def kill(disk: FakeFileSystem) -> FakeFileSystem:
    return disk.crash(CrashMode.KEEP)


def follow(log: PartitionLog, offset: int) -> None:
    copied = batch(b"%d" % offset)
    BASE_OFFSET.pack_into(copied, 0, offset)
    log.writer.append_as_follower(copied, now_ms=NOW_MS)
    log.writer.write_out()


def stamp(disk: FakeFileSystem, position: int, offset: int) -> None:
    file = disk.open(LOG, writable=True)
    file.pwrite(BASE_OFFSET.pack(offset), position)
    file.close()


@pytest.mark.parametrize("topic_id", [None, TOPIC_ID])
@pytest.mark.parametrize("offset", [None, 0, 4711])
def test_what_is_written_is_read_back(topic_id: object, offset: int | None) -> None:
    assert topic_id is None or topic_id == TOPIC_ID
    witness = Witness(topic_id=TOPIC_ID if topic_id else None, gapless_from=offset)
    assert parse_witness("f", without_checksum("f", witness_text(witness))) == witness


def test_any_flipped_bit_and_any_missing_byte_of_what_is_sealed_is_noticed() -> None:
    content = with_checksum(b"0\nabc\n")
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError):
            without_checksum("f", bytes(damaged))
    for size in range(len(content)):
        with pytest.raises(CorruptionError):
            without_checksum("f", content[:size])


@pytest.mark.parametrize("content", [b"1\n-\n-\n", b"0\n-\n", b"0\nx\n-\n", b"0\n-\nx\n", b"\xff"])
def test_a_witness_that_is_no_such_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        parse_witness("f", content)


def test_a_witness_can_be_dumped() -> None:
    disk = FakeFileSystem()
    open_log(disk)
    found = list(dump_file(disk, join(PARTITION, WITNESS)))
    assert PropertyRow(name="gapless_from", value="0") in found
    assert PropertyRow(name="starts", value="0") not in found


def test_where_kafka_has_been_the_log_as_it_is_is_witnessed_anew() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk), 3)
    assert gapless_from(disk) == 0
    after = kill(disk)
    dismiss_witness(after, PARTITION)
    open_log(after)
    assert gapless_from(after) == 6


def test_a_damaged_witness_counts_as_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = FakeFileSystem()
    fill(open_log(disk), 3)
    after = kill(disk)
    replace_file(after, join(PARTITION, WITNESS), b"nonsense")
    fill(open_log(after), 1)
    assert gapless_from(after) == 6
    assert f"{WITNESS} at byte 0: the checksum does not fit" in caplog.text


def test_a_gap_that_a_follower_leaves_is_allowed_before_it_is_there() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, ROOMY)
    log.writer.flush()
    follow(log, 0)
    assert gapless_from(disk) == 0
    follow(log, 3)
    # Durably: nothing but the last append may be lost.
    assert gapless_from(disk.crash()) is None
    after = kill(disk)
    log = open_log(after, ROOMY)
    assert values(log) == [b"0", b"3"]
    assert gapless_from(after) == 4


def test_the_last_batch_is_given_its_offset_back() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, ROOMY)
    fill(log, 3)
    position = log.segments.active.size // 3 * 2
    for offset in (4 ^ 1 << bit for bit in range(64)):
        after = kill(disk)
        stamp(after, position, offset - (1 << 64 if offset >= 1 << 63 else 0))
        assert values(open_log(after, ROOMY)) == [b"%d" % one for one in range(6)]


def test_a_gap_that_is_not_one_flipped_bit_is_left() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, ROOMY)
    fill(log, 3)
    after = kill(disk)
    stamp(after, log.segments.active.size // 3 * 2, 7)
    assert open_log(after, ROOMY).log_end_offset == 9


def test_a_cut_log_goes_on_without_gaps() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk, ROOMY), 3)
    dismiss_witness(disk, PARTITION)
    after = kill(disk)
    log = open_log(after, ROOMY)
    assert gapless_from(after) == 6
    log.maintenance.truncate_to(2, now_ms=NOW_MS)
    assert gapless_from(after) == 2
    log.maintenance.truncate_fully_and_start_at(1, now_ms=NOW_MS)
    assert gapless_from(after) == 1


# Ids and starts


def test_a_log_that_was_moved_keeps_its_files_where_it_is() -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_future("t", 0, TOPIC_ID, 0)
    fill(log, 3)
    directory.adopt_future("t", 0, TOPIC_ID)
    log.seams.open(4)
    log.seams.record()
    log.witness.leave_gaps()
    assert gapless_from(disk) is None
    assert all("-future" not in name for name in disk.list("data"))


def with_start(start: int) -> FakeFileSystem:
    disk = FakeFileSystem()
    directory = open_directory(disk, ROOMY)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 5)
    log.writer.flush()
    log.maintenance.delete_records_before(start)
    directory.checkpoints.write()
    return kill(disk)


def start_of(disk: FakeFileSystem) -> int:
    return open_directory(disk, ROOMY).logs["t", 0].log_start_offset


@pytest.mark.parametrize("content", [b"0\n1\nt 0 7\n", b"0\n1\nu 0 4\n", b"0\n0\n", b"nonsense"])
def test_a_log_starts_where_the_copy_says(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = with_start(4)
    replace_file(disk, join("data", CHECKPOINT_LOG_START), content)
    assert start_of(disk) == 4
    assert f"{WITNESSED_LOG_STARTS}, which has a checksum, at 4" in caplog.text


def test_a_log_that_kafka_has_loaded_starts_where_kafka_says() -> None:
    disk = with_start(4)
    replace_file(disk, join("data", CHECKPOINT_LOG_START), b"0\n1\nt 0 7\n")
    dismiss_witness(disk, PARTITION)
    assert start_of(disk) == 7
    # And the new witness vouches for nothing that is older.
    replace_file(disk, join("data", CHECKPOINT_LOG_START), b"0\n1\nt 0 5\n")
    assert start_of(kill(disk)) == 7


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_without_a_copy_the_checkpoint_counts(content: bytes) -> None:
    disk = with_start(4)
    replace_file(disk, join("data", WITNESSED_LOG_STARTS), content)
    assert start_of(disk) == 4
    assert read_file(disk, join("data", WITNESSED_LOG_STARTS)) == with_checksum(b"0\n1\nt 0 4\n")


def test_a_flipped_bit_of_a_topics_id_is_mended() -> None:
    disk = with_start(0)
    content = read_file(disk, join(PARTITION, PARTITION_METADATA))
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        after = kill(disk)
        replace_file(after, join(PARTITION, PARTITION_METADATA), bytes(damaged))
        assert open_directory(after).topic_ids == {"t": TOPIC_ID}, bit
        assert read_file(after, join(PARTITION, PARTITION_METADATA)) == content


def with_changed_properties(change: bytes, *, ms_later: int) -> LogDirectory:
    disk = FakeFileSystem()
    open_directory(disk).close()
    path = join("data", META_PROPERTIES)
    replace_file(disk, path, read_file(disk, path).replace(b"node.id=1", change))
    copied = disk.status(join("data", WITNESSED_META_PROPERTIES))
    assert copied is not None
    disk.set_modified_ms(path, copied.modified_ms + ms_later)
    return open_directory(disk)


def test_one_flipped_bit_of_meta_properties_is_mended() -> None:
    assert with_changed_properties(b"node.id=3", ms_later=0).properties.node_id == 1


def test_meta_properties_that_somebody_has_changed_since_are_believed() -> None:
    assert with_changed_properties(b"node.id=3", ms_later=1).properties.node_id == 3
    assert with_changed_properties(b"node.id=12", ms_later=0).properties.node_id == 12
