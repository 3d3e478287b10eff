"""Logs whose head lies in a tier that Kafka filled: each is read as one, as by its consumers."""

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.sources.log_files import LogFiles
from ottla.sources.options import Isolation, parse_options
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.time_search import first_offset_at
from tests.golden.test_golden_remote_log_metadata import CASES, KILLED, RECORDED

pytestmark = [
    pytest.mark.skipif(not CASES, reason="needs the recorded tiers"),
    pytest.mark.slow,
]
each_case = pytest.mark.parametrize("case", CASES)


def partitions(case: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDED / case / "manifest.json").read_text())[
        "partitions"
    ]
    return found


def directory_of(case: str, row: dict[str, Any]) -> Path:
    return RECORDED / case / Path(row["dir"]).parent


def tier_of(case: str) -> TierPlace:
    keys = RECORDED / case / "keys"
    return TierPlace(
        address=str(RECORDED / case / "tier"), keys=str(keys) if keys.is_dir() else None
    )


def logs(case: str) -> Iterator[tuple[dict[str, Any], ReadOnlyLog]]:
    for row in partitions(case):
        (directory,) = open_directories([str(directory_of(case, row))], tier=tier_of(case))
        yield row, directory.partition(row["topic"], row["partition"])


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@each_case
def test_a_log_is_read_from_its_tier_and_then_from_its_files(case: str) -> None:
    for row, log in logs(case):
        expected = [
            (
                one["offset"],
                one["timestamp"],
                decoded(one["key"]),
                decoded(one["value"]),
                tuple((name, decoded(value)) for name, value in one["headers"]),
            )
            for one in row["records"]
        ]
        assert log.log_start_offset == row["logStartOffset"]
        found = [
            (one.offset, one.timestamp_ms, one.key, one.value, tuple(one.headers))
            for one in log.records.read(log.log_start_offset)
        ]
        assert found == expected, row["topic"]


@each_case
def test_aborted_records_are_left_out_across_the_border(case: str) -> None:
    for row in partitions(case):
        place = tier_of(case)
        path = directory_of(case, row)
        with ottla.open(path, read_only=True, tier=place.address, tier_key=place.keys) as log:
            found = [one.offset for one in log.read(row["topic"], row["partition"])]
        committed = [one for one in row["readCommittedOffsets"] if one < row["lastStableOffset"]]
        if case == KILLED:  # Kafka had not written its last high watermark.
            committed = committed[: len(found)]
            assert found
        assert [one for one in found if one < row["lastStableOffset"]] == committed, row["topic"]


@each_case
def test_times_are_looked_up_in_the_tier_and_in_the_files(case: str) -> None:
    for row, log in logs(case):
        every = {one["offset"]: one["timestamp"] for one in row["records"]}
        for timestamp_ms, offset, *_ in row["offsetsForTimes"]:
            found = first_offset_at(log, timestamp_ms=timestamp_ms)
            first = next((one for one, at in every.items() if at >= timestamp_ms), None)
            assert found == first, (row["topic"], timestamp_ms)
            if offset in every:  # Kafka finds markers of transactions too.
                assert found == offset


@each_case
def test_a_read_may_begin_at_any_offset(case: str) -> None:
    for row, log in logs(case):
        every = [one["offset"] for one in row["records"]]
        for number in range(0, len(every), max(1, len(every) // 40)):
            first = next(log.records.read(every[number]))
            assert first.offset == every[number], row["topic"]


@each_case
def test_tasks_of_a_load_share_the_segments_of_the_tier(case: str) -> None:
    place = tier_of(case)
    for row in partitions(case):
        options = parse_options(
            {
                "path": str(directory_of(case, row)),
                "subscribe": row["topic"],
                "tier": place.address,
                **({} if place.keys is None else {"tier.key": place.keys}),
            }
        )
        source = LogFiles(
            options.paths, options.choice, Isolation.READ_UNCOMMITTED, tier=options.tier
        )
        key = TopicPartition(row["topic"], row["partition"])
        whole = OffsetRange(from_offset=row["logStartOffset"], until_offset=row["highWatermark"])
        if whole.from_offset == whole.until_offset:
            continue
        found: list[int] = []
        for split in source.splits({key: whole}):
            for batch in source.read(split, ("offset",)):
                found += batch.column("offset").to_pylist()
        expected = [one["offset"] for one in row["records"] if one["offset"] < row["highWatermark"]]
        assert found == expected, row["topic"]


@each_case
def test_without_metadata_records_the_tier_itself_says_what_it_has(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """But for uploads that a broker has superseded, or forgotten, of which only records know."""
    for row in partitions(case):
        source, target = directory_of(case, row), tmp_path / row["topic"] / str(row["partition"])
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__remote_log_metadata-*"))
        (directory,) = open_directories([str(target)], tier=tier_of(case))
        log = directory.partition(row["topic"], row["partition"])
        found = [one.offset for one in log.records.read(log.log_start_offset)]
        expected = [one["offset"] for one in row["records"]]
        assert found[-len(expected) :] == expected, row["topic"]
        assert "metadata records of its uploads are missing" in caplog.text
