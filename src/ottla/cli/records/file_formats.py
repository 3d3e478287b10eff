"""The files of `export` and `import`: Parquet, CSV, JSON lines, Arrow IPC, DuckDB databases.

All preserve a record fully. CSV is text: bytes that are not UTF-8 are base64, in a separate column.
A null is an empty cell, and an empty key or value is `""`, as PostgreSQL's COPY reads them.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.cli.records.arrow_export import export_schema, with_calendar_times
from ottla.cli.records.inputs import json_words
from ottla.cli.records.json_lines import parse_record
from ottla.cli.records.new_record import MAX_CSV_FIELD_SIZE, NewRecord
from ottla.search.encodings import json_bytes, text_field

if TYPE_CHECKING:
    import pyarrow as pa

Write = Callable[["pa.RecordBatch"], None]

SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}
STANDARD_OUTPUT = "-"
FORMATS = ("parquet", "csv", "json", "arrow", "duckdb")
CSV_COLUMNS = (
    "partition", "offset", "timestamp", "key", "value", "key_base64", "value_base64", "headers",
)  # fmt: skip
ROWS = 4096
NOT_PLAIN = lazy_pattern(r'[",\r\n]')
CSV_CELL = lazy_pattern(r'"[^"]*(?:""[^"]*)*"[^,]*,|[^,]*,')


def format_of(path: str, named: str | None) -> str:
    """Returns the format by `--as` or the file's name; raises `UserError`."""
    found = named or SUFFIXES.get(Path(path).suffix.lower())
    if found is None and path == STANDARD_OUTPUT:
        raise UserError("-o -: standard output has no name to choose a format by; use --as FORMAT")
    if found is None:
        raise UserError(
            f"{path}: its name does not indicate a format; use .parquet, .csv, .jsonl, .arrow or "
            f".duckdb, or --as FORMAT"
        )
    return found


def open_writer(kind: str, path: Path, topic: str) -> AbstractContextManager[Write]:
    """Opens a writer for batches of `export_schema`; the file appears only once it is complete."""
    if kind == "duckdb":
        if str(path) == STANDARD_OUTPUT:
            raise UserError("-o -: a database cannot be written to standard output; name a file")
        return _duckdb_writer(path, topic)
    return _whole(path, _WRITERS[kind])


@contextmanager
def _whole(path: Path, writer: Callable[[BinaryIO, ExitStack], Write]) -> Iterator[Write]:
    with whole_file(path) as file, ExitStack() as stack:
        yield writer(file, stack)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that appears only once it is complete; `-` is standard output.

    Raises `UserError`. A device, a pipe or a link is written to directly, since a file must not
    replace it.
    """
    try:
        if str(path) == STANDARD_OUTPUT:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
            with path.open("wb") as file:
                yield file
        else:
            with _replaced(path) as file:
                yield file
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise UserError(f"{path}: directory {path.parent} does not exist")
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _parquet_writer(file: BinaryIO, stack: ExitStack) -> Write:
    import pyarrow.parquet as pq

    writer = stack.enter_context(pq.ParquetWriter(file, export_schema(), compression="zstd"))
    return lambda batch: writer.write_batch(batch)


def _arrow_writer(file: BinaryIO, stack: ExitStack) -> Write:
    import pyarrow as pa

    # One dictionary per file, the topic's, which is the same for every batch.
    writer = stack.enter_context(pa.ipc.new_file(file, export_schema()))
    return lambda batch: writer.write_batch(batch)


def _json_writer(file: BinaryIO, _: ExitStack) -> Write:
    def write(batch: "pa.RecordBatch") -> None:
        file.writelines(json_bytes(_json_row(row)) + b"\n" for row in _rows(batch))

    return write


def _json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp_ms": row["timestamp"],
        **dict([_member("key", row["key"])]),
        **dict([_member("value", row["value"])]),
        "headers": _json_headers(row),
    }


def _json_headers(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": one["key"], **dict([_member("value", one["value"])])} for one in row["headers"]]


def _member(name: str, data: bytes | None) -> tuple[str, Any]:
    return (name, None) if data is None else text_field(name, data)


def _csv_writer(file: BinaryIO, stack: ExitStack) -> Write:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    stack.callback(text.detach)  # It flushes, and the file is not this writer's to close.
    text.write(",".join(CSV_COLUMNS) + "\r\n")

    def write(batch: "pa.RecordBatch") -> None:
        for row in _rows(batch):
            cells = row | dict([_member("key", row["key"]), _member("value", row["value"])])
            for name in ("key", "value"):
                cells[name] = None if f"{name}_base64" in cells else cells[name]
            headers = json_bytes(_json_headers(row)).decode() if row["headers"] else None
            cells["headers"] = headers
            text.write(",".join(_csv_cell(cells.get(name)) for name in CSV_COLUMNS) + "\r\n")

    return write


def _csv_cell(value: str | int | None) -> str:
    """Python's writer makes no difference between an empty text and a null."""
    text = "" if value is None else str(value)
    is_plain = value is None or (text and not NOT_PLAIN.search(text))
    return text if is_plain else '"' + text.replace('"', '""') + '"'


def _rows(batch: "pa.RecordBatch") -> list[dict[str, Any]]:
    """Yields rows with timestamps in milliseconds."""
    import pyarrow as pa

    place = batch.schema.get_field_index("timestamp")
    times = batch.column(place).cast(pa.int64())
    rows: list[dict[str, Any]] = batch.set_column(place, "timestamp", times).to_pylist()
    return rows


_WRITERS: dict[str, Callable[[BinaryIO, ExitStack], Write]] = {
    "parquet": _parquet_writer,
    "arrow": _arrow_writer,
    "json": _json_writer,
    "csv": _csv_writer,
}


@contextmanager
def _duckdb_writer(path: Path, topic: str) -> Iterator[Write]:
    """Writes a table with the topic's name, which replaces an older one once it is complete."""
    import duckdb
    import pyarrow as pa

    table = quoted(topic)
    is_new = not path.exists()
    with (
        _gone_after_an_error([path, Path(f"{path}.wal")] if is_new else []),
        _duckdb(path, read_only=False) as database,
    ):
        database.begin()
        empty = pa.Table.from_batches([], export_schema())
        database.register("exported", empty)
        database.execute(f"create or replace table {table} as select * from exported")

        def write(batch: "pa.RecordBatch") -> None:
            shown = with_calendar_times(batch)
            database.register("exported", pa.Table.from_batches([shown]))
            database.execute(f"insert into {table} select * from exported")

        try:
            yield write
            database.commit()
        except duckdb.Error as error:
            raise UserError(f"{path}: {error}") from error


@contextmanager
def _gone_after_an_error(files: Sequence[Path]) -> Iterator[None]:
    """Removes the files again if filling them fails."""
    try:
        yield
    except BaseException:
        for one in files:
            one.unlink(missing_ok=True)
        raise


@contextmanager
def _duckdb(path: Path, *, read_only: bool) -> Iterator[Any]:
    import duckdb

    try:
        database = duckdb.connect(str(path), read_only=read_only)
    except duckdb.Error as error:
        raise UserError(f"{path}: {error}") from error
    with database:
        yield database


def quoted(name: str) -> str:
    """Quotes a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


# Reading


def read_file(kind: str, path: Path, table: str | None) -> Iterator[NewRecord]:
    """Reads the records of an exported file, or of one with such columns; raises `UserError`.

    Only the column `value` is required. `table` is the table of a DuckDB database, by default its
    only one.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; name files that `ottla export` wrote")
    match kind:
        case "json":
            return _json_records(path)
        case "csv":
            return _csv_records(path)
        case "duckdb":
            return _duckdb_records(path, table)
    return _arrow_records(path, kind)


def _json_records(path: Path) -> Iterator[NewRecord]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield _parsed(path, number, line)


def _csv_records(path: Path) -> Iterator[NewRecord]:
    csv.field_size_limit(MAX_CSV_FIELD_SIZE)
    with path.open(newline="", encoding="utf-8") as file:
        lines = _ReadLines(file)
        reader = csv.DictReader(lines, strict=True)
        try:
            names = reader.fieldnames or ()
            _check_columns(path, names)
            lines.taken()
            for row in reader:
                if None in row or None in row.values():
                    raise UserError(
                        f"{path}, line {reader.line_num}: the number of columns differs from the "
                        f"headings"
                    )
                empty = _quoted_empty(lines.taken(), names)
                yield _parsed(path, reader.line_num, _fields_of(row) | empty)
        except (csv.Error, UnicodeDecodeError) as error:
            raise UserError(
                f"{path}: this is not CSV in UTF-8, after line {reader.line_num}: {error}"
            ) from error


class _ReadLines:
    """Remembers the lines of the row that Python's reader returns: it keeps no quotes."""

    def __init__(self, file: Iterable[str]) -> None:
        self._lines = iter(file)
        self._read: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._read.append(line)
        return line

    def taken(self) -> str:
        row = "".join(self._read)
        self._read.clear()
        return row


def _quoted_empty(row: str, names: Sequence[str]) -> dict[str, str]:
    """Returns the keys and values of a row that are `""`, not a null."""
    if '""' not in row:
        return {}
    cells = [found[0] for found in CSV_CELL.finditer(row.strip("\r\n") + ",")]
    return {
        name: ""
        for name, cell in zip(names, cells, strict=False)
        if cell == '"",' and name in ("key", "value")
    }


def _fields_of(row: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {name: text for name, text in row.items() if text}
    for name in ("partition", "timestamp"):
        if name in fields and fields[name].isdigit():
            fields[name] = int(fields[name])
    fields.pop("offset", None)
    return fields


def _parsed(path: Path, number: int, line: bytes | dict[str, Any]) -> NewRecord:
    try:
        if isinstance(line, dict):
            if "headers" in line:
                line["headers"] = json.loads(line["headers"])
            line = json.dumps(line).encode()
        return parse_record(line, 0)
    except (ValueError, UserError) as error:
        raise UserError(f"{path}, line {number}: {json_words(error)}") from error


def _check_columns(path: Path, names: Any) -> None:
    if not {"value", "value_base64"}.intersection(names):
        there = f"; there are {', '.join(names)}" if names else ", and no other"
        raise UserError(
            f"{path}: there is no column value{there}; to write rows as JSON: "
            f"ottla produce --csv or --parquet"
        )


def _arrow_records(path: Path, kind: str) -> Iterator[NewRecord]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if kind == "parquet":
            file = pq.ParquetFile(path)
            _check_columns(path, file.schema_arrow.names)
            batches = file.iter_batches(ROWS)
        else:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            _check_columns(path, reader.schema.names)
            batches = (reader.get_batch(one) for one in range(reader.num_record_batches))
        for batch in batches:
            yield from _of_batch(batch)
    except pa.ArrowException as error:
        raise UserError(f"{path}: this is no {kind} file: {error}") from error


def _of_batch(batch: "pa.RecordBatch") -> Iterator[NewRecord]:
    import pyarrow as pa

    place = batch.schema.get_field_index("timestamp")
    if place >= 0 and pa.types.is_timestamp(batch.schema.field(place).type):
        times = batch.column(place).cast(pa.timestamp("ms", batch.schema.field(place).type.tz))
        batch = batch.set_column(place, "timestamp", times.cast(pa.int64()))
    for row in batch.to_pylist():
        yield NewRecord(
            key=_bytes(row.get("key")),
            value=_bytes(row.get("value")),
            headers=tuple((one["key"], _bytes(one["value"])) for one in row.get("headers") or ()),
            partition=row.get("partition"),
            timestamp_ms=row.get("timestamp"),
        )


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json_bytes(value)


def _duckdb_records(path: Path, table: str | None) -> Iterator[NewRecord]:
    with _duckdb(path, read_only=True) as database:
        names = [row[0] for row in database.execute("show tables").fetchall()]
        if table is None and len(names) != 1:
            raise UserError(f"{path}: name a table with --table; there are {', '.join(names)}")
        if table is not None and table not in names:
            raise UserError(f"{path}: there is no table {table}; there are {', '.join(names)}")
        reader = database.sql(f"select * from {quoted(table or names[0])}").to_arrow_reader(ROWS)
        _check_columns(path, reader.schema.names)
        for batch in reader:
            yield from _of_batch(batch)
