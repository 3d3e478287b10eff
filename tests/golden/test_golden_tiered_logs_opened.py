"""Directories of Kafka with logs whose head lies in a tier: they are opened for writing, and keep
their log start, their local start and every segment.
"""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.base.partitions import TopicPartition
from ottla.diagnosis.directories import Directories, read_directories
from ottla.diagnosis.doctor import Place, check_log
from ottla.embedded.log import Log
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.log.offsets import Isolation, OffsetInTierError
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.opening import open_directories
from tests.golden.test_golden_remote_log_metadata import CASES, KILLED, RECORDED
from tests.golden.test_golden_tiered_logs import decoded, partitions, tier_of

pytestmark = [
    pytest.mark.skipif(not CASES, reason="needs the recorded tiers"),
    pytest.mark.slow,
]

DIRECTORIES = [
    pytest.param(case, path.name, id=f"{case}-{path.name}")
    for case in CASES
    for path in sorted((RECORDED / case).glob("logdir*"))
]

EXPECTED_ERRORS = ("nothing can be changed before ottla adopt", "this broker has no tier")
"""Of a directory of one of several brokers, and of a broker that was given no tier."""


MUCH_LATER_MS = 1 << 45


def rows_of(case: str, name: str) -> list[dict[str, Any]]:
    return [row for row in partitions(case) if Path(row["dir"]).parent.name == name]


def log_files(directory: Path) -> dict[str, int]:
    """The sizes of the segments of users' topics."""
    return {
        str(path.relative_to(directory)): path.stat().st_size
        for path in directory.glob("[!_]*/*.log")
    }


def log_of(log: Log, row: dict[str, Any]) -> PartitionLog:
    key = TopicPartition(row["topic"], row["partition"])
    (found,) = [one.logs[key] for one in log.broker.directories if key in one.logs]
    return found


def starts_of(case: str, row: dict[str, Any]) -> tuple[int, int]:
    if case == KILLED:  # Kafka has copied and deleted another segment before it was asked.
        first = min(Path(RECORDED / case / row["dir"]).glob("*.log"))
        return row["logStartOffset"], int(first.stem)
    return row["logStartOffset"], row["localLogStartOffset"]


@pytest.mark.parametrize(("case", "name"), DIRECTORIES)
def test_a_directory_with_local_starts_is_opened_without_a_loss(
    case: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / name
    shutil.copytree(RECORDED / case / name, directory)
    files = log_files(directory)
    for _ in range(2):  # the second start knows what only Ottla has written
        with ottla.open(directory) as log:
            for row in rows_of(case, name):
                opened = log_of(log, row)
                starts = opened.log_start_offset, opened.local_start_offset
                assert starts == starts_of(case, row), row["topic"]
                assert opened.log_end_offset >= row["highWatermark"]
                check_reads(opened)
        now = log_files(directory)
        assert {path: now[path] for path in files if now.get(path, -1) < files[path]} == {}
        findings = check(OsFileSystem(), str(directory)).findings
        assert [one.text for one in findings if not one.is_note] == []
    errors = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert [one for one in errors if not any(text in one for text in EXPECTED_ERRORS)] == []


def check_reads(log: PartitionLog) -> None:
    """Below the local start the tier is asked, and from there on the files."""
    start, local_start = log.log_start_offset, log.local_start_offset
    for offset in {start, local_start - 1} if start < local_start else ():
        with pytest.raises(OffsetInTierError):
            log.reader.read(offset, 1, Isolation.LOG_END)
    data = log.reader.read(local_start, 1, Isolation.LOG_END)
    assert (data.records is None) == (local_start == log.log_end_offset)
    earliest, local = log.reader.find_timestamp(-2), log.reader.find_timestamp(-4)
    assert earliest is not None
    assert local is not None
    assert (earliest.offset, local.offset) == (start, local_start)


@pytest.mark.parametrize(("case", "name"), DIRECTORIES)
def test_what_is_in_the_tier_stays_readable_after_a_start(
    case: str, name: str, tmp_path: Path
) -> None:
    directory = tmp_path / name
    shutil.copytree(RECORDED / case / name, directory)
    with ottla.open(directory):
        pass
    for row in rows_of(case, name):
        (opened,) = open_directories([str(directory)], tier=tier_of(case))
        log = opened.partition(row["topic"], row["partition"])
        found = [(one.offset, one.value) for one in log.records.read(log.log_start_offset)]
        assert found == [(one["offset"], decoded(one["value"])) for one in row["records"]]


@pytest.mark.parametrize(("case", "name"), DIRECTORIES)
def test_retention_is_explained_and_doctor_misses_nothing(case: str, name: str) -> None:
    path = RECORDED / case / name
    directories = read_directories([str(path)])
    for row in rows_of(case, name):
        topic, partition = row["topic"], row["partition"]
        (log,) = [one for one in directories.logs(topic) if one.partition == partition]
        config = directories.config(topic)
        facts = explain_log(
            log,
            config,
            0,
            OsFileSystem(),
            highest_remote_offset=directories.highest_remote_offset(log),
        ).facts
        if row["config"]["remote.storage.enable"] == "true":
            starts = facts.log_start_offset, facts.local_start_offset
            assert starts[1] == starts_of(case, row)[1]
            assert starts[0] == (0 if case == KILLED else row["logStartOffset"])
            # What has expired is in the tier no more, whatever Kafka says.
            if case != KILLED and row["lastTieredOffset"] >= row["logStartOffset"]:
                assert facts.highest_remote_offset == row["lastTieredOffset"], topic
    kinds = {
        one.kind
        for topic, indexes in directories.opened[0].topics().items()
        for index in indexes
        for one in check_log(place_of(directories, topic), topic, index)
    }
    assert kinds == set()


def place_of(directories: Directories, topic: str) -> Place:
    (directory,) = directories.opened
    config = directories.config(topic)
    return Place(
        directories=directories,
        directory=directory,
        config=config,
        is_live=False,
        now_ms=MUCH_LATER_MS,
    )
