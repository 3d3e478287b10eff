"""What `export` writes is what `import` reads, in every format that is one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ottla.base.errors import UserError
from ottla.cli.records.arrow_export import export_schema
from ottla.cli.records.file_formats import open_writer, read_file
from ottla.cli.records.new_record import NewRecord

pa = pytest.importorskip("pyarrow")

AWKWARD = st.text(alphabet='a",\r\n\\ \x00é;\u2028', max_size=6).map(str.encode)
DATA = st.none() | st.just(b"") | AWKWARD | st.binary(max_size=5)
HEADERS = st.lists(st.tuples(st.text(max_size=3), DATA), max_size=2)
RECORDS = st.lists(
    st.builds(
        lambda key, value, headers, partition, timestamp_ms: NewRecord(
            key=key,
            value=value,
            headers=tuple(headers),
            partition=partition,
            timestamp_ms=timestamp_ms,
        ),
        DATA,
        DATA,
        HEADERS,
        st.integers(0, 2**31 - 1),
        st.none() | st.integers(0, 2**40),
    ),
    max_size=4,
)


def batch_of(records: Sequence[NewRecord]) -> Any:
    rows = [
        {
            "topic": "t",
            "partition": one.partition,
            "offset": offset,
            "timestamp": one.timestamp_ms,
            "key": one.key,
            "value": one.value,
            "headers": [{"key": name, "value": value} for name, value in one.headers],
        }
        for offset, one in enumerate(records)
    ]
    columns = [
        pa.array([row[field.name] for row in rows], field.type)
        if field.name != "topic"
        else pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.int32()), ["t"])
        for field in export_schema()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=export_schema())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "json", "arrow", "parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(records=RECORDS)
@example(records=[NewRecord(key=b"", value=None, partition=0)])
@example(records=[NewRecord(key=None, value=b"", partition=0, headers=(("h", b""), ("n", None)))])
@example(records=[NewRecord(key=b',"",', value=b'""', partition=0)])
@example(records=[NewRecord(key=b"\r\n", value=b"", partition=0), NewRecord(key=b"", partition=0)])
def test_records_are_read_as_they_were_written(
    kind: str, records: list[NewRecord], tmp_path: Path
) -> None:
    path = tmp_path / f"out.{kind}"
    with open_writer(kind, path, "t") as write:
        write(batch_of(records))
    assert list(read_file(kind, path, None)) == records


def test_other_programs_tell_an_empty_text_of_a_csv_file_from_a_null(tmp_path: Path) -> None:
    from pyarrow import csv

    path = tmp_path / "out.csv"
    records = [
        NewRecord(key=b"", value=None, partition=0),
        NewRecord(key=None, value=b"", partition=0),
    ]
    with open_writer("csv", path, "t") as write:
        write(batch_of(records))
    options = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    table = csv.read_csv(path, convert_options=options)
    assert table.column("key").to_pylist() == ["", None]
    assert table.column("value").to_pylist() == [None, ""]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('value\na"b\n', [b'a"b']),
        ('key,value\n"",\n,""\n\n\n"","x"\n', [(b"", None), (None, b""), (b"", b"x")]),
        ('value,key\r\n"say ""hi"", you",""\r\n', [(b"", b'say "hi", you')]),
        ('"partition","value"\n"","x"\n', [(None, b"x")]),
    ],
)
def test_files_of_other_programs_are_read(text: str, found: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(text, newline="")
    read = [(one.key, one.value) for one in read_file("csv", path, None)]
    assert read == [one if isinstance(one, tuple) else (None, one) for one in found]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("key,value\na,b\nc,d,e\n", "line 3: the number of columns differs from the headings"),
        ("key,value\na\n", "line 2: the number of columns differs from the headings"),
        ('value\na\n"b', "unexpected end of data"),
        ('value\n"a"b\n', "after line 1: ',' expected after '\"'"),
    ],
)
def test_a_row_that_is_cut_or_has_too_much_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=r"in\.csv") as caught:
        list(read_file("csv", path, None))
    assert str(caught.value).endswith(told)
