"""`ottla compact`: one pass over a compacted topic, on this machine or with Spark."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.late_line import LateLine
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import broker_config_option, given_settings, log_directories
from ottla.cli.target import check_directory
from ottla.cli.terminal import ExampleCommand, only_logged_from

if TYPE_CHECKING:
    from ottla.embedded.compacting import CompactedPartition
    from ottla.runtime.cleaning import Engine


@click.command("compact", cls=ExampleCommand, examples=("ottla compact data/ accounts",))
@click.argument("words", metavar="[DIR]... [TOPIC]", nargs=-1)
@click.option(
    "--data-dir",
    "-d",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help="Log directory that no broker serves; name all directories of the broker.",
)
@click.option("--topic", "-t", "named", metavar="TOPIC", help="Topic to compact.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where to compact; the resulting bytes are the same. Spark spreads the keys over a "
    "cluster.",
)
@broker_config_option
@click.option("-o", "settings", multiple=True, metavar="KEY=VALUE", help="Broker setting.")
@output_options()
def compact_command(
    words: tuple[str, ...],
    named: str | None,
    engine: str,
    config_file: str | None,
    output: Output,
    **given: tuple[str, ...],
) -> None:
    """Compact a topic now: keep the last record of each key.

    The command does not wait until compaction is due. The active segment and what
    min.compaction.lag.ms protects stay unchanged. A broker compacts automatically:
    `ottla explain compaction` says when.
    """
    from ottla.cli.opening import open_directories
    from ottla.config.broker import broker_config

    if named is None and not words:
        raise UserError("name a topic to compact: ottla compact DIR TOPIC")
    topic = named or words[-1]
    values = given_settings(config_file, given["settings"])
    named_paths = (*given["data_dirs"], *(words if named else words[:-1]))
    paths = named_paths or log_directories(broker_config(values))
    for path in paths:
        check_directory(path)
    # No other thread may compact meanwhile.
    log = open_directories(list(paths), {**values, "log.cleaner.enable": "false"})
    # A pass that fails also raises here, and is not retried, so the cleaner need not log it.
    once = only_logged_from(logging.CRITICAL, "ottla.broker.log_jobs.cleaner")
    line = LateLine(f"compacting {topic}", is_quiet=output.is_quiet)
    with log, once, _engine(engine) as chosen, line:
        for one in log.compact(topic, chosen):
            with line.aside():
                output.say(_text(topic, one), {"topic": topic, **asdict(one)})
            line.say(f"compacting {topic}, after partition {one.partition}")


@contextmanager
def _engine(name: str) -> "Iterator[Engine | None]":
    if name == "local":
        yield None
        return
    from ottla.spark.compact import SparkEngine
    from ottla.spark.session import SessionSettings, spark_session

    # We report an error of a task in one line.
    with spark_session(None, SessionSettings(log_level="OFF")) as spark:
        yield SparkEngine(spark)


def _text(topic: str, one: "CompactedPartition") -> str:
    place = f"{topic}-{one.partition}"
    if one.end_offset is None:
        return f"{place}: nothing to compact before the active segment"
    return (
        f"{place}: compacted up to offset {one.end_offset}, "
        f"{one.size_before:,} bytes before and {one.size_after:,} now"
    )
