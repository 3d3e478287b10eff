"""The rows that Spark is given of Kafka's directories are what consumers read committed."""

import pytest

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.sources.log_files import LogFiles
from ottla.sources.splits import SplitOptions
from ottla.sources.topic_choice import TopicChoice
from tests.golden.directories import GOLDEN
from tests.golden.test_golden_reader import GoldenPartition, decoded, every_partition

pytest.importorskip("pyarrow")

COLUMNS = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")


@every_partition
def test_rows_are_the_records_that_a_consumer_read_committed(golden: GoldenPartition) -> None:
    files = LogFiles(
        [str(GOLDEN / golden.case / "logdir")], TopicChoice(subscribed=(golden.told["topic"],))
    )
    place = TopicPartition(golden.told["topic"], golden.told["partition"])
    offered = {one.place: one for one in files.partitions()}[place]
    wanted = OffsetRange(
        from_offset=offered.start_offset,
        until_offset=min(offered.end_offset, golden.reported_end),
    )
    splits = files.splits({place: wanted}, SplitOptions(min_count=3))
    rows = [
        row for one in splits for batch in files.read(one, COLUMNS) for row in batch.to_pylist()
    ]
    committed = set(golden.told["readCommittedOffsets"]).intersection(range(wanted.until_offset))
    told = [record for record in golden.told["records"] if record["offset"] in committed]
    assert [row["offset"] for row in rows] == [record["offset"] for record in told]
    for row, record in zip(rows, told, strict=True):
        assert (row["key"], row["value"]) == (decoded(record["key"]), decoded(record["value"]))
        headers = [(header["key"], header["value"]) for header in row["headers"]]
        assert headers == [(name, decoded(value)) for name, value in record["headers"]]
        if row["timestamp_type"] >= 0:
            assert row["timestamp_ms"] == record["timestamp"]
    assert files.count_records(place, wanted) == len(rows)
