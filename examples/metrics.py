"""Operational metrics: this machine's load, watched by a stream while it is written.

A thread asks psutil ten times a second and appends each figure to topic `metrics`, keyed by its
name. Meanwhile Spark reads the log's files and makes averages for each second, by the time at which
a figure was taken. The last one to come is from half a minute before all others: it follows the
watermark, and no longer counts.

    python -m examples.metrics
"""

import argparse
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import ottla
from ottla.base.clock import SystemClock
from ottla.spark.session import SessionSettings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

TOPIC = "metrics"
INTERVAL_S = 0.1
WINDOW = "1 second"
WATERMARK = "2 seconds"
LATE_MS = 30_000
SCHEMA = "name string, value double"


@dataclass(frozen=True)
class Second:
    """One figure over one second: `start` in UTC."""

    name: str
    start: str
    samples: int
    average: float
    largest: float


@dataclass(frozen=True)
class Watched:
    """What the stream said: the seconds that are over, and how many figures came too late."""

    seconds: list[Second]
    late_count: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data-dir", type=Path, default=Path("metrics-data"))
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch")
    arguments = parser.parse_args()
    console = Console()
    shutil.rmtree(arguments.data_dir, ignore_errors=True)
    with (
        console.status("starting Spark") as status,
        spark_session(None, SessionSettings(is_short=True)) as spark,
    ):
        status.update(f"watching this machine for {arguments.seconds:g} s")
        watched = watch(spark, arguments.data_dir, arguments.seconds)
    show(watched, console)


def watch(spark: "SparkSession", data_dir: Path, seconds: float) -> Watched:
    """Samples for so long, and follows the samples with a stream."""
    with ottla.open(data_dir / "log") as log:
        log.create_topic(TOPIC)
        query = (
            averages(read_stream(spark, data_dir / "log"))
            .writeStream.format("memory")
            .queryName("seconds")
            .outputMode("append")
            .option("checkpointLocation", str(data_dir / "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )
        try:
            began_ms = SystemClock().now_ms()
            with sampling(log) as stopped:
                stopped.wait(seconds)
            query.processAllAvailable()
            append(log, "cpu %", 100.0, began_ms - LATE_MS)
            late_count = rows_too_late(query, log.offsets(TOPIC)[0][1])
        finally:
            query.stop()
    return Watched(seconds=found(spark), late_count=late_count)


def rows_too_late(query: "StreamingQuery", row_count: int) -> int:
    """How many rows the stream has left out; waits until it has said so of all."""
    while True:
        progress = query.recentProgress
        if sum(one["numInputRows"] for one in progress) >= row_count:
            return sum(
                int(state["numRowsDroppedByWatermark"])
                for one in progress
                for state in one["stateOperators"]
            )
        query.awaitTermination(0.1)


@contextmanager
def sampling(log: ottla.Log) -> Iterator[threading.Event]:
    """Appends figures from a thread; yields an event that nobody sets before the end."""
    import psutil

    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(INTERVAL_S):
            now_ms = SystemClock().now_ms()
            append(log, "cpu %", psutil.cpu_percent(), now_ms)
            append(log, "memory %", psutil.virtual_memory().percent, now_ms)

    psutil.cpu_percent()  # The first answer is about no time at all.
    thread = threading.Thread(target=run, name="sampling")
    thread.start()
    try:
        yield stopped
    finally:
        stopped.set()
        thread.join()


def append(log: ottla.Log, name: str, value: float, time_ms: int) -> None:
    content = json.dumps({"name": name, "value": value}).encode()
    log.append(TOPIC, content, key=name.encode(), timestamp_ms=time_ms)


def read_stream(spark: "SparkSession", path: Path) -> "DataFrame":
    from ottla.spark.source import OttlaSource

    spark.dataSource.register(OttlaSource)
    return (
        spark.readStream.format("ottla")
        .option("path", str(path))
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )


def averages(records: "DataFrame") -> "DataFrame":
    """One row for each figure and second, once the watermark has passed it."""
    from pyspark.sql import functions as sql

    figure = sql.from_json(sql.col("value").cast("string"), SCHEMA)
    return (
        records.select(sql.col("timestamp").alias("time"), figure.alias("figure"))
        .select("time", "figure.name", "figure.value")
        .withWatermark("time", WATERMARK)
        .groupBy("name", sql.window("time", WINDOW).alias("second"))
        .agg(
            sql.count("*").alias("samples"),
            sql.avg("value").alias("average"),
            sql.max("value").alias("largest"),
        )
    )


def found(spark: "SparkSession") -> list[Second]:
    rows = spark.table("seconds").orderBy("second.start", "name").collect()
    return [
        Second(one.name, f"{one.second.start:%H:%M:%S}", one.samples, one.average, one.largest)
        for one in rows
    ]


def show(watched: Watched, console: Console) -> None:
    table = Table("second (UTC)", "figure", "samples", "average", "largest", title="This machine")
    for one in watched.seconds:
        table.add_row(
            one.start, one.name, str(one.samples), f"{one.average:.1f}", f"{one.largest:.1f}"
        )
    console.print(table)
    console.print(
        f"{len(watched.seconds)} figures of seconds that the watermark ({WATERMARK}) has passed; "
        f"{watched.late_count} came too late for theirs"
    )


if __name__ == "__main__":
    main()
