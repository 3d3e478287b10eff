"""Each rule of retention as a table: what goes, what stays, and why."""

from dataclasses import dataclass, replace

import pytest

from ottla.base.files import FileSlice
from ottla.config.topic import TopicConfig
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.retention.retention import (
    Blocker,
    LogFacts,
    Rule,
    SegmentTime,
    Verdict,
    begin_retention,
    facts_of,
    judge,
    plan_retention,
)
from ottla.testing import CrashMode, FakeFileSystem
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

NOW = 1_000_000
HOUR = 3_600_000
KEEP_ALL = TopicConfig(retention_ms=-1, retention_bytes=-1)


@dataclass(frozen=True)
class Piece:
    """A segment of ten offsets."""

    base_offset: int
    size: int
    age_ms: int = 0
    is_of_records: bool = True

    def time(self) -> SegmentTime:
        return SegmentTime(NOW - self.age_ms, self.is_of_records)


def log_of(
    sizes: list[int], ages: list[int] | None = None, *, start: int = 0, high: int | None = None,
    **settings: object,
) -> LogFacts:  # fmt: skip
    pieces = [
        Piece(10 * number, size, ages[number] if ages else 0) for number, size in enumerate(sizes)
    ]
    end = 10 * len(sizes) - (0 if sizes[-1] else 10)
    return LogFacts(
        config=replace(KEEP_ALL, **settings),  # type: ignore[arg-type]
        log_start_offset=start,
        high_watermark=end if high is None else high,
        log_end_offset=end,
        size=sum(sizes),
        segments=pieces,
    )


def what_goes(facts: LogFacts) -> list[Rule | None]:
    return [one.rule for one in plan_retention(facts, NOW, 1000).going]


def why(facts: LogFacts) -> list[tuple[Blocker, ...]]:
    return [one.blockers for one in judge(facts, NOW)]


@pytest.mark.parametrize(
    ("start", "gone"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (30, 2)]
)
def test_segments_wholly_below_the_logs_start_go_but_for_the_last(start: int, gone: int) -> None:
    assert what_goes(log_of([50, 50, 50], start=start)) == [Rule.LOG_START] * gone


@pytest.mark.parametrize(
    ("limit", "gone"),
    [
        (-1, 0),  # no limit
        (300, 0),
        (251, 0),  # the first one's going would leave too little
        (250, 1),
        (151, 1),
        (150, 2),
        (1, 2),
        (0, 3),  # all of them; a fresh segment is rolled
    ],
)
def test_the_oldest_go_while_at_least_retention_bytes_are_left(limit: int, gone: int) -> None:
    assert what_goes(log_of([50, 100, 150], retention_bytes=limit)) == [Rule.SIZE] * gone


@pytest.mark.parametrize(
    ("ages", "limit", "gone"),
    [
        ([3, 2, 1], -1, 0),
        ([3, 2, 1], 3, 0),  # as old as the limit is not older
        ([3, 2, 1], 2, 1),
        ([3, 2, 1], 1, 2),
        ([3, 2, 1], 0, 3),
        ([3, 0, 9], 2, 1),  # stops at the first that stays, however old the next one is
        ([0, 9, 9], 2, 0),
        ([-5, 9, 9], 2, 0),  # a future timestamp blocks
    ],
)
def test_the_oldest_go_whose_largest_timestamp_is_older_than_retention_ms(
    ages: list[int], limit: int, gone: int
) -> None:
    assert what_goes(log_of([5, 5, 5], ages, retention_ms=limit)) == [Rule.TIME] * gone


def test_the_rules_are_asked_in_kafkas_order() -> None:
    ages = [9, 9, 9, 9, 0]
    facts = log_of([50] * 5, ages, start=10, retention_bytes=150, retention_ms=5)
    assert what_goes(facts) == [Rule.LOG_START, Rule.SIZE, Rule.TIME, Rule.TIME]


@pytest.mark.parametrize(("high", "gone"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_nothing_at_or_above_the_high_watermark_goes(high: int, gone: int) -> None:
    facts = log_of([5, 5, 5], [9, 9, 9], high=high, retention_ms=1)
    assert len(what_goes(facts)) == gone
    if gone < 3:
        assert why(facts)[gone] == (Blocker.HIGH_WATERMARK,)


def test_an_empty_last_segment_stays() -> None:
    facts = log_of([5, 5, 0], [9, 9, 9], retention_ms=1)
    assert len(what_goes(facts)) == 2
    assert why(facts)[2] == (Blocker.EMPTY_ACTIVE,)
    assert not plan_retention(facts, NOW, 1000).needs_roll


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        (("delete",), [Rule.LOG_START, Rule.TIME]),
        (("compact", "delete"), [Rule.LOG_START, Rule.TIME]),
        (("compact",), [Rule.LOG_START]),
        ((), [Rule.LOG_START]),
    ],
)
def test_without_the_policy_delete_only_the_logs_start_counts(
    policy: tuple[str, ...], gone: list[Rule]
) -> None:
    ages = [9, 9, 0]
    facts = log_of([5] * 3, ages, start=10, retention_ms=1, cleanup_policy=policy)
    assert what_goes(facts) == gone


@pytest.mark.parametrize(
    ("facts", "blockers"),
    [
        (log_of([5, 5]), [Blocker.NO_LIMIT]),
        (log_of([5, 5], cleanup_policy=("compact",)), [Blocker.POLICY]),
        (log_of([5, 5], [0, 0], retention_ms=1), [Blocker.NOT_YET]),
        (log_of([5, 5], retention_bytes=9), [Blocker.NOT_YET]),
        (log_of([5, 5], [-1, 0], retention_ms=1), [Blocker.NOT_YET]),
        (log_of([5, 5], [-60_000, 0], retention_ms=1), [Blocker.NOT_YET]),
        (log_of([5, 5], [-60_001, 0], retention_ms=1), [Blocker.FUTURE_TIMESTAMP]),
        (replace(log_of([5, 5], [9, 9], retention_ms=1), is_being_cleaned=True),
         [Blocker.BEING_CLEANED]),
        (log_of([5, 5], [9, 9], high=3, retention_ms=20),
         [Blocker.HIGH_WATERMARK, Blocker.NOT_YET]),
    ],
)  # fmt: skip
def test_what_stays_says_why(facts: LogFacts, blockers: list[Blocker]) -> None:
    assert why(facts)[0] == tuple(blockers)
    assert Blocker.OLDER_SEGMENT in why(facts)[1]
    assert what_goes(facts) == []


def test_a_future_timestamp_does_not_keep_what_retention_bytes_takes() -> None:
    assert what_goes(log_of([5, 5], [-99, 0], retention_ms=1, retention_bytes=5)) == [Rule.SIZE]


def test_it_is_reported_when_each_segment_will_go() -> None:
    verdicts = list(judge(log_of([5, 5, 5], [9, 2, 7], retention_ms=5), NOW))
    assert [one.due_ms for one in verdicts] == [NOW, NOW - 2 + 6, NOW - 2 + 6]


def test_it_is_reported_how_much_must_be_appended_before_each_segment_goes() -> None:
    verdicts = list(judge(log_of([50, 100, 150], retention_bytes=250), NOW))
    assert [one.bytes_left for one in verdicts] == [0, 100, 250]


def test_the_verdict_that_explains_is_the_one_that_decides() -> None:
    """At the time that was told a segment goes, and not a moment before."""
    facts = log_of([5, 5, 5, 5], [9, 2, -7, 3], retention_ms=5)
    for verdict in judge(facts, NOW):
        assert verdict.due_ms is not None
        for now, goes in [(verdict.due_ms, True), (verdict.due_ms - 1, False)]:
            going = plan_retention(facts, now, 1000).going
            is_going = verdict.base_offset in {one.base_offset for one in going}
            assert is_going == goes or now < NOW


# The deed


def retain(log: PartitionLog, now_ms: int, max_count: int = 1000) -> list[Verdict]:
    plan = plan_retention(facts_of(log), now_ms, max_count)
    if plan.going:
        begin_retention(log, plan, now_ms)
        log.maintenance.delete_segments_below_start(max_count=len(plan.going))
    return plan.going


def log_with(**settings: object) -> tuple[FakeFileSystem, PartitionLog]:
    file_system = FakeFileSystem()
    config = replace(SMALL, **settings)  # type: ignore[arg-type]
    return file_system, open_log(file_system, config)


def test_an_old_segment_is_out_of_the_log_at_once_and_its_files_renamed() -> None:
    file_system, log = log_with(retention_ms=HOUR)
    fill(log, 8)
    log.writer.roll(NOW_MS)
    append(log, b"young", timestamp_ms=NOW_MS + HOUR)
    old = [one.base_offset for one in log.segments.values[:-1]]
    assert [one.base_offset for one in retain(log, NOW_MS + HOUR + 1)] == old
    assert (log.log_start_offset, values(log)) == (16, [b"young"])
    assert len(log.segments) == 1
    names = file_system.list("data/t-0")
    assert all(f"{offset:020d}.log.deleted" in names for offset in old)
    assert [one for one in names if one.endswith(".log")] == ["00000000000000000016.log"]


def test_where_all_would_go_a_fresh_segment_is_there_first() -> None:
    _, log = log_with(retention_ms=HOUR)
    fill(log, 8)
    retain(log, NOW_MS + HOUR + 1)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (16, 16, 1)
    assert log.segments.active.size == 0
    assert retain(log, NOW_MS + 10 * HOUR) == []
    assert append(log, b"next").first_offset == 16


def test_a_plan_may_stop_early_and_be_gone_on_with() -> None:
    _, log = log_with(retention_ms=HOUR)
    fill(log, 20)
    count = len(log.segments)
    plan = plan_retention(facts_of(log), NOW_MS + HOUR + 1, 2)
    assert (len(plan.going), plan.is_cut_short) == (2, True)
    rounds = []
    while gone := retain(log, NOW_MS + HOUR + 1, 2):
        rounds.append(len(gone))
    assert sum(rounds) == count
    assert log.log_start_offset == 40


def test_pending_records_keep_their_segment() -> None:
    """They are above the high watermark, which moves when they are written out."""
    _, log = log_with(retention_ms=HOUR)
    append(log, b"written")
    log.writer.append_as_leader(batch(b"pending"), leader_epoch=0, now_ms=NOW_MS)
    assert retain(log, NOW_MS + 2 * HOUR) == []
    log.writer.write_out()
    assert len(retain(log, NOW_MS + 2 * HOUR)) == 1


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    _, log = log_with(retention_ms=HOUR)
    append(log, b"x", timestamp_ms=-1)
    (facts,) = facts_of(log).segments
    written_ms = log.segments.active.largest_timestamp_ms()
    assert facts.time() == SegmentTime(written_ms, False)
    assert retain(log, written_ms + HOUR) == []
    assert len(retain(log, written_ms + HOUR + 1)) == 1


def test_a_read_under_way_is_undisturbed() -> None:
    _, log = log_with(retention_ms=HOUR)
    fill(log, 8)
    under_way = read_slice(log)
    before = under_way.read()
    retain(log, NOW_MS + HOUR + 1)
    assert under_way.read() == before


def read_slice(log: PartitionLog) -> FileSlice:

    found = log.reader.read(0, 10_000, Isolation.HIGH_WATERMARK).records
    assert found is not None
    return found


def test_removed_files_are_gone_for_good_and_a_second_removal_is_no_error() -> None:
    file_system, log = log_with(retention_ms=HOUR)
    fill(log, 8)
    plan = plan_retention(facts_of(log), NOW_MS + HOUR + 1, 1)
    begin_retention(log, plan, NOW_MS)
    (retired,) = log.maintenance.delete_segments_below_start(max_count=1)
    assert set(retired.paths) <= {f"data/t-0/{one}" for one in file_system.list("data/t-0")}
    retired.remove()
    left = [one for one in file_system.list("data/t-0") if one.endswith(".deleted")]
    assert left == []
    retired.remove()


def test_snapshots_and_epochs_before_the_new_start_go_too() -> None:
    file_system, log = log_with(retention_ms=HOUR)
    for sequence in range(30):
        records = batch(b"x" * 20, producer_id=1, producer_epoch=0, base_sequence=sequence)
        log.writer.append_as_leader(records, leader_epoch=sequence // 10, now_ms=NOW_MS)
        log.writer.write_out()
    retain(log, NOW_MS + HOUR + 1)
    assert [one.start_offset for one in log.epochs.entries] == [30]
    assert log.snapshots.offsets == [30]
    live = [one for one in file_system.list("data/t-0") if one.endswith(".snapshot")]
    assert live == ["00000000000000000030.snapshot"]


def test_a_restart_removes_what_waited() -> None:
    file_system, log = log_with(retention_ms=HOUR)
    fill(log, 8)
    retain(log, NOW_MS + HOUR + 1)
    after = file_system.crash(CrashMode.KEEP)
    again = open_log(after, log.config)
    assert [one for one in after.list("data/t-0") if one.endswith(".deleted")] == []
    assert (again.log_start_offset, again.log_end_offset) == (16, 16)


def test_a_start_stays_in_the_checkpoint_until_the_files_are_gone_for_good() -> None:
    """A power failure may bring the files back as long as the directory was not synced."""
    file_system = FakeFileSystem()
    directory = open_directory(file_system, replace(SMALL, retention_ms=HOUR))
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 20)
    plan = plan_retention(facts_of(log), NOW_MS + HOUR + 1, 1000)
    begin_retention(log, plan, NOW_MS)
    log.maintenance.delete_segments_below_start(durably=False)
    directory.checkpoints.write_log_starts()
    again = open_directory(file_system.crash(CrashMode.STRICT), log.config).logs["t", 0]
    assert (again.log_start_offset, values(again)) == (40, [])
