"""What `produce` makes of lines, JSON, CSV, Parquet and files."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.cli.records.inputs import (
    PAUSE,
    InputError,
    InputOptions,
    Reader,
    csv_records,
    file_records,
    json_records,
    json_value_records,
    line_records,
    parquet_records,
)
from ottla.cli.records.json_lines import parse_record, record_object
from ottla.cli.records.new_record import NewRecord
from ottla.search.encodings import encoding_of
from ottla.tables.values.inference import infer_schema
from ottla.tables.values.json_values import JsonDecoder
from ottla.tables.values.schema import schema_text
from tests.unit.cli.records.support import entry

TEXT = encoding_of("value", "text", None)


def read(reader: Reader, data: bytes, **options: Any) -> list[NewRecord]:
    found = reader("input", io.BytesIO(data), InputOptions(**options))
    return [one for one in found if isinstance(one, NewRecord)]


def test_a_line_is_a_value_and_the_last_one_needs_no_end() -> None:
    found = read(line_records, b"a\n\nb\xff")
    assert [one.value for one in found] == [b"a", b"", b"b\xff"]
    assert [one.key for one in found] == [None] * 3
    assert read(line_records, b"") == []


def test_a_separator_divides_the_key_from_the_value() -> None:
    found = read(line_records, b"k:v:w\nno key\n:v\nk:\n", key_separator=b":")
    pairs = [(one.key, one.value) for one in found]
    assert pairs == [(b"k", b"v:w"), (None, b"no key"), (b"", b"v"), (b"k", b"")]
    found = read(line_records, b"k:\n:\n", key_separator=b":", empty_is_null=True)
    assert [(one.key, one.value) for one in found] == [(b"k", None), (b"", None)]


def test_records_may_end_in_something_else_than_lines() -> None:
    found = read(line_records, b"a\nb\0c\0", separator=b"\0")
    assert [one.value for one in found] == [b"a\nb", b"c"]


def test_options_say_what_the_input_does_not() -> None:
    (one,) = read(line_records, b"v", key=b"k", headers=(("h", b"1"),), partition=2, timestamp_ms=5)
    assert one == NewRecord(
        key=b"k", value=b"v", headers=(("h", b"1"),), partition=2, timestamp_ms=5
    )


def test_encoded_lines_are_decoded() -> None:
    found = read(
        line_records,
        b"00ff|AP8=",
        key_separator=b"|",
        key_encoding=encoding_of("key", "hex", None),
        value_encoding=encoding_of("value", "base64", None),
    )
    assert [(one.key, one.value) for one in found] == [(b"\0\xff", b"\0\xff")]
    with pytest.raises(InputError, match=r"input, line 2: .*which is not hex"):
        read(line_records, b"00\nxx", value_encoding=encoding_of("value", "hex", None))


def test_what_consume_prints_as_json_is_read_again() -> None:
    headers = (("h", b"\xff"), ("none", None), ("t", b"text"))
    for key, value in [(b"k", b"v"), (None, None), (b"\xff", b""), (b"5", b'{"a": 1}')]:
        one = entry(value, key, headers=headers)
        line = json.dumps(record_object(one, TEXT, TEXT)).encode()
        assert read(json_records, line) == [
            NewRecord(
                key=key, value=value, headers=headers, partition=3, timestamp_ms=1_700_000_000_123
            )
        ]


def test_json_lines_of_other_shapes() -> None:
    lines = [
        b'{"value": {"a": 1}, "key": 5, "headers": {"h": "v"}}',
        b'{"value_hex": "00ff", "headers": [["a", "b"]], "timestamp": "2023-11-14T22:13:20Z"}',
        b"",
    ]
    first, second = read(json_records, b"\n".join(lines))
    assert first == NewRecord(key=b"5", value=b'{"a":1}', headers=(("h", b"v"),))
    assert second == NewRecord(
        value=b"\0\xff", headers=(("a", b"b"),), timestamp_ms=1_700_000_000_000
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "this is not JSON"),
        (b"[1]", "a record is an object"),
        (b'{"valeu": 1}', "no member 'valeu'; with --json-value"),
        (b'{"partition": -1}', "partition is a number from 0"),
        (b'{"timestamp_ms": true}', "a timestamp is milliseconds"),
        (b'{"headers": [1]}', "a header must be"),
        (b'{"value_base64": "%"}', "input, line 1"),
    ],
)
def test_a_wrong_json_line_is_named(line: bytes, told: str) -> None:
    with pytest.raises(InputError) as raised:
        read(json_records, line)
    assert told in str(raised.value)
    with pytest.raises((ValueError, UserError)):
        parse_record(line, 0)


def test_json_values_are_sent_as_they_stand_with_a_key_out_of_them() -> None:
    data = b'{"id": 7, "at": 5, "c": {"n": "Ada"}}\n"x"\n'
    with pytest.raises(InputError, match=r"line 2: there is no c\.n"):
        read(json_value_records, data, key_column="c.n")
    (one,) = read(json_value_records, data[:-5], key_column="id", timestamp_column="at")
    assert one == NewRecord(key=b"7", value=data.split(b"\n")[0], timestamp_ms=5)


def test_csv_rows_become_json_or_one_column() -> None:
    data = b'id,name\r\n1,"a\nb"\n2,\xc3\xa9\n'
    found = read(csv_records, data, key_column="id")
    assert [one.key for one in found] == [b"1", b"2"]
    assert json.loads(found[0].value or b"") == {"id": "1", "name": "a\nb"}
    found = read(csv_records, data, key_column="id", value_column="name")
    assert [one.value for one in found] == [b"a\nb", "é".encode()]
    (large,) = read(csv_records, b"a\n" + 200_000 * b"x" + b"\n", value_column="a")
    assert large.value == 200_000 * b"x"
    with pytest.raises(UserError, match="there is no column nam; there are id, name"):
        read(csv_records, data, value_column="nam")
    with pytest.raises(InputError, match="the number of columns differs"):
        read(csv_records, b"a,b\n1\n")


def test_parquet_rows_become_json_or_one_column(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [1, 2], "raw": [b"\xff", None]}), path)
    found = read(parquet_records, path.read_bytes(), key_column="id", value_column="raw")
    assert [(one.key, one.value) for one in found] == [(b"1", b"\xff"), (b"2", None)]
    found = read(parquet_records, path.read_bytes())
    assert json.loads(found[0].value or b"") == {"id": 1, "raw": "/w=="}
    with pytest.raises(UserError, match="this is not a Parquet file"):
        read(parquet_records, b"nonsense")


def test_json_of_parquet_is_json_that_a_load_reads(tmp_path: Path) -> None:
    """No NaN, which JSON does not have, and times in RFC 3339 with every digit."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    table = {
        "f": [1.5, float("nan"), float("-inf")],
        "s": [{"f": [float("nan"), 1.0]}] * 3,
        "ns": pa.array([1_700_000_000_123_456_789] * 3, pa.timestamp("ns", "UTC")),
        "far": pa.array([253_402_300_800_000_000] * 3, pa.timestamp("us", "UTC")),
        "fars": pa.array([[253_402_300_800_000_000]] * 3, pa.list_(pa.timestamp("us"), 1)),
        "old": pa.array([-2_000_000_000_000_000] * 3, pa.timestamp("us", "Europe/Amsterdam")),
        "clock": pa.array([45_296_123_456_789] * 3, pa.time64("ns")),
    }
    pq.write_table(pa.table(table), path)
    found = read(parquet_records, path.read_bytes(), timestamp_column="ns")
    assert [one.timestamp_ms for one in found] == [1_700_000_000_123] * 3
    for number, one in zip((1.5, None, None), found, strict=True):
        assert json.loads(one.value or b"", parse_constant=pytest.fail) == {
            "f": number,
            "s": {"f": [None, 1.0]},
            "ns": "2023-11-14T22:13:20.123456789Z",
            "far": "+10000-01-01T00:00:00.000000Z",
            "fars": ["+10000-01-01T00:00:00.000000"],
            "old": "1906-08-16T20:26:40+00:00",
            "clock": "12:34:56.123456789",
        }
    decoder = JsonDecoder(
        "f double, ns timestamp, far timestamp, old timestamp, s string", is_rescuing=True
    )
    del table["s"]
    pq.write_table(pa.table(table), path)
    values = [one.value for one in read(parquet_records, path.read_bytes())]
    assert decoder.decode(pa.array(values)).faults == {}


def test_maps_of_parquet_are_objects_that_a_load_infers(tmp_path: Path) -> None:
    """Or lists of key and value where the keys are no strings; wherever they are."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    by_text, by_number = (pa.map_(kind, pa.int64()) for kind in (pa.string(), pa.int64()))
    named = pa.map_(pa.string(), pa.timestamp("ns"))
    table = {
        "m": pa.array([[("k", 1)], None, []], by_text),
        "n": pa.array([[(7, 1)], None, []], by_number),
        "l": pa.array([[[("k", 1)], None], None, []], pa.list_(by_text)),
        "f": pa.array([[[("k", 1)]], [None], [None]], pa.list_(by_text, 1)),
        "s": pa.array([{"m": [("k", 1)]}, None, {"m": None}], pa.struct([("m", by_text)])),
        "mm": pa.array([[("k", [(7, 1)])], None, []], pa.map_(pa.string(), by_number)),
        "t": pa.array([[("k", 1)], None, []], named),
    }
    pq.write_table(pa.table(table), path)
    values = [one.value for one in read(parquet_records, path.read_bytes())]
    assert json.loads(values[0] or b"") == {
        "m": {"k": 1},
        "n": [{"key": 7, "value": 1}],
        "l": [{"k": 1}, None],
        "f": [{"k": 1}],
        "s": {"m": {"k": 1}},
        "mm": {"k": [{"key": 7, "value": 1}]},
        "t": {"k": "1970-01-01T00:00:00.000000001"},
    }
    nothing = dict.fromkeys(table)
    assert json.loads(values[1] or b"") == nothing | {"f": [None]}
    decoder = JsonDecoder(schema_text(infer_schema(values)))
    assert decoder.decode(pa.array(values)).faults == {}
    pq.write_table(pa.table({"l": pa.array([[[("k", 1), ("k", 2)]]], pa.list_(by_text))}), path)
    with pytest.raises(UserError, match=r"input: the map l\[\] has the key 'k' twice"):
        read(parquet_records, path.read_bytes())


def test_no_column_is_lost_under_the_name_of_another(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    with pytest.raises(UserError, match="input: there are two columns 'a'; rename one"):
        read(csv_records, b"a,b,a\n1,2,3\n")
    one = pa.array([1])
    inner = pa.StructArray.from_arrays([one, one], names=["a", "a"])
    for columns, names, word in (([one, one], ["a", "a"], "'a'"), ([inner], ["s"], r"s\.'a'")):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.Table.from_arrays(columns, names=names), path)
        with pytest.raises(UserError, match=f"input: there are two columns {word}; rename one"):
            read(parquet_records, path.read_bytes())


def test_a_byte_order_mark_is_no_part_of_the_first_record() -> None:
    mark = b"\xef\xbb\xbf"
    assert read(csv_records, mark + b"id\n1\n")[0].value == b'{"id":"1"}'
    assert read(json_value_records, mark + b'{"a":1}')[0].value == b'{"a":1}'
    assert read(json_records, mark + b'{"value":"x"}')[0].value == b"x"


def test_numbers_in_a_json_value_keep_their_digits() -> None:
    text = '{"a":[0.12345678901234567890,1.10],"b":1e400,"c":{"d":-0.0,"e":1E5}}'
    (one,) = read(json_records, b'{"key": 1.10, "value": %s, "partition": 2}' % text.encode())
    assert (one.key, one.value, one.partition) == (b"1.10", text.encode(), 2)
    for wrong in (b'{"partition": 1.5}', b'{"partition": "1"}', b'{"value_hex": 12}'):
        with pytest.raises(InputError, match=r"partition is a number|value_hex is a text"):
            read(json_records, wrong)


def test_json_that_is_not_utf_8_is_refused_as_a_load_refuses_it() -> None:
    for text in (b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', '{"a":1}'.encode("utf-16")):
        with pytest.raises(InputError, match="line 1: 'utf-8' codec"):
            read(json_value_records, text)
    with pytest.raises(InputError, match="line 1: 'utf-8' codec"):
        read(csv_records, "a\n1\n".encode("utf-16"))


@pytest.mark.parametrize("text", [b"NaN", b'{"a": NaN}', b"[Infinity]", b'{"a": {"b": -Infinity}}'])
def test_what_only_pythons_parser_takes_is_no_json(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not a JSON number"):
        encoding_of("value", "json", None).parse(text)
    with pytest.raises(InputError, match="is not a JSON number"):
        read(json_value_records, text)
    with pytest.raises(InputError, match="is not a JSON number"):
        read(json_records, b'{"value": %s}' % text)


def test_a_file_is_a_record(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(path.name.encode() + b"\n")
    found = file_records(map(str, paths), InputOptions(key=b"k"))
    assert [one.value for one in found if isinstance(one, NewRecord)] == [b"a\n", b"b\n"]
    with pytest.raises(UserError, match="No such file"):
        list(file_records([str(tmp_path / "c")], InputOptions()))


def test_a_pipe_that_has_nothing_more_for_now_is_a_pause() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\nb")
    with open(reading, "rb") as stream:
        found = line_records("stdin", stream, InputOptions())
        assert next(found) == NewRecord(value=b"a")
        assert next(found) is PAUSE
        os.write(writing, b"c\n")
        assert next(found) == NewRecord(value=b"bc")
        assert next(found) is PAUSE
        os.close(writing)
        assert list(found) == []


def test_avro_goes_both_ways(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    schema = tmp_path / "s.avsc"
    field = {"name": "n", "type": "long"}
    schema.write_text(json.dumps({"type": "record", "name": "R", "fields": [field]}))
    avro = encoding_of("value", "avro", schema)
    (one,) = read(line_records, b'{"n": 5}', value_encoding=avro)
    assert one.value == b"\x0a"
    assert avro.show(one.value) == b'{"n":5}'
    assert avro.json_field("value", one.value) == ("value", {"n": 5})
    assert avro.json_field("value", b"\x0a\x0a") == ("value_base64", "Cgo=")
    with pytest.raises(InputError, match=r"line 1: .*which is not avro"):
        read(line_records, b"{}", value_encoding=avro)
    with pytest.raises(UserError, match="needs its schema: --schema FILE"):
        encoding_of("value", "avro", None)
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(UserError, match="this is not an Avro schema"):
        encoding_of("value", None, tmp_path / "bad")
