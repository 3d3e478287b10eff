"""What Ottla keeps beside Kafka's files, so that a flipped bit in them is noticed or repaired."""

from dataclasses import replace

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, replace_file
from ottla.base.partitions import TopicPartition
from ottla.record.layout import BASE_OFFSET
from ottla.storage.diagnosis.dump import dump_file
from ottla.storage.diagnosis.rows import PropertyRow
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.checksummed import with_checksum, without_checksum
from ottla.storage.files.filenames import (
    CHECKPOINT_LOG_START,
    COPIED_LOG_STARTS,
    COPIED_META_PROPERTIES,
    INTEGRITY,
    LEADER_EPOCHS,
    META_PROPERTIES,
    PARTITION_METADATA,
)
from ottla.storage.files.integrity import (
    Integrity,
    SegmentFacts,
    blank_integrity,
    integrity_header,
    integrity_text,
    is_ours_alone,
    parse_integrity,
    read_integrity,
)
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem, IoKind, RecordingFileSystem
from tests.support.logs import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
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
    known = read_integrity(disk, PARTITION)
    assert known is not None
    assert known.topic_id == TOPIC_ID
    return known.gapless_from


def test_the_first_line_alone_says_whose_a_log_is() -> None:
    disk = FakeFileSystem()
    disk.make_directory("data")
    disk.make_directory(PARTITION)
    assert not is_ours_alone(disk, PARTITION)
    known = Integrity(
        topic_id=TOPIC_ID, gapless_from=0, segments={0: SegmentFacts(first_checksum=7)}
    )
    content = integrity_text(known)
    replace_file(disk, join(PARTITION, INTEGRITY), content[:-3] + b"xx\n")
    assert is_ours_alone(disk, PARTITION)
    header = integrity_header(disk, PARTITION)
    assert header is not None
    assert (header.topic_id, header.segments) == (TOPIC_ID, {})
    replace_file(disk, join(PARTITION, INTEGRITY), b"x" + content)
    assert not is_ours_alone(disk, PARTITION)


def test_the_first_line_is_read_whole_however_long_it_and_the_file_are() -> None:
    disk = FakeFileSystem()
    disk.make_directory("data")
    disk.make_directory(PARTITION)
    most = 2**63 - 1
    known = Integrity(
        topic_id=TOPIC_ID,
        partition=TopicPartition("t" * 249, 2**31 - 1),
        gapless_from=most,
        gap_checkpoint=most,
        start_offset=most,
        segments=dict.fromkeys(range(most - 100, most), SegmentFacts(1, (2**31, 2**32 - 1), 2**31)),
    )
    replace_file(disk, join(PARTITION, INTEGRITY), integrity_text(known))
    header = integrity_header(disk, PARTITION)
    assert header is not None
    assert (header.partition, header.gap_checkpoint) == (known.partition, most)


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


FACTS = {0: SegmentFacts(7, (68, 99)), 147013: SegmentFacts(0xFFFFFFFF), 200000: SegmentFacts()}


@pytest.mark.parametrize(
    "known",
    [
        Integrity(),
        Integrity(topic_id=TOPIC_ID, partition=TopicPartition("a-b.c", 4), gapless_from=0),
        Integrity(gapless_from=4711, gap_checkpoint=9, aborts_are_indexed=True),
        Integrity(partition=TopicPartition("t", 0), start_offset=40, segments=FACTS),
        Integrity(segments=FACTS, snapshots={147013: 0xFFFFFFFF, 200041: 0}),
    ],
)
def test_what_is_written_is_read_back(known: Integrity) -> None:
    content = integrity_text(known)
    found = parse_integrity("f", content)
    assert found == replace(known, line_count=content.count(b"\n"))


def test_any_flipped_bit_and_any_missing_byte_of_a_checksummed_file_is_noticed() -> None:
    content = with_checksum(b"0\nabc\n")
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError):
            without_checksum("f", bytes(damaged))
    for size in range(len(content)):
        with pytest.raises(CorruptionError):
            without_checksum("f", content[:size])


def test_a_damaged_line_ends_what_is_believed_and_without_the_first_nothing_is() -> None:
    known = Integrity(partition=TopicPartition("t", 0), segments=FACTS)
    content = integrity_text(known)
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        line = content[: bit // 8].count(b"\n")
        if line == 0:
            with pytest.raises(CorruptionError):
                parse_integrity("f", bytes(damaged))
        else:
            found = parse_integrity("f", bytes(damaged))
            assert not found.is_whole
            assert list(found.segments.items()) == list(FACTS.items())[: line - 1]


@pytest.mark.parametrize("content", [b"", b"log 1 - - - - - 5d1c22f0\n", b"\xff", b"log\n"])
def test_what_is_no_integrity_file_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptionError):
        parse_integrity("f", content)


def test_an_integrity_file_can_be_dumped() -> None:
    disk = FakeFileSystem()
    open_log(disk)
    found = list(dump_file(disk, join(PARTITION, INTEGRITY)))
    assert PropertyRow(name="gapless_from", value="0") in found
    assert PropertyRow(name="partition", value="t-0") in found


def test_where_kafka_has_been_what_is_known_begins_with_the_log_as_it_is() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk), 3)
    assert gapless_from(disk) == 0
    after = kill(disk)
    blank_integrity(after, PARTITION)
    open_log(after)
    assert gapless_from(after) == 6


def test_a_damaged_file_counts_as_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = FakeFileSystem()
    fill(open_log(disk), 3)
    after = kill(disk)
    replace_file(after, join(PARTITION, INTEGRITY), b"nonsense")
    fill(open_log(after), 1)
    assert gapless_from(after) == 6
    assert f"{INTEGRITY} at byte 0: the checksum does not match" in caplog.text


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


def test_a_cut_log_continues_without_gaps() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk, ROOMY), 3)
    blank_integrity(disk, PARTITION)
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
    log.integrity.open_gaps(4)
    log.integrity.leave_gaps()
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
    assert f"{COPIED_LOG_STARTS}, which has a checksum, at 4" in caplog.text


def test_a_log_that_kafka_has_loaded_starts_where_kafka_says() -> None:
    disk = with_start(4)
    replace_file(disk, join("data", CHECKPOINT_LOG_START), b"0\n1\nt 0 7\n")
    blank_integrity(disk, PARTITION)
    assert start_of(disk) == 7
    # And the new file vouches for nothing that is older.
    replace_file(disk, join("data", CHECKPOINT_LOG_START), b"0\n1\nt 0 5\n")
    assert start_of(kill(disk)) == 7


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_without_a_copy_the_checkpoint_counts(content: bytes) -> None:
    disk = with_start(4)
    replace_file(disk, join("data", COPIED_LOG_STARTS), content)
    assert start_of(disk) == 4
    assert read_file(disk, join("data", COPIED_LOG_STARTS)) == with_checksum(b"0\n1\nt 0 4\n")


@pytest.mark.slow
def test_a_flipped_bit_of_a_topics_id_is_repaired() -> None:
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
    copied = disk.status(join("data", COPIED_META_PROPERTIES))
    assert copied is not None
    disk.set_modified_ms(path, copied.modified_ms + ms_later)
    return open_directory(disk)


def test_one_flipped_bit_of_meta_properties_is_repaired() -> None:
    assert with_changed_properties(b"node.id=3", ms_later=0).properties.node_id == 1


def test_meta_properties_that_somebody_has_changed_since_are_believed() -> None:
    assert with_changed_properties(b"node.id=3", ms_later=1).properties.node_id == 3
    assert with_changed_properties(b"node.id=12", ms_later=0).properties.node_id == 12


# One file


def own_files(disk: FakeFileSystem) -> list[str]:
    return [name for name in disk.list(PARTITION) if "ottla" in name]


def test_a_partition_has_one_file_of_ottlas_whatever_is_done_to_its_log() -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 30)
    assert len(log.segments) > 4
    log.maintenance.truncate_to(20, now_ms=NOW_MS)
    fill(log, 10)
    log.maintenance.delete_records_before(12)
    log.maintenance.delete_segments_below_start()
    directory.close()
    assert own_files(disk) == [INTEGRITY]
    open_log(disk)
    assert own_files(disk) == [INTEGRITY]


@pytest.mark.parametrize("is_killed", [True, False], ids=["a kill", "a stop"])
def test_a_snapshot_of_another_log_is_not_believed(
    is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk, SMALL)
    log, other = (directory.create_log(name, 0, TOPIC_ID) for name in ("t", "u"))
    for number in range(20):
        append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=number)
        append(other, b"x", producer_id=8, producer_epoch=0, base_sequence=number)
    for one in (log, other):
        one.writer.roll(NOW_MS)
        one.writer.flush()
    directory.checkpoints.write()
    if not is_killed:
        directory.close()
    disk = kill(disk)
    path = f"{20:020d}.snapshot"
    replace_file(disk, join(PARTITION, path), read_file(disk, join("data/u-0", path)))
    log = open_directory(disk, SMALL).logs["t", 0]
    assert {key: one.last_sequence for key, one in log.producers.entries.items()} == {7: 19}
    assert "it is intact, but not the snapshot that was taken here" in caplog.text


def test_an_append_never_waits_for_the_file() -> None:
    disk = RecordingFileSystem(FakeFileSystem())
    log = open_log(disk)
    fill(log, 1)
    before = len(disk.calls)
    fill(log, 30)
    assert len(log.segments) > 4
    kinds = {one.kind for one in disk.calls[before:]}
    assert not kinds & {IoKind.SYNC, IoKind.SYNC_DIRECTORY}
    # And touches it only where a segment begins or ends.
    touched = [one for one in disk.calls[before:] if INTEGRITY in one.path]
    writes = [one for one in touched if one.kind is IoKind.PWRITE]
    assert len(writes) == 2 * len(log.segments) - 2


def test_a_smaller_number_in_the_epoch_file_after_retention_is_no_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 30)
    log.maintenance.delete_records_before(30)
    log.maintenance.delete_segments_below_start()
    start = log.log_start_offset
    directory.close()
    path = join(PARTITION, LEADER_EPOCHS)
    content = read_file(disk, path)
    assert b"0 30\n" in content
    replace_file(disk, path, content.replace(b"0 30\n", b"0 14\n"))
    caplog.clear()
    again = open_log(disk)
    assert again.log_start_offset == start
    assert "are lost" not in caplog.text
