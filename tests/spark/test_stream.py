"""Streams as a user of Spark meets them: checkpoints, triggers, groups, and a log that moves."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.spark.progress import description, offsets_behind_latest, readable
from ottla.spark.restarts import run_to_end
from ottla.spark.session import LocalSession
from tests.support.topics import append, log_rows

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
        writer = (
            rows.load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
        )
        queries = run_to_end(lambda: writer.start(str(self._table)))
        self.progress = [one for query in queries for one in query.recentProgress]
        # A slow machine's last report is of the look that found nothing more.
        return sum(one.numInputRows for one in self.progress)

    def table(self) -> Any:
        return self._spark.read.parquet(str(self._table))

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.table().select("topic", "partition", "offset", "key", "value").collect()
        return sorted(tuple(row) for row in found)

    def batches(self) -> list[dict[str, Any]]:
        """Where each batch ended, as the checkpoint has it."""
        files = sorted((self._checkpoint / "offsets").glob("[0-9]*"), key=lambda one: int(one.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]


def sparks_own_checkpoint(place: Path, ends: list[dict[str, int]]) -> None:
    """The files of a query over Spark's own Kafka source that died in the last of these batches.

    Written by hand, as `OffsetSeqLog`, `CommitLog` and `KafkaSourceInitialOffsetWriter` write them.
    """
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.join.stateFormatVersion": "2",
    }
    files = {"metadata": '{"id":"8c6c4a5e-53f2-4f0e-b7b7-3a1c3b5a0c11"}'}
    files["sources/0/0"] = '\0v1\n{"orders":{"1":0,"0":0}}'
    for number, end in enumerate(ends):
        about = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": settings}
        texts = (json.dumps(one, separators=(",", ":")) for one in (about, {"orders": end}))
        files[f"offsets/{number}"] = "\n".join(("v1", *texts))
        files[f"commits/{number}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    del files[f"commits/{len(ends) - 1}"]
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


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
    limits = {"maxOffsetsPerTrigger": "110", "includeHeaders": "true"}
    stream = Stream(local_session, tmp_path, path=str(log), **limits)
    stream.run()
    assert [one["orders"] for one in stream.batches()] == [
        {"0": 100, "1": 10},
        {"0": 200, "1": 20},
    ]
    # As in Spark's own Kafka source: null, not an empty list, where a record has none.
    without = stream.table().where("headers is null").count()
    assert without == sum(not row[6] for row in log_rows(log)) > 0
    assert stream.table().where("size(headers) = 2").count() == 220 - without
    append(log, {0: 5})
    append(log, {1: 3}, topic="returns")
    assert stream.run(subscribe="orders,returns") == 8
    assert stream.rows() == batch_rows(local_session, path=str(log), subscribe="orders,returns")


def test_a_query_continues_the_checkpoint_of_a_job_of_sparks_own_source(
    local_session: LocalSession, log: Path, tmp_path: Path
) -> None:
    sparks_own_checkpoint(tmp_path / "checkpoint", [{"1": 5, "0": 150}, {"1": 5, "0": 160}])
    (tmp_path / "table" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "table" / "_spark_metadata" / "0").write_text("v1")  # its first batch, of no files
    stream = Stream(local_session, tmp_path, path=str(log))
    assert stream.run() == 65
    assert [one["orders"] for one in stream.batches()][1:] == [
        {"1": 5, "0": 160},
        {"0": 200, "1": 20},
    ]
    everything = batch_rows(local_session, path=str(log))
    assert stream.rows() == [row for row in everything if row[2] >= (150 if row[1] == 0 else 5)]


def test_sparks_own_source_can_continue_from_a_checkpoint_of_ottla(
    local_session: LocalSession, log: Path, tmp_path: Path
) -> None:
    stream = Stream(local_session, tmp_path, path=str(log), maxOffsetsPerTrigger="110")
    stream.run()
    found = [read_as_sparks_own_source(local_session, json.dumps(one)) for one in stream.batches()]
    assert found == [
        {("orders", 0): 100, ("orders", 1): 10},
        {("orders", 0): 200, ("orders", 1): 20},
    ]


def read_as_sparks_own_source(session: LocalSession, text: str) -> dict[tuple[str, int], int]:
    """Offsets as its `JsonUtils.partitionOffsets` reads them, with the same library and types."""
    java: Any = session.spark._jvm
    mapper = java.com.fasterxml.jackson.databind.ObjectMapper()
    mapper.registerModule(java.com.fasterxml.jackson.module.scala.DefaultScalaModule())
    load = java.java.lang.Thread.currentThread().getContextClassLoader().loadClass
    types, of_scala = mapper.getTypeFactory(), load("scala.collection.immutable.Map")
    numbers = types.constructMapLikeType(
        of_scala, load("java.lang.Integer"), load("java.lang.Long")
    )
    topics = mapper.readValue(
        text,
        types.constructMapLikeType(
            of_scala, types.constructType(load("java.lang.String")), numbers
        ),
    )
    found = {}
    topic = topics.iterator()
    while topic.hasNext():
        pair = topic.next()
        number = pair._2().iterator()
        while number.hasNext():
            one = number.next()
            found[pair._1(), one._1()] = one._2()
    return found


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
    (shown,) = readable(stream.progress[0])["sources"]
    assert shown["description"] == "ottla[orders]"
    assert shown["endOffset"] == {"orders": {"0": 100, "1": 10}}
    assert shown["metrics"]["avgOffsetsBehindLatest"] == "55.0"
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
    words = r"\[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE\] orders-0: offsets 200 to 214 are lost"
    with pytest.raises(StreamingQueryException, match=words) as raised:
        stream.run()
    assert "Traceback" not in str(raised.value)
    assert stream.run(failOnDataLoss="false") == 15


def test_a_mistake_that_a_stream_alone_has_is_told(
    local_session: LocalSession, served: tuple[ottla.Log, str], tmp_path: Path
) -> None:
    address = served[1]
    mistakes = {"kafka.bootstrap.servers": address, "endingOffsets": "latest"}
    with pytest.raises(Exception, match="a stream has no end: leave out option end") as raised:
        Stream(local_session, tmp_path, **mistakes).run()
    assert "Traceback" not in str(raised.value)


def more(count: int) -> Any:
    from ottla.record.builder import RecordBatchBuilder

    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(b"k", b"v", number)
    return builder
