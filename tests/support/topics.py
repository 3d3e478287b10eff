"""Topics to load, and what is in them and in tables, in terms that can be compared."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import ottla
from ottla.record.builder import RecordBatchBuilder
from ottla.spark.table import read_table
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.table import dataset

Row = tuple[Any, ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def append(path: Path, counts: dict[int, int], *, topic: str = "orders") -> None:
    """Adds records to partitions (0 and 1) of a topic, made when it is not there."""
    with ottla.open(path) as log:
        if topic not in log.topics():
            kept = {"segment.bytes": 8192, "retention.ms": -1}  # their times are long ago
            log.create_topic(topic, partitions=2, config=kept)
        for partition, count in counts.items():
            for first in range(0, count, 25):
                builder = RecordBatchBuilder()
                for number in range(first, min(first + 25, count)):
                    _append(builder, partition, number)
                log.append_batch(topic, partition, builder)


def _append(builder: RecordBatchBuilder, partition: int, number: int) -> None:
    """Every kind of record comes up: without key, value or time, with headers and without."""
    builder.append(
        None if number % 5 == 0 else b"key-%d-%d" % (partition, number),
        None if number % 7 == 0 else b"\x00value %d" % number,
        1_700_000_000_000 + number,
        (("trace", b"%d" % number), ("empty", None)) if number % 3 == 0 else (),
    )


def log_rows(path: Path, *, topic: str = "orders") -> list[Row]:
    """What a consumer reads committed from the files, in order."""
    directory = open_for_reading(str(path))
    return [
        (
            partition,
            record.offset,
            record.key,
            record.value,
            _EPOCH + timedelta(milliseconds=record.timestamp_ms)
            if record.timestamp_ms >= 0
            else None,
            -1 if record.timestamp_type is None else record.timestamp_type.value,
            record.headers,
        )
        for partition in directory.topics()[topic]
        for record in directory.partition(topic, partition).records.read(
            directory.partition(topic, partition).log_start_offset, read_committed=True
        )
    ]


def table_rows(spark: Any, path: Path | str) -> list[Row]:
    """What readers of a table see with Spark, in order."""
    return _rows(read_table(spark, str(path)).toArrow())


def dataset_rows(path: Path | str) -> list[Row]:
    """What they see without it."""
    return _rows(dataset(str(path)).to_table())


def _rows(found: Any) -> list[Row]:
    table = found.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return [
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            row["timestamp"],
            row["timestamp_type"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in table.to_pylist()
    ]
