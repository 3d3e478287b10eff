"""Loads, streams, audits and `ottla records` that retention overtakes between any two calls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.bounds import bounded, parse_place
from ottla.loading.job import LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.plan import PlannedRange
from ottla.search.sources import FileRecords
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import LogPartition, LogSource, OffsetsGoneError, Split
from ottla.sources.splits import SplitOptions
from ottla.sources.stream.continuity import Loss, Position
from ottla.sources.stream.stream_offset import StreamOffset
from ottla.sources.stream.stream_plan import ends_of, go_on, plan_batch
from ottla.sources.topic_choice import TopicChoice
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from ottla.testing.crash import CrashMode
from tests.support.mirroring import SOURCE
from tests.support.overtaken import OvertakingFileSystem, filled_disk, overtaken

pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

PLACE = TopicPartition("t", 0)
SCHEMA = types.StructType([types.StructField("offset", types.LongType())])


@pytest.fixture(scope="module")
def disk() -> FakeFileSystem:
    return filled_disk()


def opened(files: OvertakingFileSystem) -> LogFiles:
    return LogFiles([SOURCE], TopicChoice(subscribed=("t",)), file_system=files)


def undisturbed(disk: FakeFileSystem) -> OvertakingFileSystem:
    return OvertakingFileSystem(disk.crash(CrashMode.KEEP), lambda _: False)


def committed(disk: FakeFileSystem) -> list[int]:
    """The offsets that a reader of the whole log gets."""
    log = opened(undisturbed(disk))
    (there,) = log.partitions()
    wanted = OffsetRange(from_offset=there.start_offset, until_offset=there.end_offset)
    return [offset for split in log.splits({PLACE: wanted}) for offset in _offsets(log, split)]


def _offsets(log: LogFiles, split: Any) -> Iterator[int]:
    for batch in log.read(split, ["offset"]):
        yield from batch.column(0).to_pylist()


@pytest.mark.slow
def test_what_is_planned_and_read_is_all_there_or_named_as_lost(
    disk: FakeFileSystem, crash_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    from ottla.spark import split_reader as task

    whole = committed(disk)
    losses: list[Loss] = []

    def heard(found: Sequence[Loss], *, fail: bool) -> None:
        assert not fail
        losses.extend(found)

    def read(files: OvertakingFileSystem) -> None:
        losses.clear()
        log = opened(files)
        begins = go_on({PLACE: Position(offset=0)}, there := log.partitions(), log)
        end = StreamOffset(positions=ends_of(begins, there, None))
        plan = plan_batch({PLACE: Position(offset=0)}, end, log.partitions(), log)
        losses.extend(plan.losses)
        seen = [
            row
            for split in log.splits(plan.ranges, SplitOptions(min_count=3))
            for batch in task.read_rows(log, split, SCHEMA, fail_on_data_loss=False)
            for row in batch.column(0).to_pylist()
        ]
        until = end.positions[PLACE].offset
        lost = {
            offset
            for loss in losses
            for offset in range(loss.from_offset, min(loss.until_offset or until, until))
        }
        assert seen == sorted(set(seen))
        assert set(seen) <= set(whole)
        assert set(whole) - set(seen) <= lost | set(range(until, whole[-1] + 1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "report", heard)
        overtaken(disk, read, crash_seconds)


@pytest.mark.slow
def test_counts_and_roll_ups_say_that_offsets_are_gone(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    wanted = OffsetRange(from_offset=0, until_offset=40)
    log = opened(undisturbed(disk))
    expected = log.count_records(PLACE, wanted), log.roll_up(PLACE, wanted)

    def read(files: OvertakingFileSystem) -> None:
        log = opened(files)
        try:
            found = log.count_records(PLACE, wanted), log.roll_up(PLACE, wanted)
        except OffsetsGoneError as error:
            found = None
            is_listed = "were removed while they were read; run it again" in str(error)
            start = error.start_offset
        assert found == expected or (is_listed and start > 0)
        assert log.offsets_for_times({PLACE: 0})[PLACE] is not None

    overtaken(disk, read, crash_seconds)


@pytest.mark.slow
def test_a_reader_of_records_continues_and_says_what_was_removed(
    disk: FakeFileSystem, crash_seconds: float
) -> None:
    log = open_for_reading(SOURCE, undisturbed(disk)).partition("t", 0)
    whole = [record.offset for record in log.records.read(0)]

    def read(files: OvertakingFileSystem) -> None:
        remarks: list[str] = []
        source = FileRecords([open_for_reading(SOURCE, files)], on_remark=remarks.append)
        wanted = source.bounds([PLACE])[PLACE]
        seen = [record.offset for record in source.records(PLACE, wanted)]
        assert seen == [offset for offset in whole if offset in set(seen)]
        assert whole[-1] in seen
        missing = set(range(seen[0], seen[-1])) & set(whole) - set(seen)
        assert not missing or "were removed while they were read" in remarks[0]

    overtaken(disk, read, crash_seconds)


# Loads


def planned(from_offset: int, until_offset: int, lost_from: int | None = None) -> PlannedRange:
    lost = None
    if lost_from is not None:
        lost = OffsetRange(from_offset=lost_from, until_offset=from_offset)
    return PlannedRange(
        topic="t",
        topic_id=None,
        partition=0,
        from_offset=from_offset,
        until_offset=until_offset,
        lost=lost,
    )


class OvertakenLog:
    """A log that starts later each time it is asked, and whose records are gone by then."""

    def __init__(self, starts: Sequence[int]) -> None:
        self._starts = list(starts)
        self.attempts: list[int] = []

    def partitions(self) -> list[LogPartition]:
        start = self._starts.pop(0)
        return [
            LogPartition(topic="t", topic_id=None, partition=0, start_offset=start, end_offset=100)
        ]

    def splits(self, ranges: Mapping[TopicPartition, OffsetRange], *_: object) -> list[Split]:
        begin = ranges[PLACE].from_offset
        self.attempts.append(begin)
        if not self._starts:
            raise UserError("it is read")
        raise OffsetsGoneError(PLACE, begin, begin + 1)


def overtaken_load(path: Path, starts: Sequence[int]) -> list[int]:
    """Where the attempts of a load began."""
    (path / "log").mkdir()
    place = LoadRoute(str(path / "log"), "t", str(path / "table"))
    log = OvertakenLog(starts)
    job = replace(load_job(place, LocalEngine()), log=cast(LogSource, log))
    with pytest.raises(UserError, match="it is read" if len(starts) > 6 else "were removed"):
        load(job)
    return log.attempts


def test_a_load_continues_from_what_is_there_however_often_it_is_overtaken(tmp_path: Path) -> None:
    assert overtaken_load(tmp_path, range(20)) == list(range(20))


def test_a_load_that_gets_no_further_ends(tmp_path: Path) -> None:
    assert overtaken_load(tmp_path, [0, 0, 3, 3, 3]) == [0, 0, 3, 3]


def test_an_end_that_retention_has_passed_by_leaves_nothing_to_load() -> None:
    (found,) = bounded([planned(30, 90, lost_from=10)], None, {PLACE: 20})
    assert (found.from_offset, found.until_offset) == (20, 20)
    assert found.lost == OffsetRange(from_offset=10, until_offset=20)
    (found,) = bounded([planned(30, 90, lost_from=10)], None, {PLACE: 10})
    assert (found.from_offset, found.until_offset, found.lost) == (10, 10, None)
    with pytest.raises(UserError, match="--to asks to end before 20"):
        bounded([planned(30, 90)], None, {PLACE: 20})


def test_a_start_that_nobody_chose_as_an_offset_moves_with_the_log() -> None:
    moving = {
        text: parse_place("--from", text, "t").moves_with_the_log(PLACE)
        for text in ("earliest", "@1700000000000", "0:5", "7", "latest")
    }
    assert moving == {
        "earliest": True, "@1700000000000": True, "0:5": False, "7": False, "latest": False,
    }  # fmt: skip


def test_rows_that_were_read_before_retention_came_are_kept(tmp_path: Path) -> None:
    from ottla.loading.verification import verify_files
    from ottla.tables.files.data_files import DataFiles
    from ottla.tables.stores.local_store import LocalStore
    from tests.unit.loading.test_verification import CountedLog, file
    from tests.unit.loading.test_verification import planned as of_file

    class GoneLog(CountedLog):
        def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> Any:
            raise OffsetsGoneError(place, wanted.from_offset, wanted.until_offset)

    (found,) = verify_files(
        [of_file(20)], [file(10, 19, 10)], GoneLog(None), DataFiles(LocalStore("t"))
    )
    assert (found.row_count, found.batches) == (10, None)
