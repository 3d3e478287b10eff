"""`ottla sql`: queries topics with DuckDB. A topic is a table, read when the query names it."""

import json
import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.extras import needed_for
from ottla.cli.arrow_rows import python_rows
from ottla.cli.late_line import LateLine
from ottla.cli.output import quiet_option
from ottla.cli.records.arrow_export import open_range, open_source, topics_of
from ottla.cli.records.file_formats import quoted, whole_file
from ottla.cli.target import Target, TargetCommand, looks_like_target, target_argument
from ottla.cli.terminal import counted, new_console, new_table
from ottla.cli.tiers import tier_options
from ottla.search.encodings import json_bytes
from ottla.search.positions import FROM_START, Position, PositionKind

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.cli.records.topic_dataset import TopicDataset
    from ottla.sources.log_source import LogSource

ROWS = 4096
KEPT_SIZE = 30_000_000
"""Bytes, below glibc's limit of 32 MiB for what it keeps."""

SHOWN_ROWS = 1000
"""Maximum rows of a printed table, which is shown only once it is complete."""

_VALUES = {"text": "value", "json": "try_cast(value as json)", "raw": "value"}
"""The column of values by the option `--value`."""


@click.command(
    "sql",
    cls=TargetCommand,
    examples=(
        "ottla sql data/ 'select key, count(*) from orders group by 1 order by 2 desc limit 5'",
        "ottla sql data/ 'select * from orders where partition = 0 and orders.offset < 100'",
        "ottla sql localhost:9092 \"select value->>'total' as total from orders\" --csv",
    ),
)
@target_argument(directories=True)
@click.argument("query", metavar="QUERY")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
@click.option("--json", "kind", flag_value="json", help="Print JSON lines.")
@click.option("--parquet", type=click.Path(path_type=Path), metavar="FILE", help="Write a file.")
@click.option(
    "--value",
    "value_as",
    type=click.Choice(list(_VALUES)),
    default="text",
    show_default=True,
    help="Type of values: text and json are null for bytes that are neither, raw is a blob.",
)
@tier_options
@quiet_option()
def sql_command(
    target: Target,
    query: str,
    kind: str | None,
    parquet: Path | None,
    value_as: str,
    is_quiet: bool,
    **tier: str | None,
) -> None:
    """Query topics in SQL.

    Each topic is a table with the columns topic, partition, offset, timestamp, key, value and
    headers. Only topics that QUERY names are read, up to their current ends, and only the rows
    within bounds on partition, offset and timestamp, and within a LIMIT. Put a name with dots or
    dashes in double quotes; offset is a keyword, so write orders.offset. Needs duckdb.
    """
    import duckdb

    # A failing import during a query would not say how to install them.
    with needed_for("ottla sql"):
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401

    target = target.with_tier(tier)
    if " " in target.text and (os.path.isdir(query) or looks_like_target(query)):
        raise UserError(f"the target comes before the query: ottla sql {query} 'select ...'")

    def ask() -> int:
        topics: list[TopicDataset] = []
        try:
            for topic in sorted(_tables(database, query)):
                topics.append(register_topic(database, target, topic, value_as))
            _no_files(database)
            found = database.sql(query)
            if found is None:
                raise UserError("the query returns no rows; write a select")
            return _print(found, kind, parquet, line)
        except duckdb.Error as error:
            for failure in (one for topic in topics for one in topic.failures):
                raise failure from error
            raise UserError(f"sql: {_line_of(str(error))}") from error

    line = LateLine("running the query", is_quiet=is_quiet)
    with duckdb.connect() as database, line:
        count = _interruptible(database, ask)
    if parquet is not None and not is_quiet:
        click.echo(f"wrote {counted(count, 'row')} to {parquet}", err=True)
    elif kind is None and count == SHOWN_ROWS and not is_quiet:
        click.echo(f"{SHOWN_ROWS} rows are shown; --csv and --json print all", err=True)


def _interruptible(database: Any, ask: Callable[[], int]) -> int:
    """Runs a query so that Ctrl-C works: DuckDB ignores signals, so another thread waits for it."""
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(ask).result()
        except BaseException:
            database.interrupt()
            raise


def _line_of(message: str) -> str:
    """Returns DuckDB's error line, with the following columns that it suggests."""
    first, *more = message.splitlines()
    return "; ".join((first, *(one for one in more if one.startswith("Candidate"))))


def _tables(database: Any, query: str) -> set[str]:
    """Returns the tables that a query names and does not define itself."""
    ((text,),) = database.execute("select json_serialize_sql(?::varchar)", [query]).fetchall()
    parsed = json.loads(text)
    if parsed.get("error"):
        if parsed["error_type"] == "not implemented":
            raise UserError("sql: a query must be a single select, since topics cannot be changed")
        raise UserError(f"sql: {parsed['error_message'].partition(chr(10))[0]}{_hint(query)}")
    if len(parsed["statements"]) > 1:
        raise UserError("sql: a query must be a single select; ask one after the other")
    named: set[str] = set()
    defined: set[str] = set()
    waiting = [parsed]
    while waiting:
        match waiting.pop():
            case dict() as node:
                if node.get("type") == "BASE_TABLE":
                    named.add(node["table_name"])
                if isinstance(ctes := node.get("cte_map"), dict):
                    defined.update(one["key"] for one in ctes.get("map", ()))
                waiting.extend(node.values())
            case list() as nodes:
                waiting.extend(nodes)
    return named - defined


def _hint(query: str) -> str:
    is_there = re.search(r'(?<![."\w])offset(?![\w"])', query, re.IGNORECASE)
    return '; offset is a keyword of SQL: write TOPIC.offset or "offset"' if is_there else ""


def _no_files(database: Any) -> None:
    """From here on a query can read topics, but no file of this computer."""
    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")


def register_topic(database: Any, target: Target, topic: str, value_as: str) -> "TopicDataset":
    """Makes a topic a view of the database; raises `UnknownNameError` and `UserError`."""
    from ottla.cli.records.topic_dataset import TopicDataset

    _keep_freed_memory()
    end = Position(PositionKind.END)
    try:
        found = open_range(target, topic, start=FROM_START, until=end)
    except UnknownNameError:
        # SQL's names are case-insensitive.
        known = topics_of(target)
        same = [name for name in known if name.lower() == topic.lower()]
        if not same:
            raise
        found = open_range(target, same[0], start=FROM_START, until=end)
    columns = (
        f'topic::varchar as topic, partition, "offset", "timestamp", '
        f"key, {_VALUES[value_as]} as value, "
        f"list_transform(headers, lambda h: {{'key': h.key, 'value': try(decode(h.value))}}) "
        f"as headers"
    )

    def source_of_scan() -> "LogSource":
        # Several scans may read files at once; a connection is for one.
        return found.source if target.is_directory else open_source(target, found.topic)

    # Arrow decodes a batch of keys in a third of the time that DuckDB's `decode` takes.
    texts = ("key",) if value_as == "raw" else ("key", "value")
    rows = TopicDataset(found, source_of_scan, texts)
    database.register(f"ottla_{topic}", rows)
    database.execute(
        f"create temp view {quoted(topic)} as select {columns} from {quoted(f'ottla_{topic}')}"
    )
    return rows


def _keep_freed_memory() -> None:
    """Has the C library keep what DuckDB's threads free of each region that they read.

    Otherwise it returns the memory to the system, and the next region costs a page fault for each
    of its pages, a tenth of all processor time. glibc keeps as much as twice the largest block that
    was freed (mallopt(3), M_MMAP_THRESHOLD); this one is never written, so it takes no memory.
    """
    bytes(KEPT_SIZE)


def _print(found: Any, kind: str | None, parquet: Path | None, line: LateLine) -> int:
    """Returns how many rows were written to a file, or are in the table."""
    reader = _with_distinct_names(found.to_arrow_reader(ROWS))
    line.say("reading the result")
    if parquet is not None:
        return _write_parquet(reader, parquet)
    if kind is None:
        return _print_table(reader, line)
    if kind == "csv":
        _print_csv(reader, line)
    else:
        for batch in reader:
            with line.aside():
                for row in python_rows(batch):
                    sys.stdout.buffer.write(json_bytes(row) + b"\n")
    return 0


def _with_distinct_names(reader: "pa.RecordBatchReader") -> "pa.RecordBatchReader":
    """Of columns with one name, as of a join, later ones have a number, as in tables of DuckDB."""
    import pyarrow as pa

    names: list[str] = []
    for name in reader.schema.names:
        others = (f"{name}_{number}" for number in numbers(1))
        names.append(next(one for one in chain([name], others) if one not in names))
    if names == reader.schema.names:
        return reader
    fields = [one.with_name(name) for one, name in zip(reader.schema, names, strict=True)]
    return pa.RecordBatchReader.from_batches(
        pa.schema(fields), (batch.rename_columns(names) for batch in reader)
    )


def _write_parquet(reader: "pa.RecordBatchReader", path: Path) -> int:
    import pyarrow.parquet as pq

    count = 0
    with whole_file(path) as file, pq.ParquetWriter(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _print_csv(reader: "pa.RecordBatchReader", line: LateLine) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    with line.aside():
        writer.writerow(reader.schema.names)
    for batch in reader:
        with line.aside():
            for row in python_rows(batch):
                writer.writerow([_cell(value, "") for value in row.values()])


def _print_table(reader: "pa.RecordBatchReader", line: LateLine) -> int:
    table = new_table()
    for name in reader.schema.names:
        table.add_column(name, overflow="fold")
    count = 0
    for batch in reader:
        for row in python_rows(batch.slice(0, SHOWN_ROWS - count)):
            table.add_row(*(_cell(value, "null") for value in row.values()))
            count += 1
        if count == SHOWN_ROWS:
            break
    with line.aside():
        new_console().print(table)
    return count


def _cell(value: Any, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, dict | list | bytes):
        return json_bytes(value).decode().strip('"')
    return str(value)
