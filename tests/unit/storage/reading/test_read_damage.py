"""Damage in a log that is only read: raised with all that helps, or stepped over and reported."""

import random
from collections.abc import Callable, Iterator
from itertools import accumulate, islice

import pytest

from ottla.base.errors import ApiError, CorruptionError
from ottla.base.files import join, remove_if_present
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    INTEGRITY,
    log_file_name,
)
from ottla.storage.findings import Finding
from ottla.storage.log.offsets import Isolation
from ottla.storage.reading.read_damage import known_end, place_of
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.segment.partition_files import (
    ListedSegmentFiles,
    PartitionFiles,
    SegmentFiles,
)
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, append, batch, fill, open_directory

ONE_SEGMENT = TopicConfig(segment_bytes=1 << 20, index_interval_bytes=200)
MANY_SEGMENTS = TopicConfig(segment_bytes=250, index_interval_bytes=100, segment_index_bytes=240)
BATCHES = 10
OFFSETS = list(range(2 * BATCHES))


class NeverWalked(ListedSegmentFiles):
    """Segments of which a place is found without a look at each."""

    def __iter__(self) -> Iterator[SegmentFiles]:
        raise AssertionError("all segments were looked at, for each of them")


def test_the_place_of_a_segment_is_found_without_a_look_at_all() -> None:
    segments = NeverWalked("t-0", [*range(0, 100, 10)], ["x.log"] * 10, [1] * 10)
    files = PartitionFiles(segments=segments, snapshots={}, has_transaction_index=False)
    known = known_end(was_stopped_cleanly=False, recovery_point=0, high_watermark=None)
    assert place_of(segments[3], files, known).limit == 40
    assert place_of(segments[9], files, known).recorded is known


def stopped(config: TopicConfig = ONE_SEGMENT) -> FakeFileSystem:
    """Ten batches of two records, and a clean stop."""
    disk = FakeFileSystem()
    broker = open_directory(disk, config)
    fill(broker.create_log("t", 0, TOPIC_ID), BATCHES)
    broker.close()
    return disk


def killed(*, flushed_batches: int) -> FakeFileSystem:
    disk = FakeFileSystem()
    broker = open_directory(disk, ONE_SEGMENT)
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, flushed_batches)
    log.writer.flush()
    broker.checkpoints.write()
    fill(log, BATCHES - flushed_batches)
    return disk


def reading(
    disk: FakeFileSystem, on_damage: Callable[[Finding], None] | None = None
) -> ReadOnlyLog:
    return open_for_reading(DIRECTORY, disk, on_damage=on_damage).partition("t", 0)


def offsets_of(log: ReadOnlyLog, *, read_committed: bool = False) -> list[int]:
    records = log.records.read(log.log_start_offset, read_committed=read_committed)
    return [record.offset for record in records]


def log_path(base_offset: int = 0) -> str:
    return join(DIRECTORY, "t-0", log_file_name(base_offset))


def flip(disk: FakeFileSystem, position: int, *, path: str = "", mask: int = 1) -> None:
    file = disk.open(path or log_path(), writable=True)
    file.pwrite(bytes([file.pread(1, position)[0] ^ mask]), position)


def positions(disk: FakeFileSystem) -> list[int]:
    """Where the ten batches begin, and where the last one ends."""
    return [0, *accumulate(batch.size for batch in reading(disk).batches.read(0))]


def damaged(disk: FakeFileSystem) -> CorruptionError:
    with pytest.raises(CorruptionError) as caught:
        offsets_of(reading(disk))
    return caught.value


def stepped_over(disk: FakeFileSystem) -> tuple[list[int], list[Finding]]:
    reported: list[Finding] = []
    return offsets_of(reading(disk, reported.append)), reported


def test_a_flipped_byte_in_the_active_segment_after_a_clean_stop_is_reported_in_full() -> None:
    disk = stopped()
    third = positions(disk)[3]
    flip(disk, third + 80)
    assert reading(disk).log_end_offset == 20, "the recovery point says so, whatever can be read"
    error = damaged(disk)
    assert (error.path, error.position) == (log_path(), third)
    for words in (
        "CRC",
        "offsets 6 to 7 cannot be read",
        f"ottla log check {DIRECTORY}",
        f"ottla log repair {DIRECTORY}",
        "--skip-damaged",
    ):
        assert words in str(error)


def test_what_lies_after_damage_is_read_where_that_is_asked_for() -> None:
    disk = stopped()
    at = positions(disk)
    flip(disk, at[3] + 80)
    flip(disk, at[9] + 80)
    found, reported = stepped_over(disk)
    assert found == [*range(6), *range(8, 18)]
    assert [(one.position, one.from_offset, one.until_offset) for one in reported] == [
        (at[3], 6, 8),
        (at[9], 18, 20),
    ]


def test_damage_is_reported_to_committed_readers_as_well() -> None:
    disk = stopped()
    flip(disk, positions(disk)[3] + 80)
    with pytest.raises(CorruptionError, match="offsets 6 to 7"):
        offsets_of(reading(disk), read_committed=True)
    found = offsets_of(reading(disk, lambda _: None), read_committed=True)
    assert found == [*range(6), *range(8, 20)]


@pytest.mark.parametrize("left", [0, 1, 3, 9])
@pytest.mark.parametrize("torn", [0, 30])
def test_a_log_that_ends_before_its_recovery_point_is_damaged(left: int, torn: int) -> None:
    disk = stopped()
    disk.open(log_path(), writable=True).truncate(positions(disk)[left] + torn)
    assert reading(disk).log_end_offset == 20
    assert f"offsets {2 * left} to 19 cannot be read" in str(damaged(disk))
    found, reported = stepped_over(disk)
    assert found == OFFSETS[: 2 * left]
    assert [(one.from_offset, one.until_offset) for one in reported] == [(2 * left, 20)]


def test_a_log_without_a_file_is_damaged_where_it_held_records() -> None:
    disk = stopped()
    remove_if_present(disk, log_path())
    assert "offsets 0 to 19 cannot be read" in str(damaged(disk))
    assert stepped_over(disk)[0] == []


def test_below_the_recovery_point_damage_is_no_torn_append() -> None:
    disk = killed(flushed_batches=5)
    flip(disk, positions(disk)[3] + 80)
    assert "offsets 6 to 7 cannot be read" in str(damaged(disk))
    assert stepped_over(disk)[0] == [*range(6), *range(8, 20)]


def test_from_the_recovery_point_on_a_killed_log_ends_before_what_is_torn() -> None:
    disk = killed(flushed_batches=5)
    disk.open(log_path(), writable=True).truncate(positions(disk)[7] + 80)
    assert offsets_of(reading(disk)) == OFFSETS[:14]
    found, reported = stepped_over(disk)
    assert (found, reported) == (OFFSETS[:14], [])


def test_what_sound_batches_follow_is_not_torn() -> None:
    disk = killed(flushed_batches=5)
    flip(disk, positions(disk)[7] + 80)
    assert "offsets 14 to 15 cannot be read" in str(damaged(disk))
    found, reported = stepped_over(disk)
    assert (found, len(reported)) == (OFFSETS[:14] + OFFSETS[16:], 1)


@pytest.mark.parametrize("tail", [bytes(64), b"nonsense" * 20, b"\0"])
def test_after_a_clean_stop_nothing_may_follow_the_last_batch(tail: bytes) -> None:
    disk = stopped()
    file = disk.open(log_path(), writable=True)
    file.pwrite(tail, file.size())
    assert "records after offset 19 cannot be read" in str(damaged(disk))
    found, reported = stepped_over(disk)
    assert found == OFFSETS
    assert len(reported) == 1


def test_without_a_recorded_end_bad_batches_are_still_damage_after_a_clean_stop() -> None:
    disk = stopped()
    remove_if_present(disk, join(DIRECTORY, CHECKPOINT_RECOVERY_POINT))
    flip(disk, positions(disk)[3] + 80)
    assert reading(disk).log_end_offset == 20
    assert "offsets 6 to 7" in str(damaged(disk))


def test_a_recovery_point_that_cannot_be_read_is_reported_with_what_helps() -> None:
    disk = stopped()
    path = join(DIRECTORY, CHECKPOINT_RECOVERY_POINT)
    disk.open(path, writable=True).pwrite(b"1", 0)
    with pytest.raises(CorruptionError, match=r"version 1.*ottla log repair"):
        reading(disk)
    assert stepped_over(disk) == (OFFSETS, [])


def test_an_older_segment_is_stepped_over_in_part_too() -> None:
    disk = stopped(MANY_SEGMENTS)
    segments = reading(disk).segments
    assert len(segments) > 2
    second, third = segments[1], segments[2]
    flip(disk, 80, path=second.log_path)
    error = damaged(disk)
    assert (error.path, error.position) == (second.log_path, 0)
    lost = [second.base_offset, second.base_offset + 1]
    assert stepped_over(disk)[0] == [one for one in OFFSETS if one not in lost]
    disk.open(third.log_path, writable=True).truncate(20)
    lost += range(third.base_offset, segments[3].base_offset)
    assert stepped_over(disk)[0] == [one for one in OFFSETS if one not in lost]


def lose_segment(disk: FakeFileSystem, base_offset: int, *, only_log: bool = False) -> None:
    for name in disk.list(join(DIRECTORY, "t-0")):
        if name.startswith(f"{base_offset:020d}." + ("log" if only_log else "")):
            disk.remove(join(DIRECTORY, "t-0", name))


def test_a_segment_that_is_gone_is_no_gap_that_compaction_left() -> None:
    disk = stopped(MANY_SEGMENTS)
    bases = [one.base_offset for one in reading(disk).segments]
    lose_segment(disk, bases[1])
    lost = range(bases[1], bases[2])
    assert f"offsets {lost[0]} to {lost[-1]} cannot be read" in str(damaged(disk))
    found, reported = stepped_over(disk)
    assert found == [one for one in OFFSETS if one not in lost]
    assert [(one.from_offset, one.until_offset) for one in reported] == [(bases[1], bases[2])]
    assert [one.offset for one in reading(disk).records.read(bases[2])] == OFFSETS[bases[2] :]
    with pytest.raises(CorruptionError, match="cannot be read"):
        list(reading(disk).records.read(0, bases[1] + 1))


def test_a_batch_that_is_gone_from_the_end_of_an_older_segment_is_missed() -> None:
    disk = stopped(MANY_SEGMENTS)
    first, second = reading(disk).segments[:2]
    sizes = [batch.size for batch in reading(disk).batches.read(0, second.base_offset)]
    disk.open(first.log_path, writable=True).truncate(sum(sizes[:-1]))
    lost = second.base_offset - 2, second.base_offset - 1
    assert f"offsets {lost[0]} to {lost[1]} cannot be read" in str(damaged(disk))
    assert stepped_over(disk)[0] == [one for one in OFFSETS if one not in lost]


@pytest.mark.parametrize("only_log", [True, False])
def test_first_segments_that_are_gone_were_not_taken_by_retention(only_log: bool) -> None:
    disk = stopped(MANY_SEGMENTS)
    bases = [one.base_offset for one in reading(disk).segments]
    for base_offset in bases[:2]:
        lose_segment(disk, base_offset, only_log=only_log)
    lost = bases[2]
    assert reading(disk).log_start_offset == 0
    assert f"offsets 0 to {lost - 1} cannot be read" in str(damaged(disk))
    found, reported = stepped_over(disk)
    assert found == OFFSETS[lost:]
    assert [(one.from_offset, one.until_offset) for one in reported] == [(0, lost)]
    assert [one.offset for one in reading(disk).records.read(lost)] == OFFSETS[lost:]


def test_what_is_left_of_a_log_is_lost_too_where_retention_had_taken_the_rest() -> None:
    disk = FakeFileSystem()
    broker = open_directory(disk, MANY_SEGMENTS)
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, BATCHES)
    bases = [one.base_offset for one in reading(disk).segments]
    log.maintenance.delete_records_before(bases[1] + 1)
    broker.checkpoints.write()
    log.maintenance.delete_segments_below_start()
    broker.close()
    assert offsets_of(reading(disk)) == OFFSETS[bases[1] + 1 :]
    lose_segment(disk, bases[1])
    assert f"offsets {bases[1] + 1} to {bases[2] - 1} cannot be read" in str(damaged(disk))


def retention_steps(disk: FakeFileSystem) -> Iterator[None]:
    """Retention comes by three times; stops after each of its steps."""
    broker = open_directory(disk, MANY_SEGMENTS)
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, BATCHES)
    log.writer.flush()
    broker.checkpoints.write()
    disk.open(join(DIRECTORY, "t-0", INTEGRITY)).sync()
    log.sync_directory()
    bases = [one.base_offset for one in reading(disk).segments]
    for offset in (bases[1], bases[3] + 1, bases[-1]):
        log.maintenance.delete_records_before(offset)
        yield
        broker.checkpoints.write_log_starts()
        yield
        for one in log.maintenance.delete_segments_below_start(durably=False):
            yield
            for path in one.paths:
                disk.remove(path)
                yield
        log.sync_directory()
        log.offsets.is_front_unsynced = False
        broker.checkpoints.write()
        yield


@pytest.mark.slow
def test_no_step_of_retention_is_taken_for_a_loss_by_readers_nor_after_a_power_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FakeFileSystem()
    reader = None
    step_count = 0
    for _ in retention_steps(disk):
        reader = reader or reading(disk)
        step_count += 1
        found = offsets_of(reading(disk))
        assert found == OFFSETS[-len(found) :]
    assert reader is not None
    with pytest.raises(ApiError):
        list(reader.records.read(0))
    for seed in range(3 * step_count):
        before = FakeFileSystem()
        list(islice(retention_steps(before), seed // 3 + 1))
        crashed = before.crash(CrashMode.RANDOM, seed)
        left = offsets_of(reading(crashed))
        assert left == OFFSETS[-len(left) :]
        open_directory(crashed, MANY_SEGMENTS)
    assert "lost" not in caplog.text


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_start_names_the_segments_that_are_gone(
    number: int, is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = stopped(MANY_SEGMENTS)
    if is_killed:
        disk.remove(join(DIRECTORY, CLEAN_SHUTDOWN))
    bases = [one.base_offset for one in reading(disk).segments]
    lose_segment(disk, bases[number])
    log = open_directory(disk, MANY_SEGMENTS).logs["t", 0]
    assert f"offsets {bases[number]} to {bases[number + 1] - 1} are lost" in caplog.text
    assert log_path(bases[number + 1]) in caplog.text
    assert log.log_start_offset == (bases[1] if number == 0 else 0)
    given = log.reader.read(bases[number], 1000, Isolation.HIGH_WATERMARK) if number else None
    if given is not None and given.records is not None:
        assert (
            next(iter_batches(given.records.read(), allow_torn_tail=True)).base_offset
            == (bases[number + 1])
        )


def test_a_start_after_a_kill_names_what_was_flushed_and_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = stopped()
    disk.remove(join(DIRECTORY, CLEAN_SHUTDOWN))
    disk.open(log_path(), writable=True).truncate(positions(disk)[7])
    open_directory(disk, ONE_SEGMENT)
    assert "offsets 14 to 19 are lost" in caplog.text
    assert log_path() in caplog.text


def test_after_a_repair_a_lost_start_is_known() -> None:
    disk = stopped(MANY_SEGMENTS)
    bases = [one.base_offset for one in reading(disk).segments]
    lose_segment(disk, bases[0])
    assert repair(disk, DIRECTORY, RepairOptions(now_ms=NOW_MS)).is_sound
    assert offsets_of(reading(disk)) == OFFSETS[bases[1] :]
    open_directory(disk, MANY_SEGMENTS).close()
    assert offsets_of(reading(disk)) == OFFSETS[bases[1] :]


def test_after_a_repair_a_gap_is_known() -> None:
    disk = stopped(MANY_SEGMENTS)
    bases = [one.base_offset for one in reading(disk).segments]
    lose_segment(disk, bases[1])
    assert repair(disk, DIRECTORY, RepairOptions(now_ms=NOW_MS)).is_sound
    left = [one for one in OFFSETS if not bases[1] <= one < bases[2]]
    assert offsets_of(reading(disk)) == left
    open_directory(disk, MANY_SEGMENTS).close()
    assert offsets_of(reading(disk)) == left


def test_the_gaps_of_compaction_and_of_followers_are_no_damage() -> None:
    disk = FakeFileSystem()
    broker = open_directory(disk, MANY_SEGMENTS)
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, 3)
    records = batch(b"far")
    records[:8] = (10).to_bytes(8, "big")
    log.writer.append_as_follower(records, now_ms=NOW_MS)
    log.writer.write_out()
    want = [*range(6), 10]
    assert offsets_of(reading(disk)) == want
    broker.close()
    assert offsets_of(reading(disk)) == want


@pytest.mark.slow
@pytest.mark.parametrize("config", [ONE_SEGMENT, MANY_SEGMENTS])
def test_no_flipped_bit_of_a_log_loses_a_record_in_silence(config: TopicConfig) -> None:
    """Ranges too: a search by offset must not pass over a batch that says another offset."""
    sound = stopped(config)
    want = [(one.offset, one.value) for one in reading(sound).records.read(0)]
    paths = [one.log_path for one in reading(sound).segments]
    chance = random.Random(7)
    for path in paths:
        size = sound.open(path).size()
        for position in sorted(chance.sample(range(size), min(size, 250))):
            disk = sound.snapshot()
            flip(disk, position, path=path, mask=1 << chance.randrange(8))
            for start, end in ((0, 20), (0, 7), (7, 13), (13, 20)):
                expected = [one for one in want if start <= one[0] < end]
                try:
                    found = [
                        (one.offset, one.value) for one in reading(disk).records.read(start, end)
                    ]
                except CorruptionError:
                    continue
                assert found == expected, (path, position, start, end)


def test_a_broker_that_starts_meanwhile_is_no_damage() -> None:
    disk = stopped()
    reader = reading(disk)
    broker = open_directory(disk, ONE_SEGMENT)
    file = disk.open(log_path(), writable=True)
    file.pwrite(b"half of an append", file.size())
    assert reader.log_end_offset == 20
    broker.abandon()


def test_a_log_that_was_recreated_is_not_taken_for_the_end_of_the_old_one() -> None:
    disk = killed(flushed_batches=10)
    directory = open_for_reading(DIRECTORY, disk)
    reader = directory.partition("t", 0)
    disk.open(log_path(), writable=True).truncate(0)
    OffsetCheckpoint(disk, join(DIRECTORY, CHECKPOINT_RECOVERY_POINT)).write({("t", 0): 0})
    assert reader.log_end_offset == 0


def test_a_log_that_is_cut_on_purpose_is_no_damage() -> None:
    disk = FakeFileSystem()
    broker = open_directory(disk, ONE_SEGMENT)
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, BATCHES)
    log.writer.flush()
    broker.checkpoints.write()
    log.maintenance.truncate_to(8, now_ms=NOW_MS)
    assert offsets_of(reading(disk)) == OFFSETS[:8]
    append(log, b"8")
    assert offsets_of(reading(disk)) == OFFSETS[:9]
    assert disk.status(join(DIRECTORY, CLEAN_SHUTDOWN)) is None
