"""Decoded columns in the shape that Spark asks of a data source."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.record.builder import RecordBatchBuilder
from ottla.record.columns import decode_columns
from ottla.record.rows import RowMaker, decoded_columns
from ottla.spark.split_reader import arrow_schema

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

HEADER = types.StructType(
    [
        types.StructField("key", types.StringType()),
        types.StructField("value", types.BinaryType()),
    ]
)
SPARK_TYPES = {
    "key": types.BinaryType(),
    "topic": types.StringType(),
    "partition": types.IntegerType(),
    "offset": types.LongType(),
    "timestamp": types.TimestampType(),
    "timestampType": types.IntegerType(),
    "headers": types.ArrayType(HEADER),
}


def rows_of(names: Sequence[str], *timestamps_ms: int) -> Any:
    builder = RecordBatchBuilder(5)
    for index, timestamp_ms in enumerate(timestamps_ms):
        headers = (("a", b"x"), ("b", None))[: index % 3]
        builder.append(None if index % 2 else b"k%d" % index, b"v", timestamp_ms, headers)
    schema = arrow_schema(
        types.StructType([types.StructField(name, SPARK_TYPES[name]) for name in names])
    )
    columns = decoded_columns(schema.names)
    made = RowMaker("orders", 3, schema).rows(decode_columns(builder.build(), columns))
    assert made.schema.equals(schema)
    made.validate(full=True)
    return made


def test_every_column_is_made() -> None:
    last = rows_of(list(SPARK_TYPES), 1_000, 2_000, 3_000).to_pylist()[-1]
    assert last == {
        "key": b"k2",
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"x"}, {"key": "b", "value": None}],
    }


def test_a_record_without_headers_has_an_empty_list() -> None:
    assert rows_of(["headers"], 0).to_pylist() == [{"headers": []}]


def test_columns_come_in_the_schemas_order() -> None:
    assert rows_of(["timestampType", "offset"], 0).schema.names == [
        "timestampType",
        "offset",
    ]


def test_the_partition_alone_still_has_a_row_per_record() -> None:
    assert rows_of(["partition"], 1, 2).to_pylist() == [{"partition": 3}] * 2


@pytest.mark.parametrize("timestamp_ms", [-1, 2**62, -(2**62)])
def test_a_time_that_spark_cannot_say_is_null(timestamp_ms: int) -> None:
    made = rows_of(["timestamp"], 1_000, timestamp_ms)
    assert made.column(0).is_null().to_pylist() == [False, True]
