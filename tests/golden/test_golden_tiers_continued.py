"""Tiers that Kafka filled go on being filled: a whole log is read at rest, each record once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.broker.tiering.tier_jobs import TierJobs
from ottla.embedded.log import Log
from ottla.storage.reading.metadata_reader import read_remote_log_metadata
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tests.golden.test_golden_remote_log_metadata import KILLED, RECORDED
from tests.golden.test_golden_tiered_logs import decoded, partitions
from tests.support.patience import wait_until

CASES = [
    one
    for one in ("1-basic", "2-transactions", "6-deleted-topics", "7-disabled", KILLED)
    if (RECORDED / one).is_dir()
]

pytestmark = [
    pytest.mark.skipif(not CASES, reason="needs the recorded tiers"),
    pytest.mark.slow,
]

NEW_COUNT = 60


def settings(case: str, tier: Path) -> dict[str, str]:
    """Kafka's own, as its `server.properties` had them, but for the places."""
    given: dict[str, str] = json.loads((RECORDED / case / "manifest.json").read_text())["settings"]
    names = [one for one in given if one.startswith(("remote.log.", "rlmm.config."))]
    return {
        **{name: given[name] for name in names},
        "rsm.config.dir": str(tier),
        "remote.log.manager.task.interval.ms": "100",
    }


def jobs_of(log: Log) -> TierJobs:
    assert log.broker.remote_logs is not None
    return log.broker.remote_logs.jobs


def is_copied(log: Log, row: dict[str, Any]) -> bool:
    """Whether all is in the tier that can be."""
    partition = log.broker.topics.partition(row["topic"], row["partition"])
    config, offsets = partition.log.config, partition.log.offsets
    if not config.copies_to_tier:
        return True
    segments = partition.log.segments.values
    stable = partition.log.last_stable_offset
    ends = [one.base_offset for one in segments if one.base_offset <= stable]
    return offsets.highest_remote_offset == ends[-1] - 1


def uploads(directory: Path) -> list[RemoteLogSegmentMetadata]:
    metadata = read_remote_log_metadata(open_directories([str(directory)]))
    assert not metadata.findings
    return [segment for index in metadata.indexes for segment in index.segments()]


@pytest.mark.parametrize("case", CASES)
def test_a_tier_of_kafkas_is_filled_further(case: str, tmp_path: Path) -> None:
    directory, tier = tmp_path / "data", tmp_path / "tier"
    shutil.copytree(RECORDED / case / "logdir", directory)
    shutil.copytree(RECORDED / case / "tier", tier)
    before = {one.segment_id for one in uploads(directory)}
    rows = partitions(case)
    values = [b"new %d " % number + bytes(600) for number in range(NEW_COUNT)]
    with ottla.open(directory, settings=settings(case, tier)) as log:
        for row in rows:
            for value in values:
                log.append(row["topic"], value, partition=row["partition"])
        wait_until(lambda: all(is_copied(log, row) for row in rows) and not len(jobs_of(log)))
        live = {
            one.segment_id: one
            for index in log.broker.remote_logs.metadata.indexes()  # type: ignore[union-attr]
            for one in index.segments()
        }
    stored = uploads(directory)
    assert {one.segment_id: one for one in stored} == live
    assert all(one.state is SegmentState.COPY_SEGMENT_FINISHED for one in stored)
    assert len([one for one in stored if one.segment_id not in before]) >= len(rows)
    check_reads(case, directory, tier, values)
    kept = open_tier(str(tier))
    listed = {one.segment_id for one in kept.segments()}
    assert {one.segment_id for one in stored} <= listed


def check_reads(case: str, directory: Path, tier: Path, values: list[bytes]) -> None:
    """Reads logs at rest; what Kafka wrote is what its consumers read."""
    (opened,) = open_directories([str(directory)], tier=TierPlace(address=str(tier)))
    for row in partitions(case):
        log = opened.partition(row["topic"], row["partition"])
        found = list(log.records.read(log.log_start_offset))
        assert [one.value for one in found[-NEW_COUNT:]] == values
        expected = [(one["offset"], decoded(one["value"])) for one in row["records"]]
        older = [(one.offset, one.value) for one in found[:-NEW_COUNT]]
        if case == KILLED:  # Kafka has written more before it was killed than was read.
            older = older[: len(expected)]
        assert older == expected, row["topic"]
