"""`ottla produce`: writes lines, JSON, CSV, Parquet and files as records to a topic."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ottla.base.errors import RefusalError, UnknownNameError, UserError
from ottla.cli.output import quiet_option
from ottla.cli.records import inputs
from ottla.cli.records.inputs import PAUSE, InputOptions, Pause, Reader, Records
from ottla.cli.records.new_record import Headers, NewRecord
from ottla.cli.records.progress import Flow
from ottla.cli.records.reading import encoding_option, given_encoding, schema_options
from ottla.cli.records.templates import unescaped
from ottla.cli.settings_files import parse_setting, with_secrets
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import with_options
from ottla.search.positions import parse_time

if TYPE_CHECKING:
    from ottla.client.connecting.target import Target as ClientTarget

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all", "-1")

_READERS: dict[str, Reader] = {
    "lines": inputs.line_records,
    "json": inputs.json_records,
    "json-value": inputs.json_value_records,
    "csv": inputs.csv_records,
    "parquet": inputs.parquet_records,
}


def _kind(flag: str, words: str) -> Any:
    return click.option(f"--{flag}", "kind", flag_value=flag, help=words)


sending_options = with_options(
    click.option(
        "--acks",
        type=click.Choice(ACKS),
        default="all",
        show_default=True,
        help="Replicas that must acknowledge a record: with all, no record is lost or duplicated; "
        "with 0 there is no acknowledgement.",
    ),
    click.option(
        "--compression", "-z", type=click.Choice(COMPRESSIONS), default="none", help="Codec."
    ),
    click.option(
        "--transaction", is_flag=True, help="Write all records, or none, in one transaction."
    ),
    click.option("--transactional-id", metavar="ID", help="The transaction's id; implies it."),
    click.option("--create", is_flag=True, help="Create the topic if it does not exist."),
    click.option(
        "-o",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Producer setting by Kafka's name, such as transaction.timeout.ms=600000; repeatable.",
    ),
)


@click.command(
    "produce",
    cls=TargetCommand,
    examples=(
        "echo 'alice:{\"total\": 5}' | ottla produce localhost:9092 orders -K :",
        "ottla produce data/ orders --csv --key-column id orders.csv",
        "ottla consume prod:9092 orders --json | ottla produce data/ orders --json",
    ),
)
@target_argument()
@click.argument("topic", metavar="TOPIC")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@with_options(
    _kind("json", "Read JSON lines as printed by `consume --json`: key, value, headers, ..."),
    _kind("json-value", "Read JSON lines, each of which is a value."),
    _kind("csv", "Read CSV with a line of headings; each row is a JSON value."),
    _kind("parquet", "Read Parquet files; each row is a JSON value."),
    _kind("files", "Read each FILE as one record."),
    click.option("--key-separator", "-K", metavar="TEXT", help="Text between key and value."),
    click.option(
        "--separator", "-D", metavar="TEXT", help="Text between records, instead of newlines."
    ),
    click.option("--key", "-k", metavar="TEXT", help="Key of records without one."),
    click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="Header."),
    click.option("--partition", "-p", type=click.IntRange(0), help="Partition to write to."),
    click.option("--timestamp", metavar="TIME", help="Time of all records, such as 2026-01-31."),
    click.option("--key-column", metavar="NAME", help="Column, or path in JSON, of the key."),
    click.option("--value-column", metavar="NAME", help="Column of the value."),
    click.option("--timestamp-column", metavar="NAME", help="Column of the time."),
    click.option("--null", "-Z", is_flag=True, help="Write empty values as null (tombstones)."),
    click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records a second."),
    click.option(
        "--repeat", type=click.IntRange(1), default=1, help="Times to send the whole input."
    ),
    encoding_option("--value", "value_as", "Encoding of values in the input."),
    encoding_option("--key-encoding", "key_as", "Encoding of keys in the input."),
    *schema_options,
)
@sending_options
@click.option(
    "--json-report", "as_json", is_flag=True, help="Print one JSON object of what was produced."
)
@quiet_option()
def produce_command(target: Target, topic: str, files: tuple[str, ...], **given: Any) -> None:
    """Write records to TOPIC: each line of the FILEs, or of standard input, is a value.

    A key chooses the partition, as for every Kafka client. Lines that arrive slowly are sent at
    once. If an input is invalid, the records before it have been sent, unless all are one
    transaction.
    """
    options = _input_options(given)
    flow = Flow("produced", is_quiet=given["is_quiet"], as_json=given["as_json"])
    found = _repeated(given["kind"] or "lines", files, options, given["repeat"])
    send_all(target, topic, _paced(found, given["rate"]), flow, given)


def send_all(
    target: Target, topic: str, records: Records, flow: Flow, given: dict[str, Any]
) -> None:
    """Sends records, shows their number, and prints a summary; raises `UserError`."""
    from ottla.cli.records.sending import RecordSender, Written, record_sender

    if given["create"]:
        from ottla.client.administration.topics import check_new_topic

        check_new_topic(topic)
    settings = _producer_settings(given)
    written: dict[int, Written] | None = {} if flow.as_json else None
    sender: RecordSender | None = None
    with target.for_clients(may_create=given["create"]) as place:
        if given["create"]:
            _create_topic(place, target, topic)
        try:
            with record_sender(place, topic, {**target.settings, **settings}, written) as sender:
                for one in records:
                    if isinstance(one, Pause):
                        sender.flush()
                        flow.show()
                        continue
                    sender.send(one)
                    flow.add(one.size)
        except UnknownNameError as error:
            if error.nearest:
                raise
            raise RefusalError(f"{error}; --create creates it") from error
        except UserError:
            is_kept = "transactional.id" not in settings
            if is_kept:
                flow.count, flow.size = (sender.kept, sender.kept_size) if sender else (0, 0)
            if flow.count:
                flow.stop(f" to {topic} and then stopped" if is_kept else ", and took them back")
            raise
        except BaseException:
            flow.clear()
            raise
    by_partition = [asdict(one) for _, one in sorted((written or {}).items())]
    flow.finish(f" to {topic}", {"topic": topic, "by_partition": by_partition})


def _producer_settings(given: dict[str, Any]) -> dict[str, str]:
    settings = {"acks": given["acks"], "compression.type": given["compression"]}
    name = given["transactional_id"]
    if given["transaction"] or name:
        settings["transactional.id"] = name or f"ottla-produce-{time.time_ns():x}"
        if given["acks"] in ("0", "1"):
            raise UserError("a transaction needs --acks all")
    own = dict(parse_setting(one, "linger.ms=50") for one in given["settings"])
    settings.update(with_secrets(own))
    return settings


def _create_topic(place: "ClientTarget", target: Target, topic: str) -> None:
    from ottla.client.administration.admin import Admin
    from ottla.client.connecting.target import open_target

    with open_target(place, target.client_settings()) as cluster:
        if topic not in cluster.topic_names():
            Admin(cluster).create_topic(topic)


def _input_options(given: dict[str, Any]) -> InputOptions:
    now_ms = time.time_ns() // 1_000_000
    time_text = given["timestamp"]
    return InputOptions(
        key_encoding=given_encoding("key", given),
        value_encoding=given_encoding("value", given),
        key=None if given["key"] is None else _bytes(given["key"]),
        headers=_headers(given["headers"]),
        partition=given["partition"],
        timestamp_ms=None if time_text is None else parse_time(time_text, now_ms),
        separator=unescaped(_bytes(given["separator"] or "\\n")),
        key_separator=(
            None if given["key_separator"] is None else unescaped(_bytes(given["key_separator"]))
        ),
        empty_is_null=given["null"],
        key_column=given["key_column"],
        value_column=given["value_column"],
        timestamp_column=given["timestamp_column"],
        now_ms=now_ms,
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _headers(given: Sequence[str]) -> Headers:
    """Parses `NAME=VALUE`; a name alone has a null value."""
    pairs = [one.partition("=") for one in given]
    return tuple((name, _bytes(value) if equals else None) for name, equals, value in pairs)


def _repeated(kind: str, files: Sequence[str], options: InputOptions, times: int) -> Records:
    if times > 1 and (not files or "-" in files):
        raise UserError(
            "--repeat reads its input again; name FILEs, since standard input can be read only once"
        )
    for _ in range(times):
        yield from _records(kind, files, options)


def _records(kind: str, files: Sequence[str], options: InputOptions) -> Records:
    if kind == "files":
        if not files:
            raise UserError("--files sends each FILE as a record; name one or more")
        yield from inputs.file_records(files, options)
        return
    for path in files or ("-",):
        with _opened(path) as (name, stream):
            yield from _READERS[kind](name, stream, options)


@contextmanager
def _opened(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """Opens a file, or standard input for `-`, and returns it with a name for messages."""
    if path == "-" and sys.stdin is None:
        raise UserError("standard input is closed; name files to send")
    if path == "-":
        yield "standard input", sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb"))
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; name files to send") from error
        yield path, file


def _paced(records: Records, rate: float | None) -> Records:
    """Yields at most this many records per second, each when it is due."""
    if rate is None:
        yield from records
        return
    due = time.monotonic()
    for one in records:
        yield one
        if isinstance(one, NewRecord):
            due += 1 / rate
            left = due - time.monotonic()
            if left > 0:
                yield PAUSE
                time.sleep(left)
