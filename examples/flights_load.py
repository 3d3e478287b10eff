"""The demo's second half: the topic into Parquet with Spark, and a table out of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from examples.flights_data import TOPIC
from ottla.spark.load import LoadReport, Progress, Step, load
from ottla.spark.session import SessionSettings, spark_session
from ottla.spark.table import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHT_SCHEMA = "carrier string, origin string, dep_delay int, distance int"


def load_flights(home: Path, console: Console) -> tuple[LoadReport, int, Table]:
    """Loads what the table lacks; returns the report, the rows in the table, and the delays."""
    settings = SessionSettings(is_short=True)
    with console.status("starting Spark") as status, spark_session(settings=settings) as spark:

        def told(progress: Progress) -> None:
            tasks = f" ({progress.tasks_done} of {progress.task_count} tasks)"
            status.update(progress.step.value + (tasks if progress.step is Step.WRITING else ""))

        log, into = str(home / "log"), str(home / "table")
        report = load(log, TOPIC, into, spark=spark, progress=told)
        status.update("counting delays with Spark")
        return report, read_table(spark, into).count(), delays_per_carrier(spark, into)


def delays_per_carrier(spark: "SparkSession", into: str) -> Table:
    """What Spark computes from the loaded files: flights and delays of each carrier."""
    from pyspark.sql import functions as f

    value = f.from_json(f.col("value").cast("string"), FLIGHT_SCHEMA)
    rows = (
        read_table(spark, into)
        .select(value.alias("flight"))
        .groupBy("flight.carrier")
        .agg(
            f.count("*").alias("flights"),
            f.round(f.avg("flight.dep_delay"), 1).alias("average"),
            f.sum(f.when(f.col("flight.dep_delay") > 60, 1).otherwise(0)).alias("over_an_hour"),
        )
        .orderBy(f.desc("flights"))
        .collect()
    )
    table = Table(
        "carrier", "flights", "average delay, min", "over an hour", title="Computed by Spark"
    )
    for row in rows:
        table.add_row(
            row["carrier"], f"{row['flights']:,}", str(row["average"]), f"{row['over_an_hour']:,}"
        )
    return table


def partition_table(report: LoadReport) -> Table:
    """The offsets that this load took, per partition."""
    table = Table("partition", "from", "until", "rows", title="Offsets loaded")
    for one in report.partitions:
        table.add_row(
            str(one.partition),
            f"{one.from_offset:,}",
            f"{one.until_offset:,}",
            f"{one.row_count:,}",
        )
    return table
