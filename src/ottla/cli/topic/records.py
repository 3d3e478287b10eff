"""`ottla records`: the records of a data directory, with no broker and without writing to it."""

import base64
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from ottla.base.errors import ApiError
from ottla.cli.terminal import report_skipped
from ottla.record.record import Record
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory, open_for_reading

ESCAPES = {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
"""What would break a line or its columns; `--json` is the form without loss."""


@click.command("records")
@click.argument("directory", metavar="DIR")
@click.option("--topic", "-t", required=True, help="Topic to read.")
@click.option("--partition", "-p", type=int, help="Partition to read; all by default.")
@click.option("--from", "from_offset", type=int, default=0, metavar="OFFSET", show_default=True)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, bytes in base64."
)
@click.option(
    "--skip-damaged", is_flag=True, help="Continue after damage; skipped offsets go to stderr."
)
def records_command(
    directory: str,
    topic: str,
    partition: int | None,
    from_offset: int,
    as_json: bool,
    skip_damaged: bool,
) -> None:
    """Print the records of a topic from the files in DIR, up to the log's end.

    Works while a broker runs on DIR, and never writes to it. Control records are left out. Exits
    with 1 where the log is damaged.
    """
    log_directory = open_for_reading(directory, on_damage=report_skipped if skip_damaged else None)
    if partition is not None:
        partitions = [partition]
    else:
        here = log_directory.topics().get(topic, [])
        partitions = [*here, *log_directory.lost_partitions(topic)] or [0]
    show = json_line if as_json else text_line
    for index in partitions:
        for record in read_on(log_directory, topic, index, from_offset):
            sys.stdout.write(show(topic, index, record) + "\n")


def read_on(
    directory: ReadOnlyLogDirectory, topic: str, partition: int, from_offset: int
) -> Iterator[Record]:
    """Up to the log's end; over what retention takes while it is read, which is said."""
    log = directory.partition(topic, partition)
    offset = max(from_offset, log.log_start_offset)
    until = log.log_end_offset
    while offset < until:
        try:
            for record in log.records(offset, until):
                yield record
                offset = record.offset + 1
            return
        except ApiError:
            log = directory.partition(topic, partition)
            if log.log_start_offset <= offset:
                raise
            click.echo(
                f"{topic}-{partition}: offsets {offset} to {log.log_start_offset - 1} were removed "
                f"while they were read",
                err=True,
            )
            offset = log.log_start_offset
            until = max(until, log.log_end_offset)


def json_line(topic: str, partition: int, record: Record) -> str:
    """The object that `--json` prints; timestamps are null in message format v0."""
    has_time = record.timestamp_type is not None
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms if has_time else None,
            "timestamp_type": record.timestamp_type.kafka_name if record.timestamp_type else None,
            "key": _base64(record.key),
            "value": _base64(record.value),
            "headers": [[name, _base64(value)] for name, value in record.headers],
        }
    )


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def text_line(topic: str, partition: int, record: Record) -> str:
    """A line for people: place, time, key and value, with bytes that are no text escaped."""
    when = "-"
    if record.timestamp_type is not None:
        seconds = record.timestamp_ms / 1000
        when = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    parts = [f"{topic}-{partition}", str(record.offset), when, _text(record.key)]
    parts.append(_text(record.value))
    parts.extend(f"{name}={_text(value)}" for name, value in record.headers)
    return "\t".join(parts)


def _text(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode("utf-8", "backslashreplace")
    return text.translate(ESCAPES)
