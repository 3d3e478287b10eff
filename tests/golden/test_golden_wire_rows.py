"""Kafka's directories, served: a client is given the rows that the files have, as Kafka's was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.record.columns import COLUMNS
from ottla.sources.log_source import LogPartition, LogSource
from ottla.sources.opening import open_log, source_options
from ottla.sources.options import parse_options
from ottla.sources.splits import SplitOptions
from tests.golden.directories import CASES, copy_of
from tests.golden.test_golden_reader import manifest

pytest.importorskip("pyarrow")
pytest.importorskip("confluent_kafka")

UNCHANGED = {"log.retention.ms": -1, "log.cleaner.enable": False}
SERVED = [case for case in CASES if case.startswith(("basic", "compaction", "txn", "old", "del"))]
SERVED += [case for case in CASES if case in ("multiseg", "logappendtime", "idempotent")]

Rows = dict[TopicPartition, list[dict[str, Any]]]


def rows(log: LogSource) -> Rows:
    ranges = {
        one.place: OffsetRange(from_offset=one.start_offset, until_offset=one.end_offset)
        for one in log.partitions()
    }
    found: Rows = {place: [] for place in ranges}
    for split in log.splits(ranges, SplitOptions(min_count=2 * len(ranges))):
        for batch in log.read(split, COLUMNS):
            found[split.place] += batch.to_pylist()
    return found


def offered(log: LogSource) -> list[LogPartition]:
    """But for epochs: files of the old formats name none, and brokers then say 0."""
    return [replace(one, leader_epoch=None) for one in log.partitions()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "isolation"),
    [
        *((case, "read_committed") for case in SERVED),
        *((case, "read_uncommitted") for case in SERVED if case == "txn"),
    ],
)
def test_rows_over_the_wire_are_those_of_the_files(
    case: str, isolation: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    copy_of(case, data)
    told = {
        TopicPartition(one["topic"], one["partition"]): one for one in manifest(case)["partitions"]
    }
    topics = ",".join(sorted({place.topic for place in told}))
    with ottla.open(data, UNCHANGED) as log:
        sources = [str(data), log.listen("127.0.0.1:0").address]
        files, wire = (
            open_log(
                parse_options(
                    {**source_options(one), "subscribe": topics, "isolation.level": isolation}
                )
            )
            for one in sources
        )
        assert offered(wire) == offered(files)
        found = rows(wire)
        assert found == rows(files)
    field = "readCommittedOffsets" if isolation == "read_committed" else "records"
    for place, one in told.items():
        offsets = [row["offset"] for row in found[place]]
        if field == "records":
            assert offsets == [record["offset"] for record in one["records"]]
        else:
            assert offsets == one[field]
