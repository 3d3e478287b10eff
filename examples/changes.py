"""A change log: what a table of customers looks like now, out of every change that was made to it.

Each change is a record of the compacted topic `customers`, keyed by the customer; one without a
value says that the customer is gone. Spark makes the latest state of it; then the log is compacted,
and the state is the same out of a fraction of the records.

    python -m examples.changes
"""

import argparse
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import ottla
from ottla.spark.session import SessionSettings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "customers"
CUSTOMERS = 200
CHANGES = 5_000
SHOWN = 8
TOWNS = ("Brno", "Graz", "Ljubljana", "Trieste", "Zagreb")
SCHEMA = "name string, town string, orders int"

State = dict[int, dict[str, str | int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data-dir", type=Path, default=Path("changes-data"))
    data_dir: Path = parser.parse_args().data_dir
    console = Console()
    shutil.rmtree(data_dir, ignore_errors=True)
    write(data_dir, list(changes()))
    with spark_session(None, SessionSettings(is_short=True)) as spark:
        before, count = latest(spark, data_dir)
        compact(data_dir)
        after, count_after = latest(spark, data_dir)
    show(before, console)
    console.print(
        f"{len(before)} customers out of {count:,} records, and after compaction "
        f"{len(after)} out of {count_after:,}: {'the same' if before == after else 'NOT THE SAME'}"
    )


def changes(seed: int = 1) -> Iterator[tuple[int, dict[str, str | int] | None]]:
    """Customers who come, move, order and go: the same ones every time."""
    chance = random.Random(seed)
    now: State = {}
    for _ in range(CHANGES):
        customer = chance.randrange(CUSTOMERS)
        row = now.get(customer)
        if row is None:
            row = {"name": f"customer {customer}", "town": chance.choice(TOWNS), "orders": 0}
        elif chance.random() < 0.03:
            del now[customer]
            yield customer, None
            continue
        elif chance.random() < 0.1:
            row = {**row, "town": chance.choice(TOWNS)}
        else:
            row = {**row, "orders": int(row["orders"]) + 1}
        now[customer] = row
        yield customer, row


def write(data_dir: Path, found: list[tuple[int, dict[str, str | int] | None]]) -> None:
    with ottla.open(data_dir) as log:
        # Small segments, so that there is something to compact: the last one never is.
        config = {"cleanup.policy": "compact", "segment.bytes": 20_000}
        log.create_topic(TOPIC, partitions=2, config=config)
        for customer, row in found:
            value = None if row is None else json.dumps(row).encode()
            log.append(TOPIC, value, key=str(customer).encode())


def compact(data_dir: Path) -> None:
    with ottla.open(data_dir) as log:
        log.compact(TOPIC)


def latest(spark: "SparkSession", data_dir: Path) -> tuple[State, int]:
    """The last row of each customer who is not gone, and how many records there are."""
    from pyspark.sql import functions as sql

    from ottla.spark.source import OttlaSource

    spark.dataSource.register(OttlaSource)
    records = (
        spark.read.format("ottla").option("path", str(data_dir)).option("subscribe", TOPIC).load()
    )
    # All changes of a key are in one partition, so its offsets tell their order.
    rows = (
        records.groupBy("key")
        .agg(sql.max_by("value", "offset").alias("value"))
        .where("value is not null")
        .select(
            sql.col("key").cast("string").cast("int").alias("customer"),
            sql.from_json(sql.col("value").cast("string"), SCHEMA).alias("row"),
        )
    )
    return {one.customer: one.row.asDict() for one in rows.collect()}, records.count()


def show(state: State, console: Console) -> None:
    best = sorted(state.values(), key=lambda one: -int(one["orders"]))[:SHOWN]
    table = Table("name", "town", "orders", title="Customers with the most orders")
    for row in best:
        table.add_row(str(row["name"]), str(row["town"]), str(row["orders"]))
    console.print(table)


if __name__ == "__main__":
    main()
