"""Each segment of a log is explained: where it is, and by which rule."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.segment_metadata import SegmentState
from ottla.storage.tiers.contents import TierContents, TieredLog
from ottla.storage.tiers.explanation import Explained, explain_tier
from tests.support.tiered import TieredPlace, uploaded
from tests.support.tiers import NOW_MS, local_objects, put

ON = TopicConfig(remote_storage_enable=True)


def log_of(place: TieredPlace) -> TieredLog:
    contents = TierContents(open_tier(str(place.tier)), [open_for_reading(str(place.data))])
    (log,) = contents.logs()
    return log


def rows(place: TieredPlace, config: TopicConfig | None = ON) -> list[Explained]:
    return list(explain_tier(log_of(place), config, NOW_MS + 1000).rows)


def test_each_segment_has_its_place_and_its_reason(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19)]
    place = TieredPlace(tmp_path, uploads, (10, 19), (20, 29), (30, 35))
    found = rows(place)
    assert [(one.first_offset, one.last_offset, one.place, one.state) for one in found] == [
        (0, 9, "tier", "read"),
        (10, 19, "tier", "also local"),
        (10, 19, "local", "copied"),
        (20, 29, "local", "not copied"),
        (30, 35, "local", "not copied"),
    ]
    assert "copied by broker 1" in found[0].reason
    assert "next copy task" in found[3].reason
    assert "the active segment" in found[4].reason
    assert [one.has(10) for one in found] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (TopicConfig(), "the topic has no tier"),
        (replace(ON, remote_log_copy_disable=True), "remote.log.copy.disable is true"),
        (replace(ON, remote_copy_lag_ms=900, remote_copy_lag_bytes=1), "next copy task"),
        (replace(ON, remote_copy_lag_ms=900, remote_copy_lag_bytes=1 << 20), "next copy task"),
        (replace(ON, remote_copy_lag_ms=9000, remote_copy_lag_bytes=1 << 20), ".lag.ms=9000 or"),
        (None, "next copy task"),
    ],
)
def test_the_rule_that_keeps_a_segment_from_being_copied_is_named(
    tmp_path: Path, config: TopicConfig | None, reason: str
) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 19), (20, 25))
    (found,) = [one for one in rows(place, config) if one.first_offset == 10]
    assert reason in found.reason


def test_what_the_log_does_not_read_is_explained_too(tmp_path: Path) -> None:
    uploads = [
        uploaded(1, 0, 9),
        uploaded(2, 10, 19),
        uploaded(3, 20, 29, epoch=1),
        uploaded(4, 10, 19),
        uploaded(5, 20, 29, epoch=2),
    ]
    place = TieredPlace(tmp_path, uploads, (30, 35), epochs=((0, 0), (2, 20)), log_start=10)
    put(place.tier, local_objects(uploaded(6, 30, 35)))
    log = log_of(place)
    log.index.put(replace(uploaded(7, 30, 35).metadata, state=SegmentState.COPY_SEGMENT_STARTED))
    log.index.put(replace(uploaded(8, 0, 9).metadata, state=SegmentState.DELETE_SEGMENT_STARTED))
    found = {one.state: one.reason for one in explain_tier(log, ON, NOW_MS).rows}
    assert "expiration deletes it" in found["before the log's start"]
    assert "has these offsets too, and is read" in found["superseded"]
    assert "its leader epochs (1 from 20) are not the log's" in found["other lineage"]
    assert "not finished" in found["unfinished"]
    assert "deletion was begun" in found["being deleted"]
    assert "no record names it" in found["no record"]


def test_a_gap_is_nowhere(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (20, 25))
    (found,) = [one for one in rows(place) if one.place == "nowhere"]
    assert (found.first_offset, found.last_offset, found.state) == (10, 19, "lost")


def test_a_part_of_an_upload_is_told(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 13), uploaded(2, 8, 19)], (20, 25))
    reasons = [one.reason for one in rows(place)]
    assert "the log has offsets 0 to 7 of it" in reasons[0]


def test_a_partition_without_a_directory_is_explained_from_the_tier(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    shutil.rmtree(place.partition)
    explained = explain_tier(log_of(place), None, NOW_MS)
    assert (explained.end_offset, explained.stable_offset) == (None, None)
    assert [one.state for one in explained.rows] == ["read"]
