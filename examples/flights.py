"""The main job, end to end: a broker, 336,776 flights through it, a Spark load, a table.

Run it with `make run`. What is there already is not done again: a second run finds every flight in
the log and in the table, and says so.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.flights_data import PARTITIONS, TOPIC, count_flights, flights
from examples.flights_load import load_flights, partition_table

SHOWN_FLIGHTS = 5
SERVER_DEADLINE_S = 30

console = Console()


@dataclass
class Stages:
    """What each stage did, for the closing table."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, name: str, count: int, seconds: float, note: str = "") -> None:
        rate = f"{count / seconds:,.0f} rows/s" if count > SHOWN_FLIGHTS else "-"
        self.rows.append((name, f"{count:,}", f"{seconds:.1f} s", rate, note))

    def table(self) -> Table:
        table = Table("stage", "rows", "time", "throughput", "note", title="What was done")
        for row in self.rows:
            table.add_row(*row)
        return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("demo-data"))
    home: Path = parser.parse_args().data_dir
    stages = Stages()
    flight_count = count_flights()
    with serving(home / "log") as address:
        console.print(f"[bold]broker[/bold] on {address}, data in {home / 'log'}")
        make_topic(address)
        produce(address, stages, flight_count)
        ends = log_end_offsets(address)
        show_some(address, stages)
    report, rows, delays = load_flights(home, console)
    if report.nothing_new:
        stages.add("load", 0, 0.0, "every flight is in the table already")
    else:
        console.print(partition_table(report))
        note = f"{len(report.files)} files, {report.size / 1e6:.1f} MB of Parquet"
        stages.add("load", report.row_count, report.write_seconds, note)
    console.print(delays)
    console.print(stages.table())
    counts = {"flights in": flight_count, "log end offsets": sum(ends), "rows in Parquet": rows}
    agree = len(set(counts.values())) == 1
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    console.print(
        f"[bold]{'counts agree' if agree else 'COUNTS DIFFER'}[/bold]: {told}", soft_wrap=True
    )
    console.print(f"log: {home / 'log'}   table: {home / 'table'}", soft_wrap=True)
    look = f".venv/bin/ottla records {home / 'log'} --topic {TOPIC} | head"
    console.print(f"look inside: {look}", soft_wrap=True)
    if not agree:
        sys.exit(1)


@contextmanager
def serving(data_dir: Path) -> Iterator[str]:
    """Runs `ottla serve` in a process of its own, as a user would; yields its address."""
    command = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(data_dir)]
    server = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        ready = server.stdout.readline().split()
        if not ready:
            sys.exit(server.wait(SERVER_DEADLINE_S))
        yield ready[1]
    finally:
        server.terminate()
        server.wait(SERVER_DEADLINE_S)


def make_topic(address: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    # The flights are of 2013: retention by time must not count them as old.
    topic = NewTopic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": address})
    try:
        admin.create_topics([topic])[TOPIC].result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise


def log_end_offsets(address: str) -> list[int]:
    """The next offset of each partition, as the broker reports it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "flights-offsets"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=10)[1]
            for partition in range(PARTITIONS)
        ]
    finally:
        consumer.close()


def produce(address: str, stages: Stages, flight_count: int) -> None:
    """Sends the flights that the log does not hold yet, in the order of each partition."""
    from confluent_kafka import Producer

    present = log_end_offsets(address)
    if sum(present) == flight_count:
        stages.add("produce", 0, 0.0, "every flight is in the log already")
        return
    failures: list[str] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
        }
    )
    started = time.monotonic()
    seen = [0] * PARTITIONS
    sent = 0
    with progress("producing flights", flight_count - sum(present)) as advance:
        for flight in flights():
            seen[flight.partition] += 1
            if seen[flight.partition] <= present[flight.partition]:
                continue
            while True:
                try:
                    producer.produce(
                        TOPIC,
                        flight.value,
                        flight.key,
                        partition=flight.partition,
                        timestamp=flight.timestamp_ms,
                        on_delivery=on_delivery,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += 1
            if sent % 1000 == 0:
                producer.poll(0)
                advance(1000)
        left = producer.flush(60)
    if failures or left:
        sys.exit(f"{left} flights were not delivered in time; {failures[:1]}")
    note = f"{sum(present):,} were there already" if sum(present) else "confluent-kafka, zstd"
    stages.add("produce", sent, time.monotonic() - started, note)


def show_some(address: str, stages: Stages) -> None:
    """Reads the first flights of partition 0 back with the client's consumer."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "flights-look", "enable.auto.commit": False}
    )
    started = time.monotonic()
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages = consumer.consume(SHOWN_FLIGHTS, timeout=10)
    consumer.close()
    table = Table("offset", "key", "value", title="Read back by confluent-kafka")
    for message in messages:
        value = (message.value() or b"").decode()
        table.add_row(str(message.offset()), (message.key() or b"-").decode(), value[:90] + "...")
    console.print(table)
    stages.add("read back", len(messages), time.monotonic() - started, "partition 0, offset 0")


@contextmanager
def progress(title: str, total: int) -> Iterator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


if __name__ == "__main__":
    main()
