"""A task reads its part of a tiered log by what the plan has found, and no metadata records."""

import pickle
import shutil
from pathlib import Path

import pytest

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.split_tasks import tasks_of
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import Split
from ottla.sources.splits import SplitOptions
from ottla.sources.topic_choice import TopicChoice
from ottla.storage.files.filenames import log_file_name
from ottla.storage.reading import tiered_files
from ottla.storage.reading.tier_share import TierShare
from tests.support.tiered import TieredPlace, uploaded

pytest.importorskip("pyarrow")

UPLOADS = [uploaded(number, 10 * number, 10 * number + 9) for number in range(4)]


def source(place: TieredPlace) -> LogFiles:
    return LogFiles([str(place.data)], TopicChoice(subscribed=("orders",)), tier=place.place)


def offsets(log: LogFiles, splits: list[Split]) -> list[int]:
    return [
        offset
        for split in splits
        for batch in log.read(split, ["offset"])
        for offset in batch.column("offset").to_pylist()
    ]


def planned(place: TieredPlace, count: int = 5) -> list[Split]:
    log = source(place)
    return log.splits(ranges_of(log), SplitOptions(min_count=count))


def ranges_of(log: LogFiles) -> dict[TopicPartition, OffsetRange]:
    return {
        one.place: OffsetRange(from_offset=one.start_offset, until_offset=one.end_offset)
        for one in log.partitions()
    }


def pieces(split: Split) -> list[int]:
    chain = None if split.tier is None else split.tier.chain
    return [] if chain is None else [one.first_offset for one in chain.pieces]


@pytest.mark.parametrize("is_gone", [False, True])
def test_each_task_has_the_uploads_of_its_offsets_and_needs_no_records(
    tmp_path: Path, is_gone: bool
) -> None:
    place = TieredPlace(tmp_path, UPLOADS, (40, 45))
    if is_gone:
        shutil.rmtree(place.data)
        place.data.mkdir()
    splits = pickle.loads(pickle.dumps(planned(place)))
    assert len(splits) > 3
    for split in splits:
        expected = [
            one
            for one in (0, 10, 20, 30)
            if one < split.until_offset and one + 9 >= split.from_offset
        ]
        assert pieces(split) == expected
    shutil.rmtree(place.data / "__remote_log_metadata-0", ignore_errors=True)

    def forbidden(*_: object) -> None:
        raise AssertionError("a task looks for uploads")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiered_files, "read_remote_log_metadata", forbidden)
        patch.setattr(tiered_files, "find_gone", forbidden)
        assert offsets(source(place), splits) == [*range(40 if is_gone else 46)]
        assert offsets(source(place), splits[2:3]) == [
            *range(splits[2].from_offset, splits[2].until_offset)
        ]


def test_who_has_read_the_records_goes_by_them(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, UPLOADS, (40, 45))
    log, splits = source(place), planned(place)
    assert len(log.partitions()) == 1
    assert offsets(log, splits[:1]) == [*range(splits[0].until_offset)]
    assert offsets(log, splits) == [*range(46)]


def test_local_segments_that_were_deleted_since_are_found_in_the_records(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, UPLOADS, (30, 39), (40, 45))
    splits = planned(place)
    assert all(30 not in pieces(split) for split in splits)
    (place.partition / log_file_name(30)).unlink()
    assert offsets(source(place), splits) == [*range(46)]


def test_the_tasks_of_a_load_have_the_uploads_of_what_they_write(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, UPLOADS, (40, 45))
    log = source(place)
    tasks = [split for task in tasks_of(log, ranges_of(log), 20) for split in task]
    assert len(tasks) > 1
    for split in tasks:
        assert offsets(source(place), [split]) == [*range(split.from_offset, split.until_offset)]
        assert isinstance(split.tier, TierShare) or split.from_offset >= 40
