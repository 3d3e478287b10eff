"""A mirror whose bulk is copied by Spark's tasks comes to what one process would have made."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import TaskError, UserError
from ottla.base.files import OsFileSystem
from ottla.mirror import staging
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.endpoints import open_source
from ottla.mirror.mirror import Mirror, MirrorOptions, RoundReport
from ottla.mirror.staging import STAGING, Staged, StagedLog, adopt
from ottla.mirror.target import Target
from ottla.mirror.throttle import Throttle
from ottla.mirror.verify import Verification, VerifyOptions
from ottla.spark.mirror import BulkReport, mirror_with_spark, plan
from ottla.spark.session import LocalSession
from ottla.storage.diagnosis.directory_check import check
from tests.support.mirroring import SOURCE, SourceLog, damage
from tests.support.serving import open_broker, serving

OPTIONS = MirrorOptions()


def write_down(source: SourceLog, directory: Path) -> Path:
    """Puts a source that is on a disk in memory onto a real one, as it is now."""
    for one in source.broker.directories:
        one.checkpoints.write()
    copy_files(source, SOURCE, directory)
    return directory


def copy_files(source: SourceLog, path: str, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in source.files.list(path):
        status = source.files.status(f"{path}/{name}")
        assert status is not None
        if status.is_directory:
            copy_files(source, f"{path}/{name}", directory / name)
            continue
        file = source.files.open(f"{path}/{name}")
        (directory / name).write_bytes(file.pread(status.size, 0))
        file.close()


def in_bulk(source: str | Path, target: Path, session: LocalSession) -> BulkReport:
    return mirror_with_spark(str(source), str(target), OPTIONS, spark=session.spark)


def finish(source: str | Path, target: Path) -> RoundReport:
    """The round that follows, in this process."""
    clock = SystemClock()
    with (
        closing(open_source(str(source), sleep=time.sleep)) as opened,
        Target.open(str(target), clock) as copy,
    ):
        throttle = Throttle(None, clock, time.sleep)
        return Mirror(opened, copy, OPTIONS, throttle=throttle).run_round()


def assert_is_mirrored(source: Path, target: Path) -> None:
    sides = DirectorySource(str(source)), DirectorySource(str(target))
    assert Verification(*sides, VerifyOptions()).run().differences == []
    found = check(OsFileSystem(), str(target), deep=True)
    assert found.is_sound, found.findings
    assert STAGING not in os.listdir(target)


def growing_source() -> SourceLog:
    source = SourceLog()
    source.create(partitions=3)
    source.fill(40)
    source.append(b"a", producer=7)
    source.append(b"b", producer=8)
    source.fill(20, partition=1)
    source.delete_before(9, partition=1)
    return source


def test_tasks_copy_logs_and_then_what_comes_after_them(
    tmp_path: Path, local_session: LocalSession
) -> None:
    source, target = growing_source(), tmp_path / "target"
    source.commit("g", {("t", 0): 9})
    first = write_down(source, tmp_path / "first")
    report = in_bulk(first, target, local_session)
    assert report.task_count == 2
    assert report.size > source.log().size
    after = finish(first, target)
    assert (after.size, after.refusals, after.commit_count) == (0, {}, 1)
    assert_is_mirrored(first, target)

    source.end(7, commit=False)
    source.lead_again()
    source.fill(30)
    source.fill(3, partition=2)
    second = write_down(source, tmp_path / "second")
    assert in_bulk(second, target, local_session).task_count == 2
    assert finish(second, target).size == 0
    assert_is_mirrored(second, target)
    with Target.open(str(target), SystemClock()) as opened:
        log, known = opened.log("t", 0), source.log()
        assert log.producers.entries == known.producers.entries
        assert log.epochs.entries == known.epochs.entries
        whole = (0, known.log_end_offset)
        assert (
            log.reader.aborted_transactions(*whole)
            == known.reader.aborted_transactions(*whole)
            != []
        )
        assert log.last_stable_offset == known.last_stable_offset
    assert in_bulk(second, target, local_session).task_count == 0


def test_a_cluster_is_copied_by_tasks_too(tmp_path: Path, local_session: LocalSession) -> None:
    source, target = growing_source(), tmp_path / "target"
    directory = write_down(source, tmp_path / "source")
    with serving(open_broker(directory)) as server:
        address = "{}:{}".format(*server.address)
        in_bulk(address, target, local_session)
        assert finish(address, target).size == 0
    assert_is_mirrored(directory, target)


def test_damage_in_a_task_leaves_the_target_as_it_was(
    tmp_path: Path, local_session: LocalSession
) -> None:
    source, target = growing_source(), tmp_path / "target"
    directory = write_down(source, tmp_path / "source")
    path = source.log().segments.values[2].log.path
    damage(OsFileSystem(), str(directory / "t-0" / Path(path).name), 90)
    with pytest.raises(TaskError, match="CRC mismatch"):
        in_bulk(directory, target, local_session)
    with Target.open(str(target), SystemClock()) as opened:
        assert opened.log("t", 0).log_end_offset == 0
    assert STAGING not in os.listdir(target)


# Adopting, without Spark


def stage_all(source: Path, target: Path) -> list[Staged]:
    opened = DirectorySource(str(source))
    found = []
    for copy in plan(str(source), str(target), OPTIONS):
        log = StagedLog(str(target), copy)
        offsets = (copy.from_offset, copy.until_offset)
        for records in opened.batches(copy.topic, copy.partition, *offsets):
            log.append(records, "here")
        found.append(log.finish())
    return found


def test_a_crash_between_two_renames_leaves_a_log_that_ends_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = growing_source()
    directory = write_down(source, tmp_path / "source")
    rename = OsFileSystem.rename
    for crash_at in (1, 3, 5):
        target = tmp_path / f"target-{crash_at}"
        staged = stage_all(directory, target)
        assert len(staged[0].base_offsets) > 5
        calls = iter(range(100))

        def dying(self: OsFileSystem, old: str, new: str) -> None:
            if new.endswith(".log") and next(calls) == crash_at:  # noqa: B023
                raise KeyboardInterrupt
            rename(self, old, new)

        with monkeypatch.context() as patched:
            patched.setattr(OsFileSystem, "rename", dying)
            with pytest.raises(KeyboardInterrupt):
                adopt(str(target), staged)
        with Target.open(str(target), SystemClock()) as opened:
            assert opened.log("t", 0).log_end_offset == staged[0].base_offsets[crash_at]
        assert finish(directory, target).refusals == {}
        assert_is_mirrored(directory, target)


def test_a_log_that_somebody_wrote_to_meanwhile_adopts_nothing(tmp_path: Path) -> None:
    source, target = growing_source(), tmp_path / "target"
    directory = write_down(source, tmp_path / "source")
    staged = stage_all(directory, target)
    finish(directory, target)
    with pytest.raises(UserError, match="another program wrote to the target"):
        adopt(str(target), staged)
    with Target.open(str(target), SystemClock()), pytest.raises(UserError, match="in use"):
        adopt(str(target), staged)
    staging.discard_staging(str(target))
    assert_is_mirrored(directory, target)


def test_holes_that_compaction_left_are_within_segments(tmp_path: Path) -> None:
    source, target = SourceLog(), tmp_path / "target"
    source.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    for number in range(80):
        source.append(b"%d" % number, keys=(b"k%d" % (number % 3),))
    source.log().writer.roll(1)
    source.compact()
    source.append(b"last", keys=(b"z",))
    directory = write_down(source, tmp_path / "source")
    adopt(str(target), stage_all(directory, target))
    assert finish(directory, target).size == 0
    assert_is_mirrored(directory, target)
