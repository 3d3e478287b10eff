"""An activity stream: how long people stayed on a web site, and what they looked at most.

Every request is a record of topic `activity`, keyed by the visitor's address, with the time at
which it was made. Spark reads the log's files, no broker runs.

    python -m examples.activity [ACCESS_LOG]

Without a file the requests are made up. What is in the log already is not written again.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import ottla
from examples.activity_data import Request, requests
from ottla.spark.session import SessionSettings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "activity"
PARTITIONS = 4
IDLE = "30 minutes"
"""After such a pause a visitor's next request begins another session."""

SHOWN = 8
LINE = r'^(\S+) \S+ \S+ \[[^\]]+\] "\S+ (\S+)[^"]*" (\d{3}) '


@dataclass(frozen=True)
class Found:
    """What the records came to."""

    sessions: list[tuple[str, str, int, int]]
    """The busiest: visitor, first request, requests, seconds."""
    session_count: int
    pages: list[tuple[str, int, int]]
    """The most requested: page, requests, visitors."""
    request_count: int
    unreadable_count: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("access_log", type=Path, nargs="?", help="gzipped or not")
    parser.add_argument("--data-dir", type=Path, default=Path("activity-data"))
    arguments = parser.parse_args()
    console = Console()
    count = write(arguments.data_dir, list(requests(arguments.access_log)))
    console.print(f"{count:,} requests written to {arguments.data_dir}", soft_wrap=True)
    with spark_session(None, SessionSettings(is_short=True)) as spark:
        show(find(spark, arguments.data_dir), console)


def write(data_dir: Path, found: list[Request]) -> int:
    """Puts the requests into the log that are not there yet; returns how many that were."""
    with ottla.open(data_dir) as log:
        if TOPIC not in log.topics():
            # Old requests are not to go as soon as they are written.
            log.create_topic(TOPIC, partitions=PARTITIONS, config={"retention.ms": -1})
        present = sum(end for _, end in log.offsets(TOPIC).values())
        for one in found[present:]:
            log.append(TOPIC, one.line.encode(), key=one.visitor.encode(), timestamp_ms=one.time_ms)
        log.flush()
    return len(found) - present


def find(spark: "SparkSession", data_dir: Path) -> Found:
    from pyspark.sql import functions as sql

    rows = read(spark, data_dir).cache()
    hits = rows.where("status between 200 and 299")
    sessions = (
        rows.where("page is not null")
        .groupBy("visitor", sql.session_window("time", IDLE))
        .agg(
            sql.count("*").alias("requests"),
            sql.min("time").alias("start"),
            (sql.max("time").cast("long") - sql.min("time").cast("long")).alias("seconds"),
        )
    )
    busiest = sessions.orderBy(sql.desc("requests"), "visitor", "start").limit(SHOWN)
    pages = (
        hits.groupBy("page")
        .agg(sql.count("*").alias("requests"), sql.countDistinct("visitor").alias("visitors"))
        .orderBy(sql.desc("requests"), "page")
        .limit(SHOWN)
    )
    return Found(
        sessions=[
            (one.visitor, f"{one.start:%Y-%m-%d %H:%M}", one.requests, one.seconds)
            for one in busiest.collect()
        ],
        session_count=sessions.count(),
        pages=[(one.page, one.requests, one.visitors) for one in pages.collect()],
        request_count=rows.count(),
        unreadable_count=rows.where("page is null").count(),
    )


def read(spark: "SparkSession", data_dir: Path) -> "DataFrame":
    """The requests as columns; page and status are null where a line is not what it should be."""
    from ottla.spark.source import OttlaSource

    spark.dataSource.register(OttlaSource)
    records = (
        spark.read.format("ottla")
        .option("path", str(data_dir))
        .option("subscribe", TOPIC)
        .option("columns", "key,value,timestamp")
        .load()
    )
    return records.selectExpr(
        "cast(key as string) as visitor",
        "timestamp as time",
        f"nullif(regexp_extract(cast(value as string), r'{LINE}', 2), '') as page",
        f"cast(nullif(regexp_extract(cast(value as string), r'{LINE}', 3), '') as int) as status",
    )


def show(found: Found, console: Console) -> None:
    sessions = Table("visitor", "from (UTC)", "requests", "minutes", title="Busiest sessions")
    for visitor, start, count, seconds in found.sessions:
        sessions.add_row(visitor, start, f"{count:,}", f"{seconds / 60:.1f}")
    pages = Table("page", "requests", "visitors", title="Most requested pages")
    for page, count, visitors in found.pages:
        pages.add_row(page, f"{count:,}", f"{visitors:,}")
    console.print(sessions, pages)
    console.print(
        f"{found.request_count:,} requests in {found.session_count:,} sessions; "
        f"{found.unreadable_count:,} lines could not be read"
    )


if __name__ == "__main__":
    main()
