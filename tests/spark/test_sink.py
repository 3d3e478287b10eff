"""Rows that Spark writes are in the log as Kafka's own clients would have put them there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.embedded.log import Log
from ottla.record.partitioner import partition_for_key
from ottla.spark.restarts import run_to_end
from ottla.spark.session import LocalSession
from ottla.storage.reading.read_only_directory import open_for_reading

PARTITIONS = 4
SERVERS = "kafka.bootstrap.servers"
HEADERS = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class Served:
    """A broker over a data directory, with a topic `orders`."""

    log: Log
    path: Path
    address: str

    def rows(self, topic: str = "orders") -> list[tuple[Any, ...]]:
        directory = open_for_reading(str(self.path))
        return [
            (number, record.key, record.value, record.headers)
            for number in directory.topics()[topic]
            for record in directory.partition(topic, number).records.read(0, read_committed=True)
        ]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    settings = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    with ottla.open(tmp_path / "d", settings) as log:
        log.create_topic("orders", partitions=PARTITIONS)
        yield Served(log, tmp_path / "d", log.listen("127.0.0.1:0").address)


def write(frame: Any, served: Served, **options: str) -> None:
    options = {"topic": "orders", SERVERS: served.address, **options}
    frame.write.format("ottla").mode("append").options(**options).save()


def consumed(address: str, topic: str, count: int) -> list[Any]:
    """What librdkafka reads, committed records only."""
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "readers",
            "isolation.level": "read_committed",
        }
    )
    starts = [
        confluent.TopicPartition(topic, number, confluent.OFFSET_BEGINNING)
        for number in range(PARTITIONS)
    ]
    consumer.assign(starts)
    messages: list[Any] = []
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), timeout=1.0)
    consumer.close()
    return messages


def test_rows_go_where_kafkas_clients_put_their_keys_and_read_back_as_they_were(
    served: Served, local_session: LocalSession
) -> None:
    spark = local_session.spark
    rows = [
        (
            f"key {n}".encode(),
            None if n % 7 == 0 else b"value %d" % n,
            [("trace", b"%d" % n), ("none", None)] if n % 3 == 0 else None,
        )
        for n in range(500)
    ]
    frame = spark.createDataFrame(rows, f"key binary, value binary, headers {HEADERS}")
    write(frame, served)
    messages = consumed(served.address, "orders", len(rows))
    found = sorted((m.key(), m.value(), m.headers() or None) for m in messages)
    assert found == sorted(rows)
    hashes = pytest.importorskip("kafka.partitioner.default")
    for message in messages:
        theirs = (hashes.murmur2(message.key()) & 0x7FFFFFFF) % PARTITIONS
        assert message.partition() == theirs
    source = {"subscribe": "orders", SERVERS: served.address, "includeHeaders": "true"}
    read = spark.read.format("ottla").options(**source).load().select("key", "value", "headers")
    again = sorted(
        (row.key, row.value, [tuple(one) for one in row.headers or ()] or None)
        for row in read.collect()
    )
    assert again == [(bytes(k), v, h) for k, v, h in sorted(rows)]


def test_a_column_says_which_partition_and_rows_without_a_key_take_turns(
    served: Served, local_session: LocalSession
) -> None:
    spark = local_session.spark
    named = spark.createDataFrame(
        [("k", f"{n}", n % PARTITIONS if n % 2 else None) for n in range(40)],
        "key string, value string, partition int",
    )
    write(named, served)
    for number, key, value, _ in served.rows():
        which = int(value)
        assert number == (which % PARTITIONS if which % 2 else partition_for_key(key, PARTITIONS))
    served.log.create_topic("keyless", partitions=PARTITIONS)
    many = spark.range(8000).coalesce(1).selectExpr("cast(id as string) value")
    write(many, served, topic="keyless")
    counts = [0] * PARTITIONS
    for number, key, _, _ in served.rows("keyless"):
        assert key is None
        counts[number] += 1
    assert counts == [2000] * PARTITIONS


def test_each_row_may_name_its_topic(served: Served, local_session: LocalSession) -> None:
    served.log.create_topic("sales", partitions=1)
    frame = local_session.spark.createDataFrame(
        [("orders", "a"), ("sales", "b"), ("orders", "c")], "topic string, value string"
    ).coalesce(1)
    options = {SERVERS: served.address}
    frame.write.format("ottla").mode("append").options(**options).save()
    assert sorted(row[2] for row in served.rows("orders")) == [b"a", b"c"]
    assert [row[2] for row in served.rows("sales")] == [b"b"]
    frame.write.format("ottla").mode("append").options(**options, topic="sales").save()
    assert len(served.rows("sales")) == 4


def test_a_topic_that_was_read_can_be_written_as_it_is(
    served: Served, local_session: LocalSession
) -> None:
    spark = local_session.spark
    write(spark.range(100).selectExpr("cast(id as string) key", "'v' value"), served)
    served.log.create_topic("copy", partitions=PARTITIONS)
    source = {"subscribe": "orders", SERVERS: served.address}
    write(spark.read.format("ottla").options(**source).load(), served, topic="copy")
    assert served.rows("copy") == served.rows("orders")


def test_sql_inserts_into_a_table(served: Served, local_session: LocalSession) -> None:
    spark = local_session.spark
    spark.sql(
        f"CREATE TABLE sink_orders USING ottla "
        f"OPTIONS (`{SERVERS}` '{served.address}', subscribe 'orders', columns 'key,value')"
    )
    try:
        with pytest.raises(Exception, match=r"INSERT INTO \.\.\. WITH \(`kafka"):
            spark.sql("INSERT INTO sink_orders VALUES (binary('k'), binary('v'))")
        spark.sql(
            f"INSERT INTO sink_orders WITH (`{SERVERS}` = '{served.address}', topic = 'orders') "
            f"VALUES (binary('k'), binary('inserted'))"
        )
        assert [row[1:3] for row in served.rows()] == [(b"k", b"inserted")]
    finally:
        spark.sql("DROP TABLE sink_orders")


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("1 value", {}, "column value must be binary or string, not int; cast it"),
        ("'k' key", {}, "there is no column value"),
        ("'v' value", {"topic": "no where"}, "The name is not legal for a topic"),
        ("'v' value, 9 partition", {}, "column partition is 9, but orders has partitions 0 to 3"),
        ("'v' value", {"kafka.security.protocol": "TLS"}, "it is one of PLAINTEXT, SSL"),
        ("repeat('v', 2000000) value", {}, "kafka.max.request.size is 1048576; raise it"),
        ("'v' value", {"kafka.transaction.timeout.ms": "999999999"}, "transaction.max.timeout.ms"),
    ],
)
def test_what_cannot_be_written_is_reported_with_the_fix(
    served: Served,
    local_session: LocalSession,
    columns: str,
    options: dict[str, str],
    told: str,
) -> None:
    frame = local_session.spark.sql(f"SELECT {columns}")
    with pytest.raises(Exception) as raised:
        write(frame, served, **options)
    assert told in str(raised.value)
    assert served.rows() == []


def test_other_columns_and_unknown_options_change_nothing(
    served: Served, local_session: LocalSession
) -> None:
    frame = local_session.spark.sql(
        "SELECT 'v' value, 1 color, array(named_struct('a', 1.5BD)) more, null nothing, "
        "'k' Key, date'2024-02-29' timestamp, 2 partition"
    )
    unknown = {"colour": "red", "subscribe": "orders", "kafka.lingr": "5", "kafka.a.plugin": "x"}
    write(frame, served, **unknown)
    assert served.rows() == [(2, None, b"v", ())]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (None, 'Please use either the "Append" or "Overwrite" mode'),
        ("ignore", 'Please use either the "Append" or "Overwrite" mode'),
        ("overwrite", "a log can only be appended to; write with mode append"),
    ],
)
def test_a_batch_is_written_with_mode_append_alone(
    served: Served, local_session: LocalSession, mode: str | None, told: str
) -> None:
    """Spark itself refuses a Python source without a mode; its Kafka sink is written in Scala."""
    writer = local_session.spark.sql("SELECT 'v' value").write.format("ottla")
    with pytest.raises(Exception) as raised:
        writer.mode(mode).options(**{"topic": "orders", SERVERS: served.address}).save()
    assert told in str(raised.value)
    assert served.rows() == []


def test_a_stream_of_mode_complete_appends_despite_other_columns_and_unknown_options(
    served: Served, local_session: LocalSession, tmp_path: Path
) -> None:
    spark = local_session.spark
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "rows.txt").write_text("a\nb\na\n")
    counts = spark.readStream.schema("value string").text(str(tmp_path / "source"))
    writer = (
        counts.groupBy("value").count().coalesce(1)
        .writeStream.format("ottla").outputMode("complete").queryName("counts")
        .options(**{"topic": "orders", SERVERS: served.address, "kafka.lingr": "5", "color": "red"})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )  # fmt: skip
    run_to_end(writer.start)
    assert sorted(row[2] for row in served.rows()) == [b"a", b"b"]


def test_a_write_that_fails_leaves_nothing_and_nobody_waiting(
    served: Served, local_session: LocalSession
) -> None:
    """One task is through, the other one fails after it has written much."""
    frame = local_session.spark.range(0, 30000, 1, 2).selectExpr(
        "if(id = 29999, assert_true(false, 'boom'), null) key", "repeat('v', 100) value"
    )
    frame = frame.selectExpr("cast(key as string) key", "value")
    with pytest.raises(Exception, match="boom"):
        write(frame, served)
    assert served.rows() == []
    directory = open_for_reading(str(served.path))
    for number in range(PARTITIONS):
        partition = directory.partition("orders", number)
        assert partition.transactions.last_stable_offset == partition.log_end_offset


def test_a_stream_continues_where_its_checkpoint_says_and_writes_each_row_once(
    served: Served, local_session: LocalSession, tmp_path: Path
) -> None:
    """The second run is told by an older copy of the checkpoint to do the last batch again."""
    spark = local_session.spark
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"

    def run() -> None:
        rows = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        writer = (
            rows.text(str(source))
            .writeStream.format("ottla")
            .options(**{"topic": "orders", SERVERS: served.address})
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )
        run_to_end(writer.start)

    for number in range(2):
        spark.range(number * 100, number * 100 + 100).selectExpr("cast(id as string)").coalesce(
            1
        ).write.mode("append").text(str(source))
    run()
    expected = sorted(b"%d" % number for number in range(200))
    assert sorted(row[2] for row in served.rows()) == expected
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    assert len(commits) == 2
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink()
    run()
    assert sorted(row[2] for row in served.rows()) == expected
