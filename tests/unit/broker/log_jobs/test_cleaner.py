"""The cleaner without threads: what it takes next, and how it deals with failures."""

from unittest.mock import patch

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.files import FileSystem, join
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.broker.log_jobs.cleaner_troubles import TROUBLES_FILE_NAME, read_troubles
from ottla.broker.log_jobs.cleaning_state import Aborted
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from ottla.storage.compaction.compaction import CompactionResult, Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import FileSuffix, parse_file_name
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem, FaultyFileSystem
from tests.support.brokers import NOW_MS, disk, open_broker

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "400"}


def later(ms: int = 0) -> Timestamps:
    return Timestamps(now_ms=NOW_MS + ms, monotonic_ms=float(ms))


def broker_with(file_system: FileSystem, **topics: int) -> Broker:
    """Compacted topics of one partition, each with so many records of three keys."""
    broker = open_broker(file_system, "/d")
    for name, count in topics.items():
        broker.admin.create_topic(NewTopic(name=name, partition_count=1, overrides=COMPACTED))
        write(broker, name, count)
    return broker


def write(broker: Broker, topic: str, count: int, key: bytes = b"key") -> None:
    for number in range(count):
        builder = RecordBatchBuilder()
        builder.append(key + b"%d" % (number % 3), b"%d" % number, NOW_MS)
        broker.appends.append(
            broker.topics.partition(topic, 0), bytearray(builder.build()), now_ms=NOW_MS
        )
    broker.appends.write_out()
    log_of(broker, topic).writer.flush()


def carry_out(task: CleaningTask, file_system: FileSystem) -> CompactionResult:
    key_filter = PlainKeyFilter(task.plan.map_bytes, task.plan.load_factor)
    return compact(task.plan, key_filter, Surroundings(file_system=file_system))


def log_of(broker: Broker, topic: str) -> PartitionLog:
    return broker.topics.partition(topic, 0).log


def values(log: PartitionLog) -> list[bytes | None]:
    return [
        record.value
        for segment in log.segments.values
        for batch in iter_batches(segment.log.read(0, segment.log.size))
        for record in read_records(batch)
    ]


def damage(broker: Broker, file_system: FakeFileSystem, number: int) -> str:
    """Garbles a sealed segment's last byte; returns its path."""
    path = log_of(broker, "t").segments.values[number].log.path
    flip_last_byte(file_system, path)
    return path


def flip_last_byte(file_system: FakeFileSystem, path: str) -> None:
    file = file_system.open(path, writable=True)
    size = file.size()
    file.pwrite(bytes([file.pread(1, size - 1)[0] ^ 1]), size - 1)
    file.close()


def test_the_log_with_the_largest_dirty_share_comes_first() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, small=8, large=40)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    broker.log_jobs.cleaner.finish(task, carry_out(task, file_system), later())
    write(broker, task.key[0], 8)
    second = broker.log_jobs.cleaner.next_task(later())
    assert second is not None
    assert {task.key[0], second.key[0]} == {"small", "large"}


def test_a_pass_leaves_each_keys_last_record_and_its_checkpoint() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    log = log_of(broker, "t")
    end = log.segments.active.base_offset
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    broker.log_jobs.cleaner.finish(task, carry_out(task, file_system), later())
    assert len(values(log)) == 3 + 30 - end
    points = OffsetCheckpoint(file_system, "/d/cleaner-offset-checkpoint").read()
    assert points == {("t", 0): end}
    assert broker.log_jobs.cleaner.next_task(later()) is None


def test_the_segments_that_were_replaced_are_removed_after_the_delay() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    broker.log_jobs.cleaner.finish(task, carry_out(task, file_system), later())
    retired = deleted_files(file_system)
    assert retired
    broker.scheduler.run_due(later(59_000))
    assert set(retired) <= set(file_system.list("/d/t-0"))
    for _ in range(5):
        broker.scheduler.run_due(later(61_000))
    assert not deleted_files(file_system)


def deleted_files(file_system: FileSystem) -> list[str]:
    parsed = [parse_file_name(name) for name in file_system.list("/d/t-0")]
    return [one.text for one in parsed if one and one.suffix is FileSuffix.DELETED]


def test_a_log_that_is_kept_for_a_pass_is_given_to_nobody_else() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    assert broker.log_jobs.access.is_being_cleaned(task.log)
    assert broker.log_jobs.cleaner.next_task(later()) is None
    assert broker.log_jobs.cleaner.task_for(("t", 0), later()) is None


def test_what_a_pass_has_made_of_a_deleted_topic_is_thrown_away() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    result = carry_out(task, file_system)
    broker.admin.delete_topic(broker.topics.get("t"))
    assert task.is_stopped
    assert broker.log_jobs.cleaner.states.get(("t", 0)) == Aborted(0)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1, overrides=COMPACTED))
    write(broker, "t", 30)
    # The new one must wait until the pass over the old one has come back.
    assert broker.log_jobs.cleaner.next_task(later()) is None
    broker.log_jobs.cleaner.finish(task, result, later())
    assert len(values(log_of(broker, "t"))) == 30
    assert broker.log_jobs.cleaner.next_task(later()) is not None


def test_a_pass_over_segments_that_have_gone_meanwhile_is_thrown_away() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    result = carry_out(task, file_system)
    log = log_of(broker, "t")
    first = log.segments.first
    log.segments.remove([first])
    broker.log_jobs.cleaner.finish(task, result, later())
    assert not [name for name in file_system.list("/d/t-0") if name.endswith(".cleaned")]
    assert broker.log_jobs.cleaner.states.is_free(("t", 0))


def test_a_failure_is_tried_again_later_each_time() -> None:
    broker = broker_with(disk("/d"), t=30)
    cleaner = broker.log_jobs.cleaner
    waits = []
    now = 0
    for _ in range(4):
        task = cleaner.next_task(later(now))
        assert task is not None
        cleaner.fail(task, RuntimeError("no luck"), later(now))
        wait = next(ms for ms in range(0, 200_000, 1000) if can_begin(broker, now + ms))
        waits.append(wait)
        now += wait
    assert waits == [15_000, 30_000, 60_000, 120_000]
    assert cleaner.trouble_of(("t", 0)).reason == "no luck"


def test_a_clock_that_is_set_back_puts_that_off_no_longer() -> None:
    broker = broker_with(disk("/d"), t=30)
    task = broker.log_jobs.cleaner.next_task(later(0))
    assert task is not None
    broker.log_jobs.cleaner.fail(task, RuntimeError("no luck"), later(0))
    assert not can_begin(broker, 14_000)
    assert can_begin(broker, -3_600_000)


def can_begin(broker: Broker, now: int) -> bool:
    return not broker.log_jobs.cleaner._is_waiting(("t", 0), NOW_MS + now)


def test_a_segment_that_cannot_be_read_is_set_aside_and_the_rest_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=60)
    log = log_of(broker, "t")
    path = damage(broker, file_system, 2)
    before = log.segments.values[2]
    now = clean_until_done(broker, file_system)
    trouble = broker.log_jobs.cleaner.trouble_of(("t", 0))
    assert [one.base_offset for one in trouble.damaged] == [before.base_offset]
    assert before in log.segments.values
    # The others hold three records at the most, and the kept ends of passes.
    sealed = [one for one in log.segments.values[:-1] if one is not before]
    assert sum(one.size for one in sealed) < before.size
    assert "is set aside" in caplog.text
    # It is told in a file, for people and for the next start.
    assert read_troubles(file_system, "/d") == {("t", 0): trouble}
    # Repaired, it is compacted with the others.
    flip_last_byte(file_system, path)
    file_system.set_modified_ms(path, NOW_MS + 1)
    write(broker, "t", 60)
    clean_until_done(broker, file_system, now)
    assert not broker.log_jobs.cleaner.trouble_of(("t", 0)).damaged
    assert TROUBLES_FILE_NAME not in file_system.list("/d")


def clean_until_done(broker: Broker, file_system: FakeFileSystem, now: int = 0) -> int:
    for _ in range(20):
        now += 100_000
        task = broker.log_jobs.cleaner.next_task(later(now))
        if task is None:
            return now
        try:
            result = carry_out(task, file_system)
        except Exception as error:
            broker.log_jobs.cleaner.fail(task, error, later(now))
        else:
            broker.log_jobs.cleaner.finish(task, result, later(now))
    raise AssertionError("the cleaner does not come to an end")


def test_a_tombstone_stays_while_an_older_segment_is_set_aside() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=60)
    path = damage(broker, file_system, 2)
    now = clean_until_done(broker, file_system)
    builder = RecordBatchBuilder()
    builder.append(b"key1", None, NOW_MS)
    broker.appends.append(
        broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=NOW_MS
    )
    write(broker, "t", 9, b"other")
    day_ms = 86_400_000
    for _ in range(3):
        now = clean_until_done(broker, file_system, now + 2 * day_ms)
        write(broker, "t", 9, b"other")
    flip_last_byte(file_system, path)
    assert None in values(log_of(broker, "t"))


def test_a_segment_that_begins_with_nonsense_is_set_aside_like_any_other() -> None:
    file_system = disk("/d")
    broker_with(file_system, t=30, u=30).close()
    broker = open_broker(file_system, "/d")
    file = file_system.open(log_of(broker, "t").segments.first.log.path, writable=True)
    file.pwrite(b"\xff" * 30, 0)
    file.close()
    clean_until_done(broker, file_system)
    assert [one.base_offset for one in broker.log_jobs.cleaner.trouble_of(("t", 0)).damaged] == [0]
    assert broker.directories[0].checkpoints.cleaned.keys() == {("t", 0), ("u", 0)}


def test_a_log_that_cannot_be_planned_for_keeps_no_other_from_the_cleaner(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=60, u=20)
    segment = log_of(broker, "t").segments.first
    segment.transaction_index.append(
        AbortedTransaction(producer_id=1, first_offset=0, last_offset=1, last_stable_offset=2)
    )
    file = file_system.open(segment.transaction_index.path, writable=True)
    file.pwrite(b"\x7f", 0)
    file.close()
    tasks = [broker.log_jobs.cleaner.next_task(later()) for _ in range(3)]
    assert [task and task.key for task in tasks] == [("u", 0), None, None]
    assert broker.log_jobs.cleaner.trouble_of(("t", 0)).failure_count == 1
    assert "t-0 could not be compacted, and will be retried" in caplog.text
    assert ".txnindex" in broker.log_jobs.cleaner.trouble_of(("t", 0)).reason
    assert broker.log_jobs.cleaner.states.is_free(("t", 0))


def test_a_log_whose_segments_are_all_damaged_is_left_as_it_is() -> None:
    """There is nothing to replace, which is no failure."""
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    log = log_of(broker, "t")
    for number in range(len(log.segments.values) - 1):
        damage(broker, file_system, number)
    before = [one.base_offset for one in log.segments.values]
    clean_until_done(broker, file_system)
    assert [one.base_offset for one in log.segments.values] == before
    trouble = broker.log_jobs.cleaner.trouble_of(("t", 0))
    assert (len(trouble.damaged), trouble.failure_count) == (len(before) - 1, 0)
    assert broker.log_jobs.cleaner.next_task(later(10**9)) is None


def test_a_failure_at_any_step_is_retried_later_and_each_cause_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    cleaner = broker.log_jobs.cleaner

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no luck")

    places = (
        "ottla.storage.compaction.cleanable.cleanable",
        "ottla.storage.compaction.planning.plan_compaction",
        "ottla.storage.compaction.replacement.replace_segments",
    )
    now = 0
    for count, place in enumerate(places, 1):
        with monkeypatch.context() as patch:
            patch.setattr(place, fail)
            task = cleaner.next_task(later(now))
            if task is not None:
                cleaner.finish(task, carry_out(task, file_system), later(now))
        assert cleaner.trouble_of(("t", 0)).failure_count == count
        assert cleaner.totals.failures == count
        assert not can_begin(broker, now + 14_999)
        now += 1_000_000
    said = [one for one in caplog.records if "could not be compacted" in one.getMessage()]
    assert len(said) == 1
    clean_until_done(broker, file_system, now)
    assert len(values(log_of(broker, "t"))) < 30


def test_a_lack_of_descriptors_is_retried_later_too() -> None:
    broker = broker_with(disk("/d"), t=30)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    broker.log_jobs.cleaner.fail(task, OSError(24, "Too many open files", "/d/t-0"), later())
    assert not broker.directories[0].is_offline
    assert not can_begin(broker, 14_999)
    assert "Too many open files" in broker.log_jobs.cleaner.trouble_of(("t", 0)).reason


def test_a_disk_that_fails_while_a_pass_is_planned_goes_offline_alone() -> None:
    inner = disk("/d", "/e")
    broker_with(inner, t=30).close()
    file_system = FaultyFileSystem(inner)
    broker = open_broker(file_system, "/d", "/e")
    segment = log_of(broker, "t").segments.first
    segment.close_files()
    assert broker.log_jobs.cleaner.next_task(later()) is None
    assert [one.is_offline for one in broker.directories] == [True, False]


def test_a_disk_that_fails_takes_its_directory_offline() -> None:
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    broker.log_jobs.cleaner.fail(task, OSError(5, "Input/output error"), later())
    assert broker.directories[0].is_offline
    assert broker.log_jobs.cleaner.next_task(later(10**6)) is None


def test_a_checkpoint_after_the_logs_end_is_forgotten_at_the_next_start() -> None:
    """What comes in below it was never compacted, and its tombstones must not go first."""
    file_system = disk("/d")
    broker = broker_with(file_system, t=30)
    broker.directories[0].checkpoints.move_cleaned(("t", 0), 1000)
    broker.close()
    again = open_broker(file_system, "/d")
    assert again.directories[0].checkpoints.cleaned == {}
    points = OffsetCheckpoint(file_system, join("/d", "cleaner-offset-checkpoint"))
    assert points.read() == {}


def test_a_damaged_file_of_troubles_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    file_system = disk("/d")
    broker_with(file_system, t=30).close()
    file = file_system.open(f"/d/{TROUBLES_FILE_NAME}", create=True)
    file.pwrite(b"nonsense", 0)
    file.close()
    broker = open_broker(file_system, "/d")
    assert TROUBLES_FILE_NAME in caplog.text
    assert broker.log_jobs.cleaner.next_task(later()) is not None


def test_nothing_is_compacted_where_the_cleaner_is_switched_off() -> None:
    file_system = disk("/d")
    broker_with(file_system, t=30).close()
    broker = open_broker(file_system, "/d", log_cleaner_enable="false")
    assert broker.log_jobs.cleaner.thread_count == 0
    broker.close()
    broker = open_broker(file_system, "/d", log_cleaner_threads="3")
    assert broker.log_jobs.cleaner.thread_count == 3


def test_the_memory_for_keys_is_shared_by_the_threads() -> None:
    file_system = disk("/d")
    broker_with(file_system, t=30).close()
    broker = open_broker(
        file_system, "/d", log_cleaner_threads="2", log_cleaner_dedupe_buffer_size="4000000"
    )
    with patch("ottla.storage.compaction.planning.plan_compaction") as planned:
        broker.log_jobs.cleaner.next_task(later())
    assert planned.call_args.args[3].size == 2_000_000


def test_a_compacted_topic_still_refuses_records_without_a_key() -> None:
    broker = broker_with(disk("/d"), t=3)
    builder = RecordBatchBuilder()
    builder.append(None, b"x", NOW_MS)
    with pytest.raises(Exception, match="key") as caught:
        broker.appends.append(
            broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=NOW_MS
        )
    assert getattr(caught.value, "code", None) is ErrorCode.INVALID_RECORD


def test_a_log_that_is_compacted_and_deleted_has_one_of_the_two_at_a_time() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system, "/d")
    overrides = {**COMPACTED, "cleanup.policy": "compact,delete", "retention.ms": "1000"}
    broker.admin.create_topic(NewTopic(name="t", partition_count=1, overrides=overrides))
    write(broker, "t", 30)
    log = log_of(broker, "t")
    task = broker.log_jobs.cleaner.next_task(later())
    assert task is not None
    assert not broker.log_jobs.retention.run_slice(later(5000))
    assert log.log_start_offset == 0
    broker.log_jobs.cleaner.finish(task, carry_out(task, file_system), later(5000))
    assert len(set(values(log))) < 30
    broker.log_jobs.retention.run_slice(later(5000))
    assert (log.log_start_offset, values(log)) == (30, [])
