"""`ottla records`: the records of a data directory, with no broker and without writing to it."""

import base64
import json
import sys
from datetime import UTC, datetime

import click

from ottla.record.record import Record
from ottla.storage.reader import open_for_reading

ESCAPES = {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
"""What would break a line or its columns; `--json` is the form without loss."""


@click.command("records")
@click.argument("directory", metavar="DIR")
@click.option("--topic", "-t", required=True, help="Whose records.")
@click.option("--partition", "-p", type=int, help="Only this partition; all by default.")
@click.option("--from", "from_offset", type=int, default=0, metavar="OFFSET", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; bytes in base64.")
def records_command(
    directory: str, topic: str, partition: int | None, from_offset: int, as_json: bool
) -> None:
    """Print the records of a topic from the files in DIR, up to the log's end.

    Works while a broker runs on DIR, and never writes to it. Control records are left out.
    """
    log_directory = open_for_reading(directory)
    partitions = [partition] if partition is not None else log_directory.topics().get(topic, [0])
    show = json_line if as_json else text_line
    write = sys.stdout.write
    for index in partitions:
        log = log_directory.partition(topic, index)
        start = max(from_offset, log.log_start_offset)
        for record in log.records(min(start, log.log_end_offset)):
            write(show(topic, index, record) + "\n")


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
