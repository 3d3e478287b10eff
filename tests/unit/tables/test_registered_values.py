"""Avro values that name the schema which wrote them, and tables that grow with their subject."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from ottla.base.errors import UserError  # noqa: E402
from ottla.schema_registry.framing import PREFIX  # noqa: E402
from ottla.schema_registry.registry import RegisteredSchema  # noqa: E402
from ottla.tables.layout import (  # noqa: E402
    RAW,
    LayoutOptions,
    PinnedDecoding,
    TableLayout,
    first_layout,
    layout_fields,
    next_layout,
    parse_layout,
)
from ottla.tables.schemas import with_registered_schema  # noqa: E402
from ottla.tables.values.avro_growth import grown  # noqa: E402
from ottla.tables.values.decoder import Decoding, ValueFormat  # noqa: E402
from ottla.tables.values.opening import open_decoder  # noqa: E402
from ottla.tables.values.record_decoder import RecordDecoding  # noqa: E402
from ottla.tables.values.schema import schema_text, type_text  # noqa: E402

STRING = "string"
MAYBE_INT = ["null", "int"]


def field(name: str, kind: Any = STRING, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def record(*fields: dict[str, Any], name: str = "Person", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


FIRST_LAST = record(field("first"), field("last"))
LAST_FIRST = record(field("last"), field("first"))


def written(schema: Any, value: Any, schema_id: int | None = 1) -> bytes:
    stream = BytesIO()
    if schema_id is not None:
        stream.write(PREFIX.pack(0, schema_id))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def decoding(directory: Path, schema: Any = "", subject: str = "") -> Decoding:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return Decoding(format=ValueFormat.AVRO, schema=text, registry=str(directory), subject=subject)


def register(directory: Path, **schemas: Any) -> None:
    for name, schema in schemas.items():
        path = directory / f"{name.removeprefix('id').replace('_', '.')}.avsc"
        path.write_text(json.dumps(schema))


def decoded(of: Decoding, *values: bytes | None, headers: Any = None) -> tuple[Any, dict[int, str]]:
    found = open_decoder(of).decode(pa.array(values, pa.binary()), headers)
    return found.rows.to_pylist(), dict(found.faults)


def grown_of(*versions: Any) -> Any:
    return json.loads(grown(RegisteredSchema(text=json.dumps(one)) for one in versions))


def test_each_value_is_read_with_the_schema_that_wrote_it(tmp_path: Path) -> None:
    register(tmp_path, id1=FIRST_LAST, id2=LAST_FIRST)
    turing = {"first": "Alan", "last": "Turing"}
    rows, faults = decoded(
        decoding(tmp_path, FIRST_LAST),
        written(FIRST_LAST, turing, 1),
        None,
        written(LAST_FIRST, turing, 2),
    )
    assert (rows, faults) == ([turing, None, turing], {})


def test_a_prefix_whose_schema_nobody_named_is_refused_before_anything_is_read() -> None:
    unnamed = Decoding(format=ValueFormat.AVRO, schema=json.dumps(FIRST_LAST), confluent=True)
    with pytest.raises(UserError, match="--registry URL or DIRECTORY"):
        first_layout(LayoutOptions(decoding=unnamed))
    pinned = PinnedDecoding(since_commit=0, record=RecordDecoding(value=unnamed))
    before = TableLayout(decodings=(pinned,))
    with pytest.raises(UserError, match="--schema-id ID"):
        next_layout(before, LayoutOptions(), 3)


def test_a_guid_in_a_header_names_the_schema_too(tmp_path: Path) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    (tmp_path / f"{guid}.avsc").write_text(json.dumps(LAST_FIRST))
    turing = {"first": "Alan", "last": "Turing"}
    value = b"\1" + bytes.fromhex(guid.replace("-", ""))
    headers = pa.array([[{"key": "__value_schema_id", "value": value}], None])
    bare = written(LAST_FIRST, turing, None)
    rows, faults = decoded(decoding(tmp_path, FIRST_LAST), bare, bare, headers=headers)
    assert rows == [turing, None]
    assert "no header names its schema" in faults[1]


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        (None, b"\0\0\0\0\x09x", "written with schema 9: .* has no schema id 9"),
        (None, b"\1\0\0\0\1x", "does not begin with the prefix"),
        (record(field("first")), {"first": "Alan"}, "it has no value.last"),
        (
            record(field("first"), field("last", "long")),
            {"first": "Alan", "last": 3},
            "its schema does not match the table's",
        ),
    ],
)
def test_a_value_that_cannot_be_shown_has_a_fault_that_says_why(
    tmp_path: Path, schema: Any, value: Any, fault: str
) -> None:
    register(tmp_path, id1=schema or FIRST_LAST)
    data = value if schema is None else written(schema, value)
    rows, faults = decoded(decoding(tmp_path, FIRST_LAST), data)
    assert rows == [None]
    with pytest.raises(UserError, match=fault):
        raise UserError(faults[0])


def test_what_a_given_schema_lacks_is_left_out_and_what_the_subjects_lacks_is_a_fault(
    tmp_path: Path,
) -> None:
    more = record(field("first"), field("last"), field("born", "int"))
    register(tmp_path, id1=more)
    value = written(more, {"first": "Alan", "last": "Turing", "born": 1912})
    assert decoded(decoding(tmp_path, FIRST_LAST), value)[0] == [
        {"first": "Alan", "last": "Turing"}
    ]
    rows, faults = decoded(decoding(tmp_path, FIRST_LAST, "t-value"), value)
    assert rows == [None]
    assert "its value.born is not in the table yet: load again" in faults[0]


def test_a_registry_that_cannot_be_asked_stops_the_load_and_blames_no_record(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match="is not a directory of schemas"):
        decoded(decoding(tmp_path / "gone", FIRST_LAST), b"\0\0\0\0\1")


def test_a_table_grows_with_its_subject_and_older_values_have_null(tmp_path: Path) -> None:
    old = record(field("id", "int"))
    new = record(field("id", "long"), field("name", STRING))
    register(tmp_path, id1=old, **{"t-value_1": old})
    asked = LayoutOptions(decoding=decoding(tmp_path))
    layout = first_layout(with_registered_schema(asked, RAW, "t"))
    assert type_text(layout.decoded_types["value"]) == "struct<id: int>"
    register(tmp_path, id2=new, **{"t-value_2": new})
    layout = parse_layout(json.loads(json.dumps(layout_fields(layout))))
    layout = next_layout(layout, with_registered_schema(LayoutOptions(), layout, "t"), 1)
    assert type_text(layout.decoded_types["value"]) == "struct<id: bigint, name: string>"
    assert layout.decoding is not None
    rows, faults = decoded(
        layout.decoding, written(old, {"id": 1}), written(new, {"id": 2, "name": "b"}, 2)
    )
    assert (rows, faults) == ([{"id": 1, "name": None}, {"id": 2, "name": "b"}], {})
    again = next_layout(layout, with_registered_schema(LayoutOptions(), layout, "t"), 2)
    assert again == layout


def test_a_renamed_field_is_refused_where_the_new_name_begins(tmp_path: Path) -> None:
    renamed = record(field("first"), field("surname"))
    register(tmp_path, id1=FIRST_LAST, id2=renamed)
    register(tmp_path, **{"t-value_1": FIRST_LAST, "t-value_2": renamed})
    asked = with_registered_schema(LayoutOptions(decoding=decoding(tmp_path)), RAW, "t")
    assert asked.decoding is not None
    rows, faults = decoded(
        asked.decoding,
        written(FIRST_LAST, {"first": "Alan", "last": "Turing"}),
        written(renamed, {"first": "Alan", "surname": "Turing"}, 2),
    )
    assert rows[0] == {"first": "Alan", "last": "Turing", "surname": None}
    assert "schema 2: it has no value.last" in faults[1]


def test_a_field_renamed_with_an_alias_stays_in_its_column(tmp_path: Path) -> None:
    renamed = record(field("first"), field("surname", aliases=["last"]))
    later = record(field("first"), field("surname"), field("born", MAYBE_INT))
    register(tmp_path, id1=FIRST_LAST, id2=renamed, id3=later)
    register(tmp_path, **{"t-value_1": FIRST_LAST, "t-value_2": renamed, "t-value_3": later})
    asked = with_registered_schema(LayoutOptions(decoding=decoding(tmp_path)), RAW, "t")
    assert asked.decoding is not None
    rows, faults = decoded(
        asked.decoding,
        written(FIRST_LAST, {"first": "Alan", "last": "Turing"}),
        written(renamed, {"first": "Alan", "surname": "Turing"}, 2),
        written(later, {"first": "Alan", "surname": "Turing", "born": None}, 3),
    )
    assert (rows, faults) == ([{"first": "Alan", "last": "Turing", "born": None}] * 3, {})


def test_a_record_of_another_name_is_refused_with_what_to_do_unless_it_is_an_alias(
    tmp_path: Path,
) -> None:
    person, human = record(field("a")), record(field("a"), name="Human", aliases=["Person"])
    register(tmp_path, id1=person)
    value = written(person, {"a": "x"})
    assert decoded(decoding(tmp_path, human), value) == ([{"a": "x"}], {})
    rows, faults = decoded(decoding(tmp_path, record(field("a"), name="Robot")), value)
    assert rows == [None]
    assert "give that record the alias Person in a schema of your own (--schema)" in faults[0]


def test_a_schema_that_is_given_or_raw_asks_no_registry(tmp_path: Path) -> None:
    nowhere = tmp_path / "gone"
    for asked in (
        LayoutOptions(decoding=decoding(nowhere, FIRST_LAST)),
        LayoutOptions(is_raw=True),
    ):
        assert with_registered_schema(asked, TableLayout(), "t") == asked


@pytest.mark.parametrize(
    ("before", "now", "columns"),
    [
        (record(field("a")), record(field("a"), field("b")), "a string, b string"),
        (record(field("a"), field("b", default="x")), record(field("a")), "a string, b string"),
        (record(field("a", "int")), record(field("a", "double")), "a double"),
        (record(field("a", MAYBE_INT)), record(field("a", "long")), "a bigint"),
        (
            record(field("a", {"type": "array", "items": record(field("x"), name="In")})),
            record(field("a", {"type": "array", "items": record(field("y"), name="In")})),
            "a array<struct<x: string, y: string>>",
        ),
        (
            record(field("a", {"type": "enum", "name": "E", "symbols": ["X"]})),
            record(field("a", {"type": "enum", "name": "E", "symbols": ["Y"]})),
            "a string",
        ),
        (
            record(field("a", {"type": "map", "values": "int"})),
            record(field("a", {"type": "map", "values": "long"})),
            "a map<string, bigint>",
        ),
    ],
)
def test_versions_that_go_together_are_one_schema(before: Any, now: Any, columns: str) -> None:
    both = json.dumps(grown_of(before, now))
    decoder = open_decoder(Decoding(format=ValueFormat.AVRO, schema=both))
    assert schema_text(decoder.type) == columns


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (record(field("a", "long")), record(field("a", "int"))),
        (record(field("a")), record(field("a", "int"))),
        (
            record(field("a", {"type": "long", "logicalType": "timestamp-millis"})),
            record(field("a", {"type": "long", "logicalType": "timestamp-micros"})),
        ),
        (record(field("a")), record(field("a", ["int", STRING]))),
        (record(field("a")), record(field("b"), name="Another")),
    ],
)
def test_a_version_that_does_not_go_with_those_before_changes_nothing(
    before: Any, now: Any
) -> None:
    assert grown_of(before, now) == grown_of(before)


def test_values_of_such_a_version_are_refused_and_those_before_and_after_it_not(
    tmp_path: Path,
) -> None:
    old, wrong = record(field("a")), record(field("a", "int"))
    after = record(field("a"), field("b", "int"))
    register(tmp_path, id1=old, id2=wrong, id3=after)
    register(
        tmp_path, **{f"t-value_{one}": schema for one, schema in enumerate((old, wrong, after))}
    )
    asked = with_registered_schema(LayoutOptions(decoding=decoding(tmp_path)), RAW, "t")
    assert asked.decoding is not None
    rows, faults = decoded(
        asked.decoding,
        written(old, {"a": "x"}),
        written(wrong, {"a": 1}, 2),
        written(after, {"a": "y", "b": 2}, 3),
    )
    assert rows == [{"a": "x", "b": None}, None, {"a": "y", "b": 2}]
    assert "schema 2: its schema does not match the table's" in faults[1]


def test_a_type_with_a_name_is_said_once_with_what_all_its_places_had() -> None:
    def people(*fields: dict[str, Any]) -> dict[str, Any]:
        inner = record(*fields, name="Place")
        return record(field("home", inner), field("work", "org.Place"), namespace="org")

    both = grown_of(people(field("x")), people(field("x"), field("y", MAYBE_INT)))
    home, work = both["fields"]
    assert work["type"] == "org.Place"
    assert [one["name"] for one in home["type"]["fields"]] == ["x", "y"]
    assert home["type"]["fields"][1]["default"] is None
