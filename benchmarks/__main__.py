"""`python -m benchmarks [NAMES]`: measures, and prints a table for each subject."""

import importlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.machine import description, load
from benchmarks.measuring import Scale
from benchmarks.report import Report

SUBJECTS = {
    "start-up": "import, readiness and memory of `ottla serve`",
    "append": "appends to a log, beside bare writes of the same bytes",
    "records": "the loops over a batch's records: the check before they are stored, and columns",
    "read": "finding an offset in a large segment",
    "recovery": "repairing an unclean segment, opening many partitions",
    "retention": "deleting many segments, and an idle broker of many partitions",
    "partitions": "a broker of 10,000 partitions: start, descriptors, memory, requests, stop",
    "compaction": "compacting a log, and what clients notice of it",
    "mirror": "mirroring a log, beside a plain copy of its files",
    "sending": "a fetch's answer, copied or by sendfile",
    "dispatch": "requests without a socket, and embedded appends, in processor time",
    "requests": "one-record produce requests, at depth 1 and pipelined",
    "throughput": "librdkafka producing and consuming, beside other brokers",
    "console": "the console's lists of 1,000 and 10,000 topics, and a search beside other clients",
    "console-tail": "the console's tail of 1,000 records/s in a browser",
    "connections": "a thousand idle connections: memory, processor time, and others' requests",
    "tiers": "reading a log whose head is in a tier, and a broker of 10,000 tiered segments",
    "tier-copies": "produce requests while segments are copied to a tier",
    "tls": "TLS beside plain: throughput, handshakes, memory, and handshakes that are half done",
    "authorization": "what access rules cost requests, in processor time",
    "fairness": "a small client beside the largest request of each API, and beside floods",
    "stretches": "the longest that the loop is at one thing, for the largest requests of each API",
    "growth": "the longest that the loop is at one thing, where a kind of state has grown a lot",
    "producers": "producers of several clients, as applications use them, and an open log",
    "consumers": "consumers of several clients, as applications use them",
    "in-and-out": "records into an open log and out again: memory over ten million, and threads",
    "shares": "records of share groups, delivered and accepted one by one, and their locks",
    "groups": "consumers that join groups, and then only send heartbeats",
    "transactions": "committing transactions, beside other brokers",
    "idempotence": "what idempotence costs the broker, and what it costs clients",
    "quorum": "three brokers that are a quorum, beside three over ZooKeeper",
    "cluster": "three brokers: replication, a broker's return, failover, a controller's start",
    "spark": "Spark reading a topic from files and over the wire, and planning",
    "load": "`ottla load` into Parquet, beside Spark's own generator, and its memory",
    "queries": "many small segments beside one, and SQL beside DuckDB over Parquet",
    "merges": "changes merged into a table of the latest rows, beside plain loads and MERGE",
    "decoding": "values as columns, in each format that a load decodes",
    "small-loads": "ten thousand small loads into one table: is the last as quick as the second",
    "tables": "the shortest load without Spark, commits, and tables of many commits and files",
    "sink": "Spark's rows into a topic, beside librdkafka in its tasks",
    "latency": "from a produce to its answer, and to a waiting consumer",
}
"""Name -> what it measures; the file is named likewise."""


def reports_of(subject: str, scale: Scale) -> Iterator[Report]:
    """The tables of a subject, each as soon as it is measured."""
    module = importlib.import_module(f"benchmarks.{subject.replace('-', '_')}")
    reports: Iterator[Report] = module.run(scale)
    return reports


def scale_of(
    *, rounds: int, directory: Path, peers: bool, calm: float, only: str, tiny: bool
) -> Scale:
    return Scale(
        directory=directory,
        rounds=1 if tiny else rounds,
        is_tiny=tiny,
        peers=peers,
        calm_s=calm,
        only=only,
    )


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Subjects: " + "; ".join(f"{name} ({text})" for name, text in SUBJECTS.items()),
)
@click.argument("names", nargs=-1, type=click.Choice(list(SUBJECTS)), metavar="[NAMES]...")
@click.option("--rounds", default=5, show_default=True, help="How often each thing is measured.")
@click.option("--directory", default=tempfile.gettempdir(), type=click.Path(path_type=Path))
@click.option("--peers/--no-peers", default=True, help="Measure the other brokers as well.")
@click.option(
    "--calm",
    default=0.0,
    metavar="SECONDS",
    help="Before each measurement, wait so long at most for others to leave the machine alone.",
)
@click.option("--only", default="", metavar="TEXT", help="Only rows with TEXT in their name.")
@click.option("--tiny", is_flag=True, help="Try the code, with sizes that measure nothing.")
@click.option("--markdown", is_flag=True, help="Print tables for a document.")
def main(
    names: tuple[str, ...],
    markdown: bool,
    **options: Any,
) -> None:
    """Measure NAMES, or everything: medians, with the least and the most beside them."""
    console = Console(width=140, soft_wrap=True, highlight=False)
    console.print(description())
    scale = scale_of(**options)
    has_failed = False
    for name in names or SUBJECTS:
        console.print(f"\n{name}: {SUBJECTS[name]}. Load before: {load()}.")
        for report in reports_of(name, scale):
            console.print()
            console.print(report.table(is_markdown=markdown))
            for note in report.notes:
                console.print(note, markup=False)
            for failure in report.failures:
                has_failed = True
                console.print(f"FAILED: {failure}", markup=False)
    if has_failed:
        sys.exit(1)


if __name__ == "__main__":
    # Ends by way of the `finally`s that stop the brokers; a signal's default would leave them.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(prog_name="python -m benchmarks")
