"""What compaction writes down of a segment: where its batches lie, and what was aborted in it."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, parent_directory, read_file, replace_file
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.layout import LEADER_EPOCH_POSITION
from ottla.storage.compaction.compaction import DamagedSegmentError
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.dump import dump_file
from ottla.storage.diagnosis.findings import FindingKind
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.diagnosis.rows import PropertyRow
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.checksummed import read_checksummed, without_checksum
from ottla.storage.files.filenames import FileSuffix, parse_witness_name, witness_file_name
from ottla.storage.files.segment_witness import (
    BLOCK_SIZE,
    BlockSums,
    SegmentWitness,
    WrongPlace,
    parse_segment_witness,
    segment_witness_text,
    wrong_places,
)
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.reader import Isolation
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import COMPACTED, clean
from tests.support.logs import NOW_MS, TOPIC_ID, open_directory

PARTITION = "data/t-0"
LOG = join(PARTITION, f"{0:020d}.log")
WITNESS = join(PARTITION, witness_file_name(0))


def write(log: PartitionLog, keys: str) -> None:
    """A batch of one record for each key."""
    for key in keys:
        builder = RecordBatchBuilder()
        builder.append(key.encode(), b"%d" % log.log_end_offset, NOW_MS)
        log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)
        log.writer.write_out()


def cleaned() -> tuple[FakeFileSystem, LogDirectory, PartitionLog]:
    """A segment with the offsets 3 to 5 of what was 0 to 5, and an active one."""
    disk = FakeFileSystem()
    directory = open_directory(disk, COMPACTED)
    log = directory.create_log("t", 0, TOPIC_ID)
    write(log, "abxab")
    log.writer.roll(NOW_MS)
    write(log, "x")
    log.writer.roll(NOW_MS)
    clean(log, disk)
    return disk, directory, log


def positions(disk: FakeFileSystem) -> dict[int, int]:
    return {one.base_offset: one.position for one in iter_batches(read_file(disk, LOG))}


def stopped(change: tuple[int, int] | None = None) -> FakeFileSystem:
    """After a clean stop, with a mask laid over a byte of the compacted segment's log."""
    disk, directory, _ = cleaned()
    directory.close()
    if change is not None:
        flip(disk, *change)
    return disk


def flip(disk: FakeFileSystem, position: int, mask: int) -> None:
    file = disk.open(LOG, writable=True)
    (byte,) = file.pread(1, position)
    file.pwrite(bytes([byte ^ mask]), position)
    file.close()


def log_of(disk: FakeFileSystem) -> PartitionLog:
    return open_directory(disk, COMPACTED).logs["t", 0]


def read(log: PartitionLog, offset: int) -> int:
    found = log.reader.read(offset, 1, Isolation.HIGH_WATERMARK).records
    assert found is not None
    return next(iter(iter_batches(found.read()))).base_offset


def test_what_is_written_is_read_back() -> None:
    sums = BlockSums()
    for size in (61, BLOCK_SIZE, 70):
        sums.take(bytes(size))
    sums.finish()
    assert [one.end for one in sums.blocks] == [61 + BLOCK_SIZE, 61 + BLOCK_SIZE + 70]
    witness = SegmentWitness(sums.blocks, b"x" * 34)
    assert (
        parse_segment_witness("f", without_checksum("f", segment_witness_text(witness))) == witness
    )


@pytest.mark.parametrize("content", [b"", b"\0\1\0\0\0\0", b"\0\0\0\0\0\1"])
def test_what_is_no_witness_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        parse_segment_witness("f", content)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_names_are_read_back(is_cleaned: bool) -> None:
    suffix = FileSuffix.CLEANED if is_cleaned else FileSuffix.DELETED
    assert parse_witness_name(witness_file_name(7, is_cleaned=is_cleaned)) == (7, suffix)
    assert parse_witness_name("7.ottla-witness.deleted") is None


def wrong_in(disk: FakeFileSystem, content: bytes) -> list[WrongPlace]:
    witness = read_checksummed(disk, WITNESS, parse_segment_witness)
    assert witness is not None
    return list(wrong_places(witness, lambda at, size: content[at : at + size], 0, len(content)))


def test_any_one_bit_of_a_head_is_found_but_those_of_a_length() -> None:
    disk = stopped()
    content = read_file(disk, LOG)
    assert wrong_in(disk, content) == []
    for base_offset, position in positions(disk).items():
        for bit in (*range(64), *range(96, 128)):
            damaged = bytearray(content)
            damaged[position + bit // 8] ^= 1 << bit % 8
            (wrong,) = wrong_in(disk, bytes(damaged))
            assert (wrong.position, wrong.base_offset, wrong.epoch) == (position, base_offset, 0)


def test_of_more_than_one_bit_only_the_block_is_known() -> None:
    disk = stopped((7, 3))
    content = read_file(disk, LOG)
    (wrong,) = wrong_in(disk, content)
    assert wrong.base_offset is None
    assert (wrong.position, wrong.end) == (0, len(content))
    assert FindingKind.BATCH_OFFSET in {one.kind for one in check(disk, "data").findings}
    with pytest.raises(CorruptionError, match="has changed its place on the disk"):
        read(log_of(disk), 3)


def test_a_batch_that_moved_in_a_gap_is_refused_and_others_are_served() -> None:
    assert list(positions(stopped())) == [3, 4, 5]
    log = log_of(stopped((7, 2)))
    for offset in (1, 2, 3):
        with pytest.raises(CorruptionError, match="it had base offset 3 and leader epoch 0"):
            read(log, offset)
    assert read(log, 4) == 4


@pytest.mark.parametrize(
    ("position", "kind"),
    [(7, FindingKind.BATCH_OFFSET), (LEADER_EPOCH_POSITION, FindingKind.BATCH_EPOCH)],
)
def test_check_names_it_and_repair_puts_it_right(position: int, kind: FindingKind) -> None:
    disk = stopped((position, 2))
    assert kind in {one.kind for one in check(disk, "data").findings}
    assert repair(disk, "data", RepairOptions(now_ms=NOW_MS)).is_sound
    assert read_file(disk, LOG) == read_file(stopped(), LOG)


def test_a_pass_does_not_write_down_what_is_wrong() -> None:
    disk = stopped((7, 2))
    log = log_of(disk)
    write(log, "a")
    log.writer.roll(NOW_MS)
    with pytest.raises(DamagedSegmentError, match="has changed its place"):
        clean(log, disk)


def test_where_kafka_has_been_nothing_is_said() -> None:
    disk = stopped()
    assert {one.kind for one in check(disk, "data").findings if not one.is_note} == set()
    for name in disk.list(PARTITION):
        if name.endswith(".deleted"):
            disk.remove(join(PARTITION, name))
    log = log_of(disk)
    assert [read(log, one) for one in positions(disk)] == list(positions(disk))


def test_a_cut_takes_the_witness_away() -> None:
    disk, _, log = cleaned()
    assert disk.status(WITNESS) is not None
    log.maintenance.truncate_to(list(positions(disk))[-1], now_ms=NOW_MS)
    assert disk.status(WITNESS) is None


def test_the_next_pass_writes_its_own() -> None:
    disk, _, log = cleaned()
    before = read_file(disk, WITNESS)
    write(log, "ab")
    log.writer.roll(NOW_MS)
    clean(log, disk)
    assert read_file(disk, WITNESS) != before
    assert not [one for one in disk.list(PARTITION) if one.endswith(".cleaned")]


def test_one_without_a_segment_and_one_that_never_took_its_place_go() -> None:
    disk = stopped()
    orphans = [witness_file_name(77), witness_file_name(0, is_cleaned=True)]
    for name in orphans:
        replace_file(disk, join(PARTITION, name), b"")
    after = disk.crash(CrashMode.KEEP)
    log_of(after)
    assert not set(orphans) & set(after.list(parent_directory(LOG)))


def test_it_can_be_dumped() -> None:
    assert PropertyRow(name="blocks", value="1") in list(dump_file(stopped(), WITNESS))
