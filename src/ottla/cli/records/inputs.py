"""The inputs of `produce`: lines, JSON lines, CSV, Parquet, or a file for each record.

A source of bytes yields `PAUSE` when it may block for a while, so that what was read is sent.
"""

import json
import os
import select
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, BinaryIO, Final

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.cli.arrow_rows import check_names, python_rows
from ottla.cli.records.json_lines import parse_record
from ottla.cli.records.new_record import MAX_CSV_FIELD_SIZE, Headers, NewRecord
from ottla.search.encodings import TEXT, Encoding, json_bytes, read_json
from ottla.search.positions import parse_time

CHUNK_SIZE = 1 << 18
PARQUET_ROWS = 4096

_FINER_THAN_MICROSECONDS = lazy_pattern(r"(\.[0-9]{6})[0-9]+")


class Pause(Enum):
    """Marks a pause between two records: the next one may take long to come."""

    PAUSE = "pause"


PAUSE: Final = Pause.PAUSE


class InputError(UserError):
    """An input is not of its format; `place` is its name and the number of a line or row."""

    def __init__(self, name: str, number: int, reason: object) -> None:
        super().__init__(f"{name}, line {number}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """How lines, rows or files of any format become records."""

    key_encoding: Encoding = TEXT
    value_encoding: Encoding = TEXT
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    separator: bytes = b"\n"
    key_separator: bytes | None = None
    empty_is_null: bool = False
    key_column: str | None = None
    value_column: str | None = None
    timestamp_column: str | None = None
    now_ms: int = 0

    def completed(self, record: NewRecord) -> NewRecord:
        """Fills in missing fields of a record from the options.

        A partition in the options applies to all records: they may come from a topic with more
        partitions.
        """
        is_null = self.empty_is_null and not record.value
        return replace(
            record,
            key=self.key if record.key is None else record.key,
            value=None if is_null else record.value,
            headers=record.headers + self.headers,
            partition=record.partition if self.partition is None else self.partition,
            timestamp_ms=(
                self.timestamp_ms if record.timestamp_ms is None else record.timestamp_ms
            ),
        )


Records = Iterator[NewRecord | Pause]
Reader = Callable[[str, BinaryIO, InputOptions], Records]


def file_records(paths: Iterable[str], options: InputOptions) -> Records:
    """Yields a record for each file, with its content as value."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; name files to send") from error
        yield options.completed(NewRecord(value=_parsed(path, 1, options.value_encoding, data)))


def line_records(name: str, stream: BinaryIO, options: InputOptions) -> Records:
    """Yields a record for each line: its value, preceded by its key if there is a separator."""
    between = options.key_separator
    for number, line in _lines(stream, options.separator):
        if isinstance(line, Pause):
            yield line
            continue
        key, value = None, line
        if between is not None:
            found, is_there, rest = line.partition(between)
            if is_there:
                key, value = found, rest
        yield options.completed(
            NewRecord(
                key=None if key is None else _parsed(name, number, options.key_encoding, key),
                value=(
                    None
                    if options.empty_is_null and not value
                    else _parsed(name, number, options.value_encoding, value)
                ),
            )
        )


def json_records(name: str, stream: BinaryIO, options: InputOptions) -> Records:
    """Yields a record for each line, an object as `consume --json` prints."""
    for number, line in _text_lines(stream):
        if isinstance(line, Pause):
            yield line
        elif line.strip():
            try:
                yield options.completed(parse_record(line, options.now_ms))
            except (ValueError, UserError) as error:
                raise InputError(name, number, json_words(error)) from error


def json_value_records(name: str, stream: BinaryIO, options: InputOptions) -> Records:
    """Yields a record for each line, whose value is the line: any JSON document."""
    for number, line in _text_lines(stream):
        if isinstance(line, Pause):
            yield line
        elif line.strip():
            try:
                found = read_json(line)
                record = NewRecord(value=line, **_from_row(found, options))
            except ValueError as error:
                raise InputError(name, number, json_words(error)) from error
            yield options.completed(record)


def csv_records(name: str, stream: BinaryIO, options: InputOptions) -> Records:
    """Yields a record for each row below the heading: one column, or all columns as JSON."""
    import csv

    lines = (line for _, line in _text_lines(stream))
    texts = (line.decode() + "\n" for line in lines if not isinstance(line, Pause))

    csv.field_size_limit(MAX_CSV_FIELD_SIZE)
    reader = csv.DictReader(texts, strict=True)
    try:
        _check_columns(name, reader.fieldnames or (), options)
        for row in reader:
            if None in row or None in row.values():
                raise InputError(
                    name, reader.line_num, "the number of columns differs from the headings"
                )
            yield _of_row(name, reader.line_num, row, options)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(name, reader.line_num + 1, error) from error


def parquet_records(name: str, stream: BinaryIO, options: InputOptions) -> Records:
    """Yields a record for each row: one column, or all columns as JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(stream)
        _check_columns(name, file.schema_arrow.names, options)
        number = 0
        for batch in file.iter_batches(PARQUET_ROWS):
            for row in _python_rows(name, batch):
                number += 1
                yield _of_row(name, number, row, options)
    except pa.ArrowException as error:
        raise UserError(f"{name}: this is not a Parquet file: {error}") from error


def _python_rows(name: str, batch: Any) -> list[dict[str, Any]]:
    try:
        check_names(batch.schema)
        return python_rows(batch)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error


def _check_columns(name: str, there: Iterable[str], options: InputOptions) -> None:
    names = list(there)
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise UserError(f"{name}: there are two columns {twice!r}; rename one")
    for wanted in (options.key_column, options.value_column, options.timestamp_column):
        if wanted is not None and wanted not in names:
            raise UserError(f"{name}: there is no column {wanted}; there are {', '.join(names)}")


def _of_row(name: str, number: int, row: Mapping[str, Any], options: InputOptions) -> NewRecord:
    try:
        record = NewRecord(value=_row_value(row, options), **_from_row(row, options))
    except (ValueError, UserError) as error:
        raise InputError(name, number, error) from error
    return options.completed(record)


def _row_value(row: Mapping[str, Any], options: InputOptions) -> bytes | None:
    if options.value_column is not None:
        return _cell(row[options.value_column], options.value_encoding)
    return options.value_encoding.parse(json_bytes(row))


def _from_row(row: Any, options: InputOptions) -> dict[str, Any]:
    """Takes key and timestamp from the columns that are named for them."""
    found: dict[str, Any] = {}
    if options.key_column is not None:
        found["key"] = _cell(_member(row, options.key_column), options.key_encoding)
    if options.timestamp_column is not None:
        found["timestamp_ms"] = _time(_member(row, options.timestamp_column), options.now_ms)
    return found


def _member(row: Any, column: str) -> Any:
    for name in [column] if isinstance(row, Mapping) and column in row else column.split("."):
        if not isinstance(row, Mapping) or name not in row:
            raise ValueError(f"there is no {column}")
        row = row[name]
    return row


def _cell(value: Any, encoding: Encoding) -> bytes | None:
    match value:
        case None:
            return None
        case bytes():
            return value
        case str():
            return encoding.parse(value.encode())
    return encoding.parse(json_bytes(value))


def _time(value: Any, now_ms: int) -> int | None:
    match value:
        case None | int():
            return value
        case str():
            return parse_time(_FINER_THAN_MICROSECONDS.sub(r"\1", value), now_ms)
    return int(value.timestamp() * 1000)


def _parsed(name: str, number: int, encoding: Encoding, data: bytes) -> bytes:
    try:
        return encoding.parse(data)
    except ValueError as error:
        raise InputError(name, number, f"{error}, which is not {encoding.name}") from error


def json_words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"this is not JSON: {error.msg} at character {error.pos + 1}"
    return str(error)


def _text_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | Pause]]:
    """Like `_lines`, without the byte order mark that some programs put before a text."""
    is_first = True
    for number, line in _lines(stream, b"\n"):
        if isinstance(line, Pause):
            yield number, line
            continue
        yield number, line.removeprefix(BOM_UTF8) if is_first else line
        is_first = False


def _lines(stream: BinaryIO, separator: bytes) -> Iterator[tuple[int, bytes | Pause]]:
    """Yields lines without their line ends, numbered from 1; the last may lack its line end."""
    number = 0
    rest = b""
    for chunk in _chunks(stream):
        if isinstance(chunk, Pause):
            yield number, chunk
            continue
        *whole, rest = (rest + chunk).split(separator) if rest else chunk.split(separator)
        for line in whole:
            number += 1
            yield number, line
    if rest:
        yield number + 1, rest


def _chunks(stream: BinaryIO) -> Iterator[bytes | Pause]:
    """Yields what is available, with a pause before a read that would block."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    while True:
        if _would_wait(stream):
            yield PAUSE
            from ottla.runtime.interrupts import wait_for_input  # not for the help

            wait_for_input(stream.fileno())
        chunk = read(CHUNK_SIZE)
        if not chunk:
            return
        yield chunk


def _would_wait(stream: BinaryIO) -> bool:
    """Whether reading a pipe or terminal would block; reading a file never does."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return False
    if os.name != "posix":
        return False
    return not select.select([number], [], [], 0)[0]
