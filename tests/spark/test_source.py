"""The data source `ottla` as a user of Spark meets it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.session import LocalSession, running_session, spark_session
from tests.support.topics import append, log_rows


@pytest.fixture
def log(tmp_path: Path) -> Path:
    append(tmp_path, {0: 300, 1: 20})
    return tmp_path


def read(session: LocalSession, log: Path, **options: str) -> Any:
    """Without registering anything: Spark finds the source by itself."""
    reader = session.spark.read.format("ottla").option("subscribe", "orders")
    return reader.options(**options).load(str(log))


def test_columns_are_those_of_sparks_own_kafka_source(
    local_session: LocalSession, log: Path
) -> None:
    fields = read(local_session, log, includeHeaders="true").schema.fields
    assert [(field.name, field.dataType.simpleString()) for field in fields] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_rows_are_the_logs_records(local_session: LocalSession, log: Path) -> None:
    rows = read(local_session, log, includeHeaders="true").orderBy("partition", "offset").toArrow()
    found = [
        (row["partition"], row["offset"], row["key"], row["value"], row["topic"], row["headers"])
        for row in rows.to_pylist()
    ]
    expected = [
        (*row[:4], "orders", [{"key": key, "value": value} for key, value in row[6]] or None)
        for row in log_rows(log)
    ]
    assert found == expected
    assert {type(row[5]) for row in found} == {list, type(None)}


def test_offsets_choose_the_rows(local_session: LocalSession, log: Path) -> None:
    rows = read(
        local_session,
        log,
        startingOffsets=json.dumps({"orders": {"0": 290, "1": -2}}),
        endingOffsets=json.dumps({"orders": {"0": -1, "1": 3}}),
        columns="offset",
        minPartitions="4",
    )
    assert sorted(row.offset for row in rows.collect()) == [0, 1, 2, *range(290, 300)]
    assert rows.rdd.getNumPartitions() >= 4


def test_an_empty_range_has_no_rows(local_session: LocalSession, log: Path) -> None:
    offsets = json.dumps({"orders": {"0": 300, "1": 20}})
    assert read(local_session, log, startingOffsets=offsets).count() == 0


def test_a_schema_of_ones_own_chooses_columns(local_session: LocalSession, log: Path) -> None:
    reader = local_session.spark.read.format("ottla").option("subscribe", "orders")
    rows = reader.schema("offset bigint, key binary").load(str(log))
    assert rows.columns == ["offset", "key"]
    assert rows.where("offset = 1 and key is not null").count() == 2


def test_sql_reads_it_too(local_session: LocalSession, log: Path) -> None:
    local_session.spark.sql(
        f"CREATE OR REPLACE TEMP VIEW orders USING ottla OPTIONS (path '{log}', subscribe 'orders')"
    )
    found = local_session.spark.sql(
        "SELECT partition, count(*) AS records FROM orders GROUP BY partition ORDER BY partition"
    )
    assert [tuple(row) for row in found.collect()] == [(0, 300), (1, 20)]


def test_a_table_says_where_its_options_go_and_reads_with_those_of_a_query(
    local_session: LocalSession, log: Path
) -> None:
    spark = local_session.spark
    with pytest.raises(Exception, match="CREATE TEMP VIEW orders USING ottla OPTIONS"):
        spark.sql(f"CREATE TABLE o USING ottla OPTIONS (path '{log}', subscribe 'orders')")
    spark.sql("CREATE TABLE o (offset bigint) USING ottla OPTIONS (subscribe 'orders')")
    try:
        with pytest.raises(Exception, match=r"SELECT \.\.\. FROM orders WITH \(\.\.\.\)"):
            spark.sql("SELECT * FROM o").collect()
        rows = spark.sql(f"SELECT * FROM o WITH (path = '{log}', subscribe = 'orders')")
        assert rows.count() == 320
    finally:
        spark.sql("DROP TABLE o")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "sales"}, "has no topic sales; it has orders"),
        (
            {"startingOffsets": '{"orders": {"0": 1}}'},
            r"\[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED\] startingOffsets says nothing about",
        ),
        ({"endingOffsets": '{"orders": {"0": 301, "1": 1}}'}, "asks for 301, but .* end at 300"),
    ],
)
def test_a_mistake_is_named(
    local_session: LocalSession, log: Path, options: dict[str, str], words: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=words) as raised:
        read(local_session, log, **options).count()
    assert "Traceback" not in str(raised.value)


def test_what_sparks_own_source_ignores_is_ignored(local_session: LocalSession, log: Path) -> None:
    ignored = {"maxOffsetsPerTrigger": "5", "endingOffset": "latest", "kafka.a.plugin": "x"}
    assert read(local_session, log, **ignored).count() == 320
    reader = local_session.spark.read.format("ottla")
    assert reader.option("assign", '{"orders": [1, 7]}').load(str(log)).count() == 20
    reader = local_session.spark.read.format("ottla")
    assert reader.option("subscribePattern", "^sales$").load(str(log)).count() == 0


def test_the_running_session_is_used_and_left_running(local_session: LocalSession) -> None:
    with spark_session() as spark:
        assert spark.sparkContext is local_session.spark.sparkContext
    running = running_session()
    assert running is not None
    assert running.range(3).count() == 3


def test_filters_rule_out_partitions_and_offsets_when_spark_hands_them_on(
    local_session: LocalSession, log: Path
) -> None:
    switch = "spark.sql.python.filterPushdown.enabled"
    wanted = "partition = 0 and offset >= 290 and timestamp > '2023-11-14 22:13:20.291'"
    whole = read(local_session, log, minPartitions="8").where(wanted)
    assert sorted(row.offset for row in whole.collect()) == list(range(292, 300))
    whole_count = whole.rdd.getNumPartitions()
    local_session.spark.conf.set(switch, "true")
    try:
        pruned = read(local_session, log, minPartitions="8").where(wanted)
        assert sorted(row.offset for row in pruned.collect()) == list(range(292, 300))
        assert pruned.rdd.getNumPartitions() < whole_count
        nothing = read(local_session, log).where("offset > 1000")
        assert nothing.count() == 0
        assert read(local_session, log).count() == 320
    finally:
        local_session.spark.conf.unset(switch)


def test_several_topics_are_read_between_times(local_session: LocalSession, log: Path) -> None:
    append(log, {0: 30}, topic="returns")
    base_ms = 1_700_000_000_000
    reader = local_session.spark.read.format("ottla").options(
        assign='{"orders": [0], "returns": [0]}',
        startingTimestamp=str(base_ms + 10),
        endingTimestamp=str(base_ms + 20),
        maxRecordsPerPartition="4",
    )
    rows = reader.load(str(log)).select("topic", "offset")
    assert sorted(tuple(row) for row in rows.collect()) == [
        (topic, offset) for topic in ("orders", "returns") for offset in range(10, 20)
    ]
    assert rows.rdd.getNumPartitions() == 6
