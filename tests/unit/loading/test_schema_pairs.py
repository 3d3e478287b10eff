"""Two versions of a schema, a value of each, and what a table of their subject makes of them.

Each pair is loaded twice: the table is made of the first version, and must become what the second
makes of it. A second value that is refused stops a load with its offset, or is set aside.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.schema_registry.framing import PREFIX
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.values.schema import parse_schema, type_text
from ottla.tables.writing.record_writer import OnError
from tests.support.protobuf import message, proto, registered

pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow

NO_PROTOC = "no compiler of .proto: grpcio-tools is not installed"


@dataclass(frozen=True)
class Pair:
    """`old` and `new` are versions with a value each; `rows` what the table has then.

    With `fault` the second value is no row, and says so.
    """

    name: str
    old: tuple[Any, Any]
    new: tuple[Any, Any]
    columns: str
    rows: tuple[Any, ...]
    fault: str = ""


# Avro


def record(**fields: Any) -> dict[str, Any]:
    """A field is its type, or a type and its default."""
    parts = [
        {"name": name, "type": one[0], "default": one[1]}
        if isinstance(one, tuple)
        else {"name": name, "type": one}
        for name, one in fields.items()
    ]
    return {"type": "record", "name": "R", "fields": parts}


MAYBE = ["null", "string"]
INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
WIDER_INNER = {
    "type": "record",
    "name": "In",
    "fields": [*INNER["fields"], {"name": "y", "type": MAYBE, "default": None}],  # type: ignore[misc]
}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}

AVRO = [
    Pair(
        "a field with a default is a column, which values before have it in",
        (record(a="int"), {"a": 1}),
        (record(a="int", b=("string", "d")), {"a": 2, "b": "y"}),
        "a int, b string",
        ({"a": 1, "b": None}, {"a": 2, "b": "y"}),
    ),
    Pair(
        "a field without a default is a column too",
        (record(a="int"), {"a": 1}),
        (record(a="int", b="string"), {"a": 2, "b": "y"}),
        "a int, b string",
        ({"a": 1, "b": None}, {"a": 2, "b": "y"}),
    ),
    Pair(
        "fields in another order are not swapped",
        (record(a="string", b="string"), {"a": "1", "b": "2"}),
        (record(b="string", a="string"), {"a": "3", "b": "4"}),
        "a string, b string",
        ({"a": "1", "b": "2"}, {"a": "3", "b": "4"}),
    ),
    Pair(
        "a field with a default that is gone has it",
        (record(a="int", b=("string", "d")), {"a": 1, "b": "y"}),
        (record(a="int"), {"a": 2}),
        "a int, b string",
        ({"a": 1, "b": "y"}, {"a": 2, "b": "d"}),
    ),
    Pair(
        "a field without a default that is gone is missed",
        (record(a="int", b="string"), {"a": 1, "b": "y"}),
        (record(a="int"), {"a": 2}),
        "a int, b string",
        ({"a": 1, "b": "y"},),
        "it has no value.b, for which the table's has no default",
    ),
    Pair(
        "a renamed field is refused",
        (record(a="int", b="string"), {"a": 1, "b": "y"}),
        (record(a="int", c="string"), {"a": 2, "c": "y"}),
        "a int, b string, c string",
        ({"a": 1, "b": "y", "c": None},),
        "it has no value.b",
    ),
    Pair(
        "int becomes long",
        (record(a="int"), {"a": 1}),
        (record(a="long"), {"a": 2**40}),
        "a bigint",
        ({"a": 1}, {"a": 2**40}),
    ),
    Pair(
        "long narrowed to int stays long",
        (record(a="long"), {"a": 2**40}),
        (record(a="int"), {"a": 2}),
        "a bigint",
        ({"a": 2**40}, {"a": 2}),
    ),
    Pair(
        "a text that becomes a number is refused",
        (record(a="string"), {"a": "x"}),
        (record(a="int"), {"a": 1}),
        "a string",
        ({"a": "x"},),
        "its schema does not match the table's",
    ),
    Pair(
        "a number that becomes a text is refused",
        (record(a="long"), {"a": 1}),
        (record(a="string"), {"a": "x"}),
        "a bigint",
        ({"a": 1},),
        "its schema does not match the table's",
    ),
    Pair(
        "a field that may be null now is the same column",
        (record(a="string"), {"a": "x"}),
        (record(a=(MAYBE, None)), {"a": None}),
        "a string",
        ({"a": "x"}, {"a": None}),
    ),
    Pair(
        "a field within a record is one more field of the struct",
        (record(a=INNER), {"a": {"x": 1}}),
        (record(a=WIDER_INNER), {"a": {"x": 2, "y": "z"}}),
        "a struct<x: int, y: string>",
        ({"a": {"x": 1, "y": None}}, {"a": {"x": 2, "y": "z"}}),
    ),
    Pair(
        "symbols of an enum are more texts",
        (record(a={"type": "enum", "name": "E", "symbols": ["X"]}), {"a": "X"}),
        (record(a={"type": "enum", "name": "E", "symbols": ["X", "Y"]}), {"a": "Y"}),
        "a string",
        ({"a": "X"}, {"a": "Y"}),
    ),
    Pair(
        "another unit of time is refused",
        (record(a=MILLIS), {"a": 1}),
        (record(a={**MILLIS, "logicalType": "date", "type": "int"}), {"a": 1}),
        "a timestamp",
        (...,),
        "its value.a is date, the table's is timestamp-millis",
    ),
]


def avro_value(schema: Any, value: Any, schema_id: int) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return PREFIX.pack(0, schema_id) + stream.getvalue()


# Protobuf


def order(fields: str, more: str = "") -> str:
    return proto(f"message Order {{ {fields} }} {more}")


FIRST_LAST = order("string first = 1; string last = 2;")
TURING = {"first": "Alan", "last": "Turing"}
PROTOBUF = [
    Pair(
        "a field is a column, which is null before",
        (order("int32 a = 1;"), {"a": 1}),
        (order("int32 a = 1; string b = 2;"), {"a": 2, "b": "y"}),
        "a int, b string",
        ({"a": 1, "b": None}, {"a": 2, "b": "y"}),
    ),
    Pair(
        "names that change their numbers are not swapped",
        (FIRST_LAST, TURING),
        (order("string last = 1; string first = 2;"), TURING),
        "first string, last string",
        (TURING, TURING),
    ),
    Pair(
        "a field that is gone is null",
        (FIRST_LAST, TURING),
        (order("string first = 1; reserved 2;"), {"first": "Ada"}),
        "first string, last string",
        (TURING, {"first": "Ada", "last": None}),
    ),
    Pair(
        "a renamed field is refused",
        (FIRST_LAST, TURING),
        (order("string first = 1; string surname = 2;"), {"first": "Ada", "surname": "Lovelace"}),
        "first string, last string",
        (TURING,),
        "its value.surname is not in the table",
    ),
    Pair(
        "a field that is renamed in a message within is refused",
        (order("In a = 1;", "message In { int32 x = 1; }"), {"a": {"x": 1}}),
        (order("In a = 1;", "message In { int32 y = 1; }"), {"a": {"y": 1}}),
        "a struct<x: int>",
        ({"a": {"x": 1}},),
        "its value.a.y is not in the table",
    ),
    Pair(
        "int32 becomes int64",
        (order("int32 a = 1;"), {"a": 1}),
        (order("int64 a = 1;"), {"a": 2**40}),
        "a bigint",
        ({"a": 1}, {"a": 2**40}),
    ),
    Pair(
        "int64 narrowed to int32 stays bigint",
        (order("int64 a = 1;"), {"a": 2**40}),
        (order("int32 a = 1;"), {"a": 2}),
        "a bigint",
        ({"a": 2**40}, {"a": 2}),
    ),
    Pair(
        "another type is refused",
        (order("string a = 1;"), {"a": "x"}),
        (order("int32 a = 1;"), {"a": 1}),
        "a string",
        ({"a": "x"},),
        "shop.Order.a does not match the table's string",
    ),
    Pair(
        "a field that becomes repeated is refused",
        (order("string a = 1;"), {"a": "x"}),
        (order("repeated string a = 1;"), {"a": ["x"]}),
        "a string",
        ({"a": "x"},),
        "shop.Order.a does not match the table's string",
    ),
    Pair(
        "a field that becomes optional is the same column",
        (order("int32 a = 1;"), {}),
        (order("optional int32 a = 1;"), {}),
        "a int",
        ({"a": 0}, {"a": None}),
    ),
    Pair(
        "a field that moves into a oneof is the same column",
        (order("string a = 1; string b = 2;"), {"a": "x"}),
        (order("oneof one { string a = 1; string b = 2; }"), {"b": "y"}),
        "a string, b string",
        ({"a": "x", "b": ""}, {"a": None, "b": "y"}),
    ),
    Pair(
        "a field of a message in a map is one more field of the struct",
        (order("map<string, In> a = 1;", "message In { int32 x = 1; }"), {"a": {"k": {"x": 1}}}),
        (
            order("map<string, In> a = 1;", "message In { int32 x = 1; bool y = 2; }"),
            {"a": {"k": {"x": 2, "y": True}}},
        ),
        "a map<string, struct<x: int, y: boolean>>",
        ({"a": [("k", {"x": 1, "y": None})]}, {"a": [("k", {"x": 2, "y": True})]}),
    ),
    Pair(
        "another message is refused",
        (order("int32 a = 1;"), {"a": 1}),
        (proto("message Refund { int32 a = 1; } message Order { int32 a = 1; }"), {"a": 2}),
        "a int",
        ({"a": 1},),
        "it is a shop.Refund, but the table has shop.Order",
    ),
]


def protobuf_value(text: str, value: Any, schema_id: int) -> bytes:
    name = "Refund" if "Refund" in text else "Order"
    return registered(message(text, name)(**value), schema_id)


# JSON Schema

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


JSON_SCHEMA = [
    Pair(
        "a property is a column, which is null before",
        (an_object(a=INTEGER), {"a": 1}),
        (an_object(a=INTEGER, b=STRING), {"a": 2, "b": "y"}),
        "a bigint, b string, _rescued string",
        ({"a": 1, "b": None, "_rescued": None}, {"a": 2, "b": "y", "_rescued": None}),
    ),
    Pair(
        "what no version names is kept",
        (an_object(a=INTEGER), {"a": 1, "x": [1]}),
        (an_object(b=STRING), {"b": "y", "x": {"z": None}}),
        "a bigint, b string, _rescued string",
        (
            {"a": 1, "b": None, "_rescued": '{"x":[1]}'},
            {"a": None, "b": "y", "_rescued": '{"x":{"z":null}}'},
        ),
    ),
    Pair(
        "a property that was required and has another in its place is refused",
        (an_object("a", "b", a=INTEGER, b=STRING), {"a": 1, "b": "y"}),
        (an_object("a", "c", a=INTEGER, c=STRING), {"a": 2, "c": "y"}),
        "a bigint, b string, _rescued string",
        ({"a": 1, "b": "y", "_rescued": None},),
        "its value.c is not in the table",
    ),
    Pair(
        "a property that is only gone is null",
        (an_object("a", "b", a=INTEGER, b=STRING), {"a": 1, "b": "y"}),
        (an_object("a", a=INTEGER), {"a": 2}),
        "a bigint, b string, _rescued string",
        ({"a": 1, "b": "y", "_rescued": None}, {"a": 2, "b": None, "_rescued": None}),
    ),
    Pair(
        "another type is refused",
        (an_object(a=STRING), {"a": "x"}),
        (an_object(a=INTEGER), {"a": 1}),
        "a string, _rescued string",
        ({"a": "x", "_rescued": None},),
        "value.a is 1, not of type string",
    ),
    Pair(
        "a number that may be broken now is refused where it is",
        (an_object(a=INTEGER), {"a": 1}),
        (an_object(a={"type": "number"}), {"a": 1.5}),
        "a bigint, _rescued string",
        ({"a": 1, "_rescued": None},),
        "value.a is 1.5, not of type whole number",
    ),
    Pair(
        "a property that may be null now is the same column",
        (an_object(a=INTEGER), {"a": 1}),
        (an_object(a={"type": ["integer", "null"]}), {"a": None}),
        "a bigint, _rescued string",
        ({"a": 1, "_rescued": None}, {"a": None, "_rescued": None}),
    ),
    Pair(
        "a property within an object is one more field of the struct",
        (an_object(a=an_object(x=INTEGER)), {"a": {"x": 1}}),
        (an_object(a=an_object(x=INTEGER, y=STRING)), {"a": {"x": 2, "y": "z"}}),
        "a struct<x: bigint, y: string>, _rescued string",
        (
            {"a": {"x": 1, "y": None}, "_rescued": None},
            {"a": {"x": 2, "y": "z"}, "_rescued": None},
        ),
    ),
    Pair(
        "keys of a map are no columns",
        (an_object(a={"type": "object", "additionalProperties": INTEGER}), {"a": {"k": 1}}),
        (
            an_object(a={"type": "object", "additionalProperties": INTEGER}, b=STRING),
            {"a": {"l": 2}},
        ),
        "a map<string, bigint>, b string, _rescued string",
        (
            {"a": [("k", 1)], "b": None, "_rescued": None},
            {"a": [("l", 2)], "b": None, "_rescued": None},
        ),
    ),
]


def json_value(schema: Any, value: Any, schema_id: int) -> bytes:
    return PREFIX.pack(0, schema_id) + json.dumps(value).encode()


Write = Callable[[Any, Any, int], bytes]
KINDS: dict[ValueFormat, tuple[str, Write, list[Pair]]] = {
    ValueFormat.AVRO: ("avsc", avro_value, AVRO),
    ValueFormat.PROTOBUF: ("proto", protobuf_value, PROTOBUF),
    ValueFormat.JSON: ("json", json_value, JSON_SCHEMA),
}


def register(directory: Path, suffix: str, number: int, schema: Any) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    for name in (number, f"t-value.{number}"):
        (directory / f"{name}.{suffix}").write_text(text)


def loaded(path: Path, layout: LayoutOptions, on_error: OnError) -> LoadReport:
    place = LoadRoute(str(path / "log"), "t", str(path / "table"))
    options = LoadOptions(layout=layout, on_error=on_error)
    return load(load_job(place, LocalEngine(), options=options))


@pytest.mark.parametrize(
    ("value_format", "pair"),
    [
        pytest.param(value_format, pair, id=f"{value_format.value}: {pair.name}")
        for value_format, (_, _, pairs) in KINDS.items()
        for pair in pairs
    ],
)
def test_a_table_becomes_what_the_second_version_makes_of_it(
    tmp_path: Path, value_format: ValueFormat, pair: Pair
) -> None:
    if value_format is ValueFormat.PROTOBUF:
        pytest.importorskip("grpc_tools", reason=NO_PROTOC)
    suffix, write, _ = KINDS[value_format]
    registry = tmp_path / "schemas"
    registry.mkdir()
    decoding = Decoding(
        format=value_format,
        schema="",
        registry=str(registry),
        is_rescuing=value_format is ValueFormat.JSON,
    )
    for number, (schema, value) in enumerate((pair.old, pair.new), 1):
        register(registry, suffix, number, schema)
        with ottla.open(tmp_path / "log") as log:
            if number == 1:
                log.create_topic("t")
            log.append("t", write(schema, value, number))
        if number == 2 and pair.fault:
            with pytest.raises(UserError, match=r"t-0, offset 1: ") as refused:
                loaded(tmp_path, LayoutOptions(), OnError.FAIL)
            assert pair.fault in str(refused.value)
        report = loaded(
            tmp_path,
            LayoutOptions(decoding=decoding if number == 1 else None),
            OnError.QUARANTINE,
        )
    assert report.quarantined_count == bool(pair.fault)
    layout = Table(str(tmp_path / "table")).layout()
    assert type_text(layout.decoded_types["value"]) == type_text(parse_schema(pair.columns))
    table = ottla.table.dataset(str(tmp_path / "table")).to_table().sort_by("offset")
    found = [row["value"] for row in table.to_pylist()]
    assert len(found) == len(pair.rows)
    assert all(
        one == wanted for one, wanted in zip(found, pair.rows, strict=True) if wanted is not ...
    )
