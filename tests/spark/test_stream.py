"""Streams as a user of Spark meets them: checkpoints, triggers, groups, and a log that moves."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.spark.progress import description, offsets_behind_latest
from ottla.spark.session import LocalSession
from tests.support.topics import append

client = pytest.importorskip("confluent_kafka")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    append(tmp_path / "log", {0: 200, 1: 20})
    return tmp_path / "log"


class Stream:
    """A query into Parquet, started again and again on one checkpoint."""

    def __init__(self, session: LocalSession, place: Path, **options: str) -> None:
        self._spark = session.spark
        self._table = place / "table"
        self._checkpoint = place / "checkpoint"
        self._options = {"subscribe": "orders", "startingOffsets": "earliest", **options}

    def run(self, **options: str) -> int:
        """All there is, in as many batches as the options make of it; the count of rows."""
        rows = self._spark.readStream.format("ottla").options(**{**self._options, **options})
        query = (
            rows.load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start(str(self._table))
        )
        query.awaitTermination(120)
        self.progress = list(query.recentProgress)
        # A slow machine's last report is of the look that found nothing more.
        return sum(one.numInputRows for one in self.progress)

    def rows(self) -> list[tuple[Any, ...]]:
        table = self._spark.read.parquet(str(self._table))
        found = table.select("topic", "partition", "offset", "key", "value").collect()
        return sorted(tuple(row) for row in found)

    def batches(self) -> list[dict[str, Any]]:
        """Where each batch ended, as the checkpoint has it."""
        files = sorted((self._checkpoint / "offsets").glob("[0-9]*"), key=lambda one: int(one.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]


def batch_rows(session: LocalSession, **options: str) -> list[tuple[Any, ...]]:
    reader = session.spark.read.format("ottla").options(**{"subscribe": "orders", **options})
    found = reader.load().select("topic", "partition", "offset", "key", "value").collect()
    return sorted(tuple(row) for row in found)


@pytest.fixture
def served(log: Path) -> Iterator[tuple[ottla.Log, str]]:
    with ottla.open(log) as opened:
        yield opened, opened.listen("127.0.0.1:0").address


def test_a_stream_over_files_continues_from_its_checkpoint_with_a_limit(
    local_session: LocalSession, log: Path, tmp_path: Path
) -> None:
    stream = Stream(local_session, tmp_path, path=str(log), maxOffsetsPerTrigger="110")
    stream.run()
    assert [one["orders"] for one in stream.batches()] == [
        {"0": 100, "1": 10},
        {"0": 200, "1": 20},
    ]
    append(log, {0: 5})
    append(log, {1: 3}, topic="returns")
    assert stream.run(subscribe="orders,returns") == 8
    assert stream.rows() == batch_rows(local_session, path=str(log), subscribe="orders,returns")


def test_a_stream_over_the_wire_commits_what_it_has_read(
    local_session: LocalSession, served: tuple[ottla.Log, str], tmp_path: Path
) -> None:
    log, address = served
    group = {"kafka.bootstrap.servers": address, "kafka.group.id": "spark"}
    stream = Stream(local_session, tmp_path, **group)
    stream.run()
    assert stream.rows() == batch_rows(local_session, path=str(tmp_path / "log"))
    assert committed(address) == [200, 20]
    log.append("orders", b"one more", partition=1)
    files = Stream(local_session, tmp_path, path=str(tmp_path / "log"), **group)
    files.run()
    assert committed(address) == [200, 21]
    assert len(stream.rows()) == 221


def committed(address: str) -> list[int]:
    consumer = client.Consumer({"bootstrap.servers": address, "group.id": "spark"})
    try:
        wanted = [client.TopicPartition("orders", number) for number in (0, 1)]
        return [one.offset for one in consumer.committed(wanted, 10)]
    finally:
        consumer.close()


def test_a_querys_progress_has_offsets_as_sparks_own_source_writes_them(
    local_session: LocalSession, log: Path, tmp_path: Path
) -> None:
    stream = Stream(local_session, tmp_path, path=str(log), maxOffsetsPerTrigger="110")
    stream.run()
    (first,) = stream.progress[0].sources
    ends, latest = json.loads(first.endOffset), json.loads(first.latestOffset)
    assert ends["orders"] == {"0": 100, "1": 10}
    assert latest == {"orders": {"0": 200, "1": 20}}
    assert description(first) == "ottla[orders]"
    assert offsets_behind_latest(first) == {
        "minOffsetsBehindLatest": 10.0,
        "maxOffsetsBehindLatest": 100.0,
        "avgOffsetsBehindLatest": 55.0,
    }


def test_a_loss_ends_the_query_with_its_exact_offsets(
    local_session: LocalSession, served: tuple[ottla.Log, str], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    log, address = served
    stream = Stream(local_session, tmp_path, **{"kafka.bootstrap.servers": address})
    stream.run()
    log.append_batch("orders", 0, more(30))
    log.broker.admin.delete_records({("orders", 0): 215})
    with pytest.raises(StreamingQueryException, match="orders-0: offsets 200 to 214 are lost"):
        stream.run()
    assert stream.run(failOnDataLoss="false") == 15


def more(count: int) -> Any:
    from ottla.record.builder import RecordBatchBuilder

    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(b"k", b"v", number)
    return builder
