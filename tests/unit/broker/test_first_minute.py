"""What a broker knows before its first checkpoint: after a kill, all miss what is gone by then."""

import itertools
import logging
from collections.abc import Callable

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import join
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.record.batch import batch_at
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.filenames import INTEGRITY, LEADER_EPOCHS, REPLICAS_MARK, log_file_name
from ottla.storage.findings import FindingKind
from ottla.storage.log.offsets import Isolation
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.metadata import lose_metadata

SMALL = {"segment.bytes": "200"}
PARTITIONS = [("one", 0), ("grown", 2), (CONSUMER_OFFSETS, 1), (TRANSACTION_STATE, 0)]
COUNT = 10


def killed(mode: CrashMode = CrashMode.KEEP, *, count: int = COUNT) -> FakeFileSystem:
    """The disk of a broker that was killed a moment after its first start."""
    files = disk("/d")
    broker = open_broker(files, ids=itertools.count(1000, 7919))
    for name, partitions in (
        ("one", 1),
        ("grown", 1),
        (CONSUMER_OFFSETS, 2),
        (TRANSACTION_STATE, 1),
    ):
        broker.admin.create_topic(NewTopic(name=name, partition_count=partitions, overrides=SMALL))
    broker.admin.grow_topic(TopicGrowth(name="grown", partition_count=3))
    for number in range(count):
        for key in PARTITIONS:
            broker.appends.append(
                broker.topics.partition(*key), batch(b"%d" % number), now_ms=NOW_MS
            )
        broker.appends.write_out()
    return files.crash(mode)


def remove(files: FakeFileSystem, key: tuple[str, int], *, keeps: str | None = None) -> None:
    """Removes a partition's directory, or the files with the last segment's offset but some."""
    path = f"/d/{key[0]}-{key[1]}"
    names = list(files.list(path))
    if keeps is not None:
        last = max(name for name in names if name.endswith(".log"))
        names = [one for one in names if one[:20] == last[:20] and not one.endswith(keeps or "?")]
    for name in names:
        files.remove(join(path, name))
    if keeps is None:
        files.remove_directory(path)


def end_of(files: FakeFileSystem, key: tuple[str, int]) -> int:
    return ReadOnlyLogDirectory("/d", files).partition(*key).log_end_offset


@pytest.mark.parametrize("key", PARTITIONS, ids=str)
@pytest.mark.parametrize("mode", [CrashMode.KEEP, CrashMode.STRICT], ids=lambda one: one.value)
def test_a_partition_whose_directory_is_lost_is_missed_by_all(
    key: tuple[str, int], mode: CrashMode
) -> None:
    files = killed(mode)
    remove(files, key)
    findings = check(files, "/d").findings
    found = [one.path for one in findings if one.kind is FindingKind.LOST_PARTITION]
    assert found == [f"/d/{key[0]}-{key[1]}"]
    reading = ReadOnlyLogDirectory("/d", files)
    assert list(reading.lost()) == [key]
    with pytest.raises(UserError, match="names it; put it back"):
        reading.partition(*key)
    broker = open_broker(files)
    with pytest.raises(ApiError, match=f"{key[0]}-{key[1]} is not there") as error:
        broker.topics.partition(*key)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(list(broker.topics)) == 4


@pytest.mark.parametrize("keeps", ["index", ""], ids=["its log", "all its files"])
def test_a_last_segment_that_is_lost_after_a_kill_is_missed_by_all(
    keeps: str, caplog: pytest.LogCaptureFixture
) -> None:
    files, key = killed(), ("one", 0)
    assert end_of(files, key) == COUNT
    remove(files, key, keeps=keeps)
    kinds = {one.kind for one in check(files, "/d").findings if not one.is_note}
    assert FindingKind.LOST_OFFSETS in kinds
    log = ReadOnlyLogDirectory("/d", files).partition(*key)
    lost = log.offsets.readable_end_offset
    assert lost < log.log_end_offset <= COUNT
    with pytest.raises(
        CorruptionError, match="ottla-boot says that it reached at least to offset 10"
    ):
        list(log.records.read(0))
    with caplog.at_level(logging.ERROR):
        broker = open_broker(files)
    said = f"ends at offset {lost}, but ottla-boot says that it was written to {COUNT}: offsets"
    assert said in caplog.text
    # No lost offset is given out again, nor after a power failure.
    end = broker.topics.partition(*key).log.log_end_offset
    assert end == COUNT
    broker.appends.append(broker.topics.partition(*key), batch(b"more"), now_ms=NOW_MS)
    broker.appends.write_out()
    broker.topics.partition(*key).log.writer.flush()
    for mode in (CrashMode.KEEP, CrashMode.STRICT):
        again = open_broker(files.snapshot().crash(mode)).topics.partition(*key).log
        assert again.log_end_offset == end + 1


def test_a_lost_last_segment_is_no_news_after_a_power_failure() -> None:
    files, key = killed().crash(CrashMode.RANDOM, 1), ("one", 0)
    remove(files, key, keeps="")
    assert not [one for one in check(files, "/d").findings if one.path == "/d/one-0"]
    assert open_broker(files).topics.partition(*key).log.log_end_offset < COUNT


@pytest.mark.parametrize("segment", [0, -1], ids=["the first segment", "the last segment"])
def test_sound_batches_after_a_flipped_bit_are_kept_after_a_kill(
    segment: int, caplog: pytest.LogCaptureFixture
) -> None:
    files, key = killed(), ("one", 0)
    bases = sorted(int(one[:20]) for one in files.list("/d/one-0") if one.endswith(".log"))
    file = files.open(f"/d/one-0/{log_file_name(bases[segment])}", writable=True)
    file.pwrite(b"\xff", 66)
    log = ReadOnlyLogDirectory("/d", files).partition(*key)
    assert log.log_end_offset == COUNT
    with pytest.raises(CorruptionError, match="at byte 0: CRC mismatch"):
        list(log.batches.read(bases[segment]))
    assert FindingKind.LOG_DAMAGE in {one.kind for one in check(files, "/d").findings}
    # Nor does a second start take it for a torn end, not even after a power failure.
    for mode in (CrashMode.KEEP, CrashMode.STRICT, CrashMode.STRICT):
        with caplog.at_level(logging.ERROR):
            broker = open_broker(files)
        found = broker.topics.partition(*key).log
        assert found.log_end_offset == COUNT
        data = found.reader.read(bases[segment] + 1, 1, Isolation.HIGH_WATERMARK)
        assert data.records is not None
        files = files.crash(mode)
    assert "it is kept, and not served" in caplog.text


def test_a_flipped_bit_in_the_very_last_batch_is_no_torn_append_after_a_kill() -> None:
    files, key = killed(), ("one", 0)
    name = max(one for one in files.list("/d/one-0") if one.endswith(".log"))
    file = files.open(f"/d/one-0/{name}", writable=True)
    file.pwrite(b"\xff", file.size() - 1)
    log = ReadOnlyLogDirectory("/d", files).partition(*key)
    assert (log.offsets.readable_end_offset, log.log_end_offset) == (COUNT - 1, COUNT)
    with pytest.raises(CorruptionError, match="CRC mismatch"):
        list(log.records.read(0))
    assert open_broker(files).topics.partition(*key).log.log_end_offset == COUNT


@pytest.mark.slow
@pytest.mark.parametrize("count", [COUNT, COUNT - 1], ids=["of two", "of one"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("mask", [0x40, 0x41], ids=["a bit", "two bits"])
def test_what_no_checksum_covers_in_the_last_batch_is_checked(
    count: int, *, is_clean: bool, mask: int
) -> None:
    sound = killed(count=count)
    if is_clean:
        open_broker(sound).close()
    for byte in (0, 4, 6, 7, 8, 12, 16):
        files = sound.snapshot()
        file = files.open(last_log(files), writable=True)
        position = file.size() - 69 + byte
        file.pwrite(bytes([file.pread(1, position)[0] ^ mask]), position)
        findings = [one for one in check(files, "/d").findings if not one.is_note]
        assert file.path in {one.path for one in findings}, byte
        if byte in (4, 6, 7) and mask == 0x40:
            assert FindingKind.BATCH_OFFSET in {one.kind for one in findings}
            repair(files, "/d", RepairOptions(now_ms=NOW_MS))
            log = ReadOnlyLogDirectory("/d", files).partition("one", 0)
            assert [one.offset for one in log.records.read(0)] == list(range(count))


def remove_front(files: FakeFileSystem) -> None:
    """The first segment, and the file that shows where the log began."""
    for name in list(files.list("/d/one-0")):
        if name.startswith(f"{0:020}.") or name == LEADER_EPOCHS:
            files.remove(join("/d/one-0", name))


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_first_segment_that_is_lost_with_the_epochs_is_missed_by_all(
    caplog: pytest.LogCaptureFixture, *, is_clean: bool
) -> None:
    files = killed()
    if is_clean:
        open_broker(files).close()
    remove_front(files)
    path = join("/d/one-0", log_file_name(2))
    lost = [one for one in check(files, "/d").findings if one.kind is FindingKind.LOST_OFFSETS]
    assert [one.path for one in lost] == [path]
    log = ReadOnlyLogDirectory("/d", files).partition("one", 0)
    assert log.log_start_offset == 0
    with pytest.raises(CorruptionError, match="offsets 0 to 1 cannot be read"):
        list(log.records.read(0))
    with caplog.at_level(logging.ERROR):
        open_broker(files)
    assert (
        f"{path}: the segments before it are missing: {INTEGRITY} begins at offset 0" in caplog.text
    )
    # The log begins with what is left of it from now on.
    caplog.clear()
    files = files.crash(CrashMode.KEEP)
    log = ReadOnlyLogDirectory("/d", files).partition("one", 0)
    assert [one.offset for one in log.records.read(log.log_start_offset)] == list(range(2, COUNT))
    with caplog.at_level(logging.ERROR):
        open_broker(files)
    assert not caplog.messages


@pytest.mark.parametrize("mode", [CrashMode.KEEP, CrashMode.STRICT], ids=lambda one: one.value)
def test_a_first_segment_that_was_deleted_is_not_missed(
    mode: CrashMode, caplog: pytest.LogCaptureFixture
) -> None:
    files = killed()
    broker = open_broker(files)
    broker.appends.append(broker.topics.partition("one", 0), batch(b"more"), now_ms=NOW_MS)
    broker.appends.write_out()
    log = broker.topics.partition("one", 0).log
    log.maintenance.delete_records_before(2)
    for one in log.maintenance.delete_segments_below_start():
        one.remove()
    files = files.crash(mode)
    remove_front(files)
    reasons = [one.reason for one in check(files, "/d").findings]
    assert not [one for one in reasons if "the segments before it are missing" in one]
    with caplog.at_level(logging.ERROR):
        open_broker(files)
    assert "the segments before it are missing" not in caplog.text


def last_log(files: FakeFileSystem) -> str:
    return join("/d/one-0", max(one for one in files.list("/d/one-0") if one.endswith(".log")))


def cut_a_byte(files: FakeFileSystem) -> None:
    file = files.open(last_log(files), writable=True)
    file.truncate(file.size() - 1)


def cut_to_a_prefix(files: FakeFileSystem) -> None:
    files.open(last_log(files), writable=True).truncate(5)


def cut_a_batch(files: FakeFileSystem) -> None:
    file = files.open(last_log(files), writable=True)
    file.truncate(file.size() - 69)


def cut_all(files: FakeFileSystem) -> None:
    files.open(last_log(files), writable=True).truncate(0)


def zero_a_batch(files: FakeFileSystem) -> None:
    file = files.open(last_log(files), writable=True)
    file.pwrite(bytes(69), file.size() - 69)


def damage_a_length(files: FakeFileSystem) -> None:
    file = files.open(last_log(files), writable=True)
    file.pwrite(b"\x01", file.size() - 69 + 8)


def remove_all_logs(files: FakeFileSystem) -> None:
    for name in list(files.list("/d/one-0")):
        if name.endswith(".log"):
            files.remove(join("/d/one-0", name))


LOST_ENDS = [cut_a_byte, cut_to_a_prefix, cut_a_batch, cut_all]
LOST_ENDS += [zero_a_batch, damage_a_length, remove_all_logs]


@pytest.mark.parametrize("damage", LOST_ENDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("age", ["young", "old"])
def test_a_lost_end_is_no_torn_append_after_a_kill(
    damage: Callable[[FakeFileSystem], None], age: str, caplog: pytest.LogCaptureFixture
) -> None:
    files, key = killed(), ("one", 0)
    count = COUNT
    if age == "old":  # a broker that had recovered the directory was killed too
        broker = open_broker(files)
        broker.appends.append(broker.topics.partition(*key), batch(b"late"), now_ms=NOW_MS)
        broker.appends.write_out()
        files, count = files.crash(CrashMode.KEEP), COUNT + 1
    damage(files)
    kinds = {one.kind for one in check(files, "/d").findings if not one.is_note}
    assert kinds & {FindingKind.LOST_OFFSETS, FindingKind.LOG_DAMAGE}
    log = ReadOnlyLogDirectory("/d", files).partition(*key)
    assert log.offsets.readable_end_offset < log.log_end_offset == count
    with pytest.raises(CorruptionError):
        list(log.records.read(0))
    with caplog.at_level(logging.ERROR):
        for mode in (CrashMode.KEEP, CrashMode.STRICT):
            found = open_broker(files).topics.partition(*key).log
            # No acknowledged offset is given out again, not even after a power failure.
            assert found.log_end_offset == count
            files = files.crash(mode)
    assert "one-0" in caplog.text
    with pytest.raises((CorruptionError, ApiError)):
        list(ReadOnlyLogDirectory("/d", files).partition(*key).records.read(0))


def test_a_log_that_was_cut_on_purpose_has_lost_nothing_after_a_kill() -> None:
    files, key = killed(), ("one", 0)
    for offset in (7, 3, 0):
        broker = open_broker(files)
        broker.topics.partition(*key).log.maintenance.truncate_to(offset, now_ms=NOW_MS)
        files = files.crash(CrashMode.KEEP)
        log = ReadOnlyLogDirectory("/d", files).partition(*key)
        assert (log.offsets.readable_end_offset, log.log_end_offset) == (offset, offset)
        assert not [one for one in check(files, "/d").findings if "one-0" in one.path]


def test_a_lost_metadata_log_hides_no_records_from_readers_of_committed_ones() -> None:
    files = killed()
    lose_metadata(files)
    directory = ReadOnlyLogDirectory("/d", files)
    assert directory.is_ottlas
    assert not directory.is_replicated
    files.make_directory(join("/d", REPLICAS_MARK))  # which is no mark
    assert not directory.is_replicated


@pytest.mark.parametrize("mode", [CrashMode.KEEP, CrashMode.STRICT], ids=lambda one: one.value)
def test_an_empty_log_file_inside_a_segment_hides_none_of_its_records(
    mode: CrashMode, caplog: pytest.LogCaptureFixture
) -> None:
    files, key = killed(), ("one", 0)
    if mode is CrashMode.STRICT:
        open_broker(files).close()
        files = files.crash(mode)
    path = join("/d/one-0", log_file_name(1))
    files.open(path, create=True).close()
    log = open_broker(files).topics.partition(*key).log
    for offset in range(COUNT):
        found = log.reader.read(offset, 1, Isolation.HIGH_WATERMARK).records
        assert found is not None
        assert batch_at(found.read()).base_offset == offset
    assert f"{path}: is empty, and lies inside the segment before it" in caplog.text


def test_a_torn_append_is_cut_off_after_a_kill() -> None:
    files, key = killed(), ("one", 0)
    name = max(one for one in files.list("/d/one-0") if one.endswith(".log"))
    file = files.open(f"/d/one-0/{name}", writable=True)
    file.pwrite(bytes(batch(b"torn"))[:40], file.size())
    assert end_of(files, key) == COUNT
    log = open_broker(files).topics.partition(*key).log
    assert (log.log_end_offset, log.segments.active.log.size % 69) == (COUNT, 0)
