"""Logs of Kafka that have lost their leader epochs get those of their newest upload again."""

import shutil
from pathlib import Path

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.remote.segment_metadata import SegmentState
from tests.golden.test_golden_remote_log_metadata import RECORDED
from tests.golden.test_golden_tiered_logs import decoded
from tests.golden.test_golden_tiered_logs_opened import log_of, rows_of
from tests.golden.test_golden_tiers_continued import jobs_of, settings, uploads
from tests.support.patience import wait_until

CASE = "5-leader-changes"
DIRECTORIES = sorted(path.name for path in (RECORDED / CASE).glob("logdir-*"))

pytestmark = [
    pytest.mark.skipif(not DIRECTORIES, reason="needs the recorded tiers"),
    pytest.mark.slow,
]


def finished(directory: Path) -> set[Uuid]:
    """Uploads that a leader must not delete; those that were only begun it may."""
    state = SegmentState.COPY_SEGMENT_FINISHED
    return {one.segment_id for one in uploads(directory) if one.state is state}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_lost_leader_epochs_come_from_the_newest_upload(name: str, tmp_path: Path) -> None:
    data, tier = tmp_path / "data", tmp_path / "tier"
    shutil.copytree(RECORDED / CASE / name, data)
    shutil.copytree(RECORDED / CASE / "tier", tier)
    expected: dict[str, list[EpochEntry]] = {}
    for row in rows_of(CASE, name):
        path = data / f"{row['topic']}-{row['partition']}" / LEADER_EPOCHS
        known = LeaderEpochs.read(OsFileSystem(), str(path)).entries
        # An epoch in which nothing was written is in no batch, and in no upload.
        expected[row["topic"]] = [one for one in known if one.start_offset < row["highWatermark"]]
        path.unlink()
    before = finished(data)
    with ottla.open(data, settings=settings("1-basic", tier)) as log:
        logs = {row["topic"]: log_of(log, row) for row in rows_of(CASE, name)}
        wait_until(lambda: {key: [*one.epochs.entries] for key, one in logs.items()} == expected)
        for row in rows_of(CASE, name):
            values = [(one.offset, one.value) for one in log.read(row["topic"])]
            assert values == [(one["offset"], decoded(one["value"])) for one in row["records"]]
        wait_until(lambda: not len(jobs_of(log)))
    assert finished(data) == before
