"""Avro values as columns, and what is no value of its schema."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import UserError

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from ottla.tables.values.avro_values import AvroDecoder  # noqa: E402
from ottla.tables.values.decoder import Decoding, ValueFormat  # noqa: E402
from ottla.tables.values.opening import open_decoder  # noqa: E402
from ottla.tables.values.schema import schema_text  # noqa: E402

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "x", "type": "double"}],
                },
            },
        },
        {"name": "first", "type": ["null", "Line"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
    ],
}
ROW = {
    "id": 7,
    "name": "seven",
    "at": datetime(2024, 1, 1, tzinfo=UTC),
    "day": date(2024, 2, 3),
    "price": Decimal("1.25"),
    "key": "3f2a",
    "tags": {"a": 1},
    "lines": [{"x": 0.5}, {"x": 1.5}],
    "first": {"x": 2.5},
    "kind": "B",
    "raw": b"\x00\xff",
}


def plain_schema() -> dict[str, Any]:
    """As the decoder reads it: a uuid is its text."""
    fields = [
        {**one, "type": "string"} if one["name"] == "key" else one for one in SCHEMA["fields"]
    ]
    return {**SCHEMA, "fields": fields}


def datum(row: dict[str, Any], schema: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


SOUND = datum(ROW, plain_schema())


def decoder() -> AvroDecoder:
    return AvroDecoder(json.dumps(SCHEMA))


def test_values_become_columns_of_the_schemas_types() -> None:
    assert schema_text(decoder().type) == (
        "id bigint, name string, at timestamp, day date, price decimal(9,2), key string, "
        "tags map<string, int>, lines array<struct<x: double>>, first struct<x: double>, "
        "kind string, raw binary"
    )
    found = decoder().decode(pa.array([SOUND, None], pa.binary()))
    assert found.faults == {}
    row, tombstone = found.rows.to_pylist(maps_as_pydicts="strict")
    assert row == ROW
    assert tombstone is None


def test_a_value_cut_anywhere_or_with_more_after_it_is_a_fault_and_its_neighbours_are_not() -> None:
    broken = [SOUND[:size] for size in range(len(SOUND))] + [SOUND + b"\x00"]
    values = [one for value in broken for one in (SOUND, value)]
    found = decoder().decode(pa.array(values, pa.binary()))
    assert sorted(found.faults) == list(range(1, len(values), 2))
    rows = found.rows.to_pylist(maps_as_pydicts="strict")
    assert all(row == ROW for row in rows[::2])
    assert all(row is None for row in rows[1::2])
    assert "1 bytes follow its Avro datum" in found.faults[len(values) - 1]


def test_text_that_is_not_utf8_and_an_enum_that_is_not_there_are_faults() -> None:
    not_utf8 = SOUND.replace(b"seven", b"sev\xffn")
    enum_at = len(SOUND) - 3
    no_symbol = SOUND[:enum_at] + b"\x08" + SOUND[enum_at + 1 :]
    found = decoder().decode(pa.array([not_utf8, no_symbol, SOUND], pa.binary()))
    assert sorted(found.faults) == [0, 1]


def test_a_time_that_no_column_holds_is_a_fault() -> None:
    schema = {"type": "record", "name": "T", "fields": [SCHEMA["fields"][2]]}
    bare = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]}
    values = [datum({"at": 2**62}, bare), datum({"at": 0}, bare)]
    found = AvroDecoder(json.dumps(schema)).decode(pa.array(values, pa.binary()))
    assert found.faults == {0: FAR}
    assert found.rows.to_pylist()[1] == {"at": datetime(1970, 1, 1, tzinfo=UTC)}


FAR = "it has a date or a time outside of the years 1 to 9999"


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        (("int", "date"), -719_162, 2_932_896),
        (("long", "timestamp-millis"), -62_135_596_800_000, 253_402_300_799_999),
        (("long", "timestamp-micros"), -62_135_596_800_000_000, 253_402_300_799_999_999),
    ],
)
def test_a_date_or_time_beyond_all_columns_is_called_one(
    kind: tuple[str, str], first: int, last: int
) -> None:
    schema = record(("at", logical(*kind)))
    far = (1 << 31) - 1 if kind[0] == "int" else (1 << 63) - 1
    values = [number(one) for one in (first, last, first - 1, last + 1, far, -far)]
    rows, faults = read_as(schema, schema, *values)
    assert sorted(faults) == [2, 3, 4, 5]
    assert all(one.endswith(FAR) for one in faults.values())
    assert [rows[place]["at"].year for place in (0, 1)] == [1, 9999]


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_garbage_is_a_fault_or_a_row_of_all_its_bytes(values: list[bytes]) -> None:
    found = decoder().decode(pa.array(values, pa.binary()))
    for index, row in enumerate(found.rows.to_pylist(maps_as_pydicts="strict")):
        if index not in found.faults:
            stream = BytesIO(values[index])
            fastavro.schemaless_reader(stream, fastavro.parse_schema(plain_schema()))
            assert stream.tell() == len(values[index])
        assert (row is None) == (index in found.faults)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "is not JSON"),
        ('"string"', "outermost type must be a record"),
        ('{"type": "record", "name": "A", "fields": []}', "without fields"),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}',
            "is recursive",
        ),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["int", "string"]}]}',
            "only unions of null and one type",
        ),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}',
            "not an Avro schema",
        ),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "null"}]}',
            "null cannot be stored",
        ),
    ],
)
def test_a_schema_that_no_table_can_have_is_refused(schema: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_decoder(Decoding(format=ValueFormat.AVRO, schema=schema))


@pytest.mark.parametrize(
    "schema",
    ["{}", "5", "null", '{"type": "array"}', '{"type": "enum", "name": "e"}',
     '{"type": "record", "name": "a", "fields": 5}', '{"type": "record", "name": 5, "fields": []}'],
)  # fmt: skip
def test_json_that_is_no_schema_is_refused(schema: str) -> None:
    with pytest.raises(UserError, match="this is not an Avro schema"):
        AvroDecoder(schema)


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    listed = [dict(zip(("name", "type", "default"), one, strict=False)) for one in fields]
    return {"type": "record", "name": name, "fields": listed}


def number(value: int) -> bytes:
    left, found = (value << 1) ^ (value >> 63), b""
    while left > 0x7F:
        left, found = left >> 7, found + bytes([left & 0x7F | 0x80])
    return found + bytes([left])


X, Y = ("x", "int"), ("y", "int")


def read_as(written: Any, shown: Any, *values: bytes) -> tuple[list[Any], dict[int, str]]:
    """Rows and faults of values written with one schema and read with another."""
    with TemporaryDirectory() as directory:
        Path(directory, "1.avsc").write_text(json.dumps(written))
        decoder = open_decoder(
            Decoding(format=ValueFormat.AVRO, schema=json.dumps(shown), registry=directory)
        )
        found = decoder.decode(pa.array([b"\0\0\0\0\1" + one for one in values], pa.binary()))
    return found.rows.to_pylist(maps_as_pydicts="strict"), dict(found.faults)


def logical(kind: Any, name: Any, **more: Any) -> dict[str, Any]:
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "logicalType": name, **more}


FIXED = {"type": "fixed", "name": "F", "size": 2}
DECIMAL = {"precision": 4, "scale": 2}
INNER = record(("b", "bytes"), ("c", "int", 3), name="Inner")


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\xff\0", b"\xff\0"),
        (FIXED, "\xff\x80", b"\xff\x80"),
        (["bytes", "null"], "\xe9", b"\xe9"),
        (["null", "bytes"], "\xe9", b"\xe9"),
        (INNER, {"b": "\xe9"}, {"b": b"\xe9", "c": 3}),
        ({"type": "array", "items": "bytes"}, ["\xff"], [b"\xff"]),
        ({"type": "map", "values": FIXED}, {"k": "\xff\0"}, {"k": b"\xff\0"}),
        (logical("bytes", "decimal", **DECIMAL), "\1\0", Decimal("2.56")),
        (logical("bytes", "decimal", **DECIMAL), "\xff", Decimal("-0.01")),
        (logical(FIXED, "decimal", **DECIMAL), "\1\0", Decimal("2.56")),
        ([logical("bytes", "decimal", **DECIMAL), "null"], "\1\0", Decimal("2.56")),
        (logical("bytes", "decimal", precision=64, scale=2), "\1\0", b"\1\0"),
        (logical("long", "timestamp-millis"), 1000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (logical("long", "timestamp-micros"), 1, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (logical("int", "date"), 1, date(1970, 1, 2)),
        (logical("string", "decimal", **DECIMAL), "ab", "ab"),
        ("double", 1, 1.0),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", "A"),
    ],
)
def test_a_field_that_a_value_lacks_has_its_default_as_if_it_had_been_written(
    kind: Any, default: Any, value: Any
) -> None:
    assert read_as(record(X), record(X, ("f", kind, default)), number(1)) == (
        [{"x": 1, "f": value}],
        {},
    )


@pytest.mark.parametrize("default", ["\u0100", 7, None, ["a"]])
def test_a_default_that_is_no_value_of_its_type_is_refused_with_the_field(default: Any) -> None:
    with pytest.raises(UserError, match=r"the default of R\.f"):
        AvroDecoder(json.dumps(record(("f", "bytes", default))))


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        (logical("bytes", "decimal", precision=64, scale=2), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", "decimal", precision=4, scale=6), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", "decimal", precision="4"), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", "decimal", precision=0), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", "decimal", precision=4, scale=-1), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", "decimal"), number(2) + b"\1\0", b"\1\0"),
        (logical(FIXED, "decimal", precision=20), b"\1\0", b"\1\0"),
        (logical("string", "decimal", **DECIMAL), number(2) + b"ab", "ab"),
        (logical("long", "date"), number(5), 5),
        (logical("int", "timestamp-millis"), number(5), 5),
        (logical("string", "timestamp-micros"), number(1) + b"5", "5"),
        (logical("bytes", ["date"]), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", 7), number(2) + b"\1\0", b"\1\0"),
        (logical("bytes", "io.debezium.Unknown"), number(2) + b"\1\0", b"\1\0"),
    ],
)
def test_a_logical_type_that_is_invalid_or_of_another_type_is_ignored(
    kind: Any, data: bytes, value: Any
) -> None:
    whole = record(X, ("f", kind), Y)
    value_of_it = number(1) + data + number(2)
    assert read_as(whole, whole, value_of_it) == ([{"x": 1, "f": value, "y": 2}], {})
    assert read_as(whole, record(X, Y), value_of_it) == ([{"x": 1, "y": 2}], {})


NODE = record(("next", ["null", "Node"]), name="Node")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (["string", "int"], number(1) + number(5)),
        ({"type": "array", "items": "null"}, number(1000) + number(0)),
        ({"type": "array", "items": "int"}, number(-2) + number(2) + b"\2\2\0"),
        (NODE, number(1) * 1000 + number(0)),
        (record(name="Empty"), b""),
        ("null", b""),
        ("string", number(1) + b"\xff"),
        (logical("long", "timestamp-millis"), number(2**62)),
        ({"type": "string", "avro.java.string": "String"}, number(1) + b"a"),
        ({"type": "error", "name": "Oh", "fields": []}, b""),
    ],
)
def test_a_field_that_the_readers_schema_leaves_out_costs_nothing(kind: Any, data: bytes) -> None:
    written = record(X, ("f", kind), Y)
    assert read_as(written, record(X, Y), number(1) + data + number(2)) == (
        [{"x": 1, "y": 2}],
        {},
    )


EMPTY = {"type": "array", "items": "null"}
FREE = {"type": "fixed", "name": "Free", "size": 0}


@pytest.mark.parametrize("count", [2**62, -(2**62), -(2**63), 2**63 - 1])
@pytest.mark.parametrize(
    "kind",
    [
        EMPTY,
        {"type": "array", "items": FREE},
        {"type": "array", "items": record(("a", "null"), ("b", FREE), name="Nothing")},
        {"type": "array", "items": EMPTY},
        {"type": "map", "values": "null"},
        {"type": "map", "values": EMPTY},
        {"type": "array", "items": "int"},
        {"type": "array", "items": "string"},
        record(("deep", ["null", EMPTY]), name="Deep"),
    ],
)
def test_a_count_of_items_that_the_bytes_cannot_have_is_a_fault_at_once(
    kind: Any, count: int
) -> None:
    claimed = number(count) + (number(2**40) if count < 0 else b"")
    for data in (claimed, number(1) + claimed, claimed + b"\0\0"):
        for shown in (record(X, Y), record(X, Y, ("free", ["null", FREE], None))):
            rows, faults = read_as(record(X, ("f", kind), Y), shown, number(1) + data + number(2))
            assert (rows, list(faults)) == ([None], [0])


def test_many_blocks_of_items_without_bytes_are_bounded_together() -> None:
    value = number(1) + number(1000) * 100_000 + number(0) + number(2)
    rows, faults = read_as(record(X, ("f", EMPTY), Y), record(X, Y), value)
    assert rows == [None]
    assert "items without bytes" in faults[0]


def test_a_value_of_a_recursive_type_that_is_too_deep_is_a_fault_and_ends_no_process() -> None:
    value = number(1) + number(1) * 1_000_000 + number(0) + number(2)
    rows, faults = read_as(record(X, ("f", NODE), Y), record(X, Y), value)
    assert rows == [None]
    assert "nested more than" in faults[0]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([record(X), record(Y, name="Other")], r"give the schema of one of them \(--schema\)"),
        (NODE, r"Node is recursive.*leave it out of a schema that you give \(--schema\)"),
        (record(("f", ["int", "string"])), "leave it out of a schema that you give"),
        (record(("f", EMPTY)), "leave it out of a schema that you give"),
    ],
)
def test_a_type_that_no_column_has_is_refused_with_what_to_do(schema: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_decoder(Decoding(format=ValueFormat.AVRO, schema=json.dumps(schema)))


def test_of_a_union_of_records_the_schemas_own_are_read_and_others_are_faults() -> None:
    union = [record(X), record(Y, name="Other")]
    rows, faults = read_as(union, record(X), number(0) + number(7), number(1) + number(8))
    assert (rows, list(faults)) == ([{"x": 7}, None], [1])


def test_a_number_is_never_read_as_a_time_in_another_unit() -> None:
    millis = record(("at", logical("long", "timestamp-millis")))
    micros = record(("at", logical("long", "timestamp-micros")))
    plain = record(("at", "long"))
    second = {"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
    assert read_as(millis, micros, number(1000)) == ([second], {})
    assert read_as(micros, millis, number(10**6)) == ([second], {})
    for written, shown in ((plain, millis), (millis, plain)):
        rows, faults = read_as(written, shown, number(1000))
        assert rows == [None]
        assert "its value.at is" in faults[0]


@pytest.mark.slow
def test_types_that_double_at_each_level_are_refused_at_once() -> None:
    kind: Any = "int"
    for level in range(40):
        first = {"name": "a", "type": kind}
        again = {"name": "b", "type": f"R{level - 1}" if level else "int"}
        kind = {"type": "record", "name": f"R{level}", "fields": [first, again]}
    with pytest.raises(UserError, match="more than 10,000 columns"):
        open_decoder(Decoding(format=ValueFormat.AVRO, schema=json.dumps(kind)))
