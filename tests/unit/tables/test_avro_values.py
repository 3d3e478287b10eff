"""Avro values as columns, and what is no value of its schema."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
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
    assert list(found.faults) == [0]
    assert found.rows.to_pylist()[1] == {"at": datetime(1970, 1, 1, tzinfo=UTC)}


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
