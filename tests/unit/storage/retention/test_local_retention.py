"""Local retention of a log that is copied to a tier: what goes from the disk, and what stays."""

from dataclasses import replace

import pytest

from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.retention.retention import (
    Blocker,
    LogFacts,
    Rule,
    Verdict,
    begin_retention,
    facts_of,
    forget_former_tier,
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
from tests.unit.storage.retention.test_retention import KEEP_ALL, NOW, Piece

HOUR = 3_600_000
TIERED = replace(SMALL, remote_storage_enable=True, retention_ms=-1)


def facts(
    sizes: list[int], *, tier: int = -1, start: int = 0, local_start: int = 0, **settings: object
) -> LogFacts:
    """A tiered log of segments of ten offsets and one hour each, the last one the youngest."""
    count = len(sizes)
    pieces = [Piece(10 * one, size, (count - one) * HOUR) for one, size in enumerate(sizes)]
    end = 10 * count - (0 if sizes[-1] else 10)
    config = replace(KEEP_ALL, remote_storage_enable=True, **settings)  # type: ignore[arg-type]
    return LogFacts(
        config=config,
        log_start_offset=start,
        local_start_offset=local_start,
        highest_remote_offset=tier,
        high_watermark=end,
        log_end_offset=end,
        size=sum(sizes),
        segments=pieces,
        active=pieces[-1],
    )


GOING: list[tuple[str, LogFacts, list[Rule]]] = [
    ("nothing is in the tier", facts([5, 5, 5], local_retention_bytes=0), []),
    ("the tier has one segment", facts([5, 5, 5], tier=9, local_retention_bytes=0), [Rule.SIZE]),
    ("the tier has a part of one", facts([5, 5, 5], tier=18, local_retention_bytes=0), [Rule.SIZE]),
    ("the tier has two", facts([5, 5, 5], tier=19, local_retention_bytes=5), [Rule.SIZE] * 2),
    ("the limit keeps one", facts([5, 5, 5], tier=19, local_retention_bytes=10), [Rule.SIZE]),
    ("no local limit", facts([5, 5, 5], tier=19, local_retention_bytes=-1, retention_bytes=-1), []),
    ("-2 is the whole's", facts([5, 5, 5], tier=19, retention_bytes=10), [Rule.SIZE]),
    ("by time", facts([5, 5, 5], tier=29, local_retention_ms=2 * HOUR), [Rule.TIME]),
    ("by time, not copied", facts([5, 5, 5], tier=5, local_retention_ms=2 * HOUR), []),
    ("-2 is the whole's time", facts([5, 5, 5], tier=29, retention_ms=2 * HOUR), [Rule.TIME]),
    ("below the log start", facts([5, 5, 5], start=20), [Rule.LOG_START] * 2),
    ("left over below the local start", facts([5, 5, 5], tier=9, local_start=10), [Rule.LOG_START]),
    (
        "copies are disabled: as without a tier",
        facts([5, 5, 5], remote_log_copy_disable=True, retention_bytes=5),
        [Rule.SIZE] * 2,
    ),
    (
        "the active one too, where another leader has copied it",
        facts([5, 5], tier=19, local_retention_bytes=0),
        [Rule.SIZE] * 2,
    ),
]


@pytest.mark.parametrize(("name", "log", "rules"), GOING, ids=[one[0] for one in GOING])
def test_what_goes(name: str, log: LogFacts, rules: list[Rule]) -> None:
    assert [one.rule for one in plan_retention(log, NOW, 100).going] == rules


def test_what_is_not_in_the_tier_is_blocked_and_all_after_it() -> None:
    found = [one.blockers for one in judge(facts([5, 5, 5], tier=9, local_retention_bytes=0), NOW)]
    assert found == [
        (),
        (Blocker.NOT_IN_TIER,),
        (Blocker.NOT_IN_TIER, Blocker.OLDER_SEGMENT),
    ]


DUE: list[tuple[LogFacts, bool]] = [
    (facts([5, 5], local_retention_bytes=0), True),
    (facts([5, 5], local_retention_bytes=1), False),
    (facts([5, 5], local_retention_ms=HOUR - 1), True),
    (facts([5, 5], local_retention_ms=HOUR), False),
    (facts([5, 0], local_retention_bytes=0), False),
    (facts([5, 5], local_retention_bytes=0, remote_log_copy_disable=True), False),
]


@pytest.mark.parametrize(("log", "is_due"), DUE)
def test_an_active_segment_that_breaches_a_limit_is_rolled_to_be_copied(
    log: LogFacts, is_due: bool
) -> None:
    plan = plan_retention(log, NOW, 100)
    assert plan.active_is_due is is_due
    assert plan.needs_roll is is_due or plan.going


def test_a_rule_has_the_name_of_the_setting_that_applies() -> None:
    tiered = replace(KEEP_ALL, remote_storage_enable=True, local_retention_bytes=5)
    assert Rule.SIZE.name_in(tiered) == "local.retention.bytes"
    assert Rule.TIME.name_in(tiered) == "retention.ms"
    assert Rule.SIZE.name_in(KEEP_ALL) == "retention.bytes"
    assert Rule.LOG_START.name_in(tiered) == "log start"


# On a log


def tiered_log(**settings: object) -> tuple[FakeFileSystem, PartitionLog]:
    disk = FakeFileSystem()
    return disk, open_log(disk, replace(TIERED, **settings))  # type: ignore[arg-type]


def copied(log: PartitionLog, offset: int) -> None:
    """The tier has all before an offset, as a copy leaves it: of flushed segments."""
    log.writer.flush()
    log.offsets.highest_remote_offset = offset - 1


def retain(log: PartitionLog) -> list[Verdict]:
    plan = plan_retention(facts_of(log), NOW_MS, 100)
    begin_retention(log, plan, NOW_MS)
    log.maintenance.delete_segments_below_start()
    return plan.going


def test_the_local_start_moves_and_the_log_start_stays() -> None:
    _, log = tiered_log(local_retention_bytes=0)
    fill(log, 20)
    bases = [one.base_offset for one in log.segments.values]
    copied(log, bases[3])
    assert len(retain(log)) == 3
    assert (log.log_start_offset, log.local_start_offset) == (0, bases[3])
    assert log.segments.first.base_offset == bases[3]
    assert values(log, bases[3]) == [b"%d" % one for one in range(bases[3], 40)]


def test_what_is_not_flushed_stays_though_the_tier_has_it() -> None:
    _, log = tiered_log(local_retention_bytes=0)
    fill(log, 20)
    log.offsets.highest_remote_offset = 39
    assert retain(log) == []
    log.writer.flush()
    assert len(retain(log)) > 1


def test_a_whole_log_may_be_in_the_tier_only() -> None:
    _, log = tiered_log(local_retention_bytes=0)
    fill(log, 8)
    assert log.segments.active.size
    retain(log)
    assert log.segments.active.size == 0, "rolled, so that it can be copied"
    copied(log, 16)
    retain(log)
    assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (0, 16, 16)
    assert len(log.segments) == 1
    assert append(log, b"next").first_offset == 16


def test_epochs_of_the_tier_stay_and_the_snapshot_at_the_local_start() -> None:
    _, log = tiered_log(local_retention_bytes=0)
    for sequence in range(30):
        records = batch(b"x" * 20, producer_id=1, producer_epoch=0, base_sequence=sequence)
        log.writer.append_as_leader(records, leader_epoch=sequence // 10, now_ms=NOW_MS)
        log.writer.write_out()
    start = log.segments.values[-2].base_offset
    copied(log, start)
    retain(log)
    assert [one.start_offset for one in log.epochs.entries] == [0, 10, 20]
    assert log.snapshots.offsets[0] == start == log.local_start_offset


def test_deleted_records_move_both_starts_only_beyond_the_local_one() -> None:
    _, log = tiered_log(local_retention_bytes=0)
    fill(log, 20)
    local = log.segments.values[2].base_offset
    copied(log, local)
    retain(log)
    log.maintenance.delete_records_before(local - 1)
    assert (log.log_start_offset, log.local_start_offset) == (local - 1, local)
    assert log.epochs.earliest_start_offset == local - 1
    log.maintenance.delete_records_before(local + 1)
    assert (log.log_start_offset, log.local_start_offset) == (local + 1, local + 1)


def test_without_copies_the_log_start_moves_too() -> None:
    _, log = tiered_log(remote_log_copy_disable=True, retention_bytes=0)
    fill(log, 20)
    assert retain(log)
    assert log.log_start_offset == log.local_start_offset == log.segments.first.base_offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_keeps_both_starts(is_clean: bool) -> None:
    disk = FakeFileSystem()
    config = replace(TIERED, local_retention_bytes=0)
    directory = open_directory(disk, config)
    log = directory.create_log("t", 0, TOPIC_ID)
    fill(log, 20)
    log.maintenance.delete_records_before(1)
    copied(log, 20)
    directory.checkpoints.write_log_starts()
    retain(log)
    local = log.local_start_offset
    if is_clean:
        directory.close()
    again = open_directory(disk.crash(CrashMode.KEEP), config).logs["t", 0]
    assert (again.log_start_offset, again.local_start_offset) == (1, local)
    assert again.offsets.highest_remote_offset == -1
    assert values(again, local) == [b"%d" % one for one in range(local, 40)]


def test_a_log_of_no_file_starts_where_its_epochs_do() -> None:
    disk = FakeFileSystem()
    config = replace(TIERED, local_retention_bytes=0)
    log = open_log(disk, config)  # no checkpoint is written before the kill
    fill(log, 20)
    copied(log, 20)
    retain(log)
    again = open_directory(disk.crash(CrashMode.KEEP), config).logs["t", 0]
    assert (again.log_start_offset, again.local_start_offset) == (0, log.local_start_offset)


def test_the_same_files_are_a_log_with_a_later_start_where_the_topic_has_no_tier() -> None:
    disk, log = tiered_log(local_retention_bytes=0)
    fill(log, 20)
    copied(log, 20)
    retain(log)
    again = open_log(disk.crash(CrashMode.KEEP), SMALL)
    assert again.log_start_offset == again.local_start_offset == log.local_start_offset


def test_a_start_that_was_kept_for_a_tier_is_given_up_where_there_is_none() -> None:
    _, log = tiered_log(local_retention_bytes=0)
    fill(log, 20)
    copied(log, 20)
    retain(log)
    forget_former_tier(log)
    assert log.log_start_offset == 0
    log.maintenance.reconfigure(SMALL)
    forget_former_tier(log)
    assert log.log_start_offset == log.local_start_offset == log.segments.first.base_offset
