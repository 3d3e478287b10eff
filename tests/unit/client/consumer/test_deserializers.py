"""Values by their Avro schemas, alone and as schema registries frame them."""

import json
from pathlib import Path
from typing import Any

import pytest

import ottla
from tests.support.registry_answers import registry_answering

pytest.importorskip("fastavro")

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "tea", "type": "int"}, {"name": "table", "type": ["null", "string"]}],
}
VALUE = {"tea": 2, "table": "by the window"}


def test_what_was_written_by_a_schema_is_read_by_it() -> None:
    data = ottla.AvroSerializer(ORDER)(VALUE)
    assert ottla.AvroDeserializer(ORDER)(data) == VALUE


def test_the_framing_of_registries_is_written_and_read() -> None:
    data = ottla.AvroSerializer(ORDER, schema_id=7)(VALUE)
    assert data[:5] == b"\x00\x00\x00\x00\x07"
    assert ottla.AvroDeserializer(ORDER, schema_id=7)(data) == VALUE


SWAPPED: dict[str, Any] = {**ORDER, "fields": ORDER["fields"][::-1]}


def test_an_object_of_another_schema_id_is_refused_and_not_read_with_this_schema() -> None:
    """Fields in another order would be swapped in silence."""
    data = ottla.AvroSerializer(SWAPPED, schema_id=8)(VALUE)
    with pytest.raises(ValueError, match="written with schema id 8, not 7"):
        ottla.AvroDeserializer(ORDER, schema_id=7)(data)


def test_with_a_registry_each_object_is_read_by_the_schema_that_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "8.avsc").write_text(json.dumps(SWAPPED))
    written = [
        ottla.AvroSerializer(one, schema_id=number)(VALUE)
        for number, one in ((7, ORDER), (8, SWAPPED))
    ]
    for shown in (None, ORDER):
        deserialize = ottla.AvroDeserializer(shown, registry=str(tmp_path))
        assert [deserialize(one) for one in written] == [VALUE, VALUE]
    with pytest.raises(ottla.UserError, match="has no schema id 9"):
        deserialize(ottla.AvroSerializer(ORDER, schema_id=9)(VALUE))


def test_a_registrys_references_are_read_and_other_kinds_of_schemas_refused() -> None:
    inner = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}
    outer = {"type": "record", "name": "Pair", "fields": [{"name": "one", "type": "Place"}]}
    schemas = {
        "/schemas/ids/1": {
            "schema": json.dumps(outer),
            "references": [{"name": "Place", "subject": "place", "version": 1}],
        },
        "/subjects/place/versions/1": {"schema": json.dumps(inner)},
        "/schemas/ids/2": {"schema": "message X {}", "schemaType": "PROTOBUF"},
    }
    with registry_answering(schemas) as url:
        deserialize = ottla.AvroDeserializer(registry=url)
        assert deserialize(b"\0\0\0\0\1\x08") == {"one": {"x": 4}}
        with pytest.raises(ValueError, match="PROTOBUF and not Avro"):
            deserialize(b"\0\0\0\0\2\x08")


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({}, "name the schema"),
        ({"schema": ORDER, "schema_id": 7, "registry": "."}, "omit the other"),
        ({"schema": lambda _: ORDER, "schema_id": 7}, "omit schema_id"),
    ],
)
def test_what_does_not_say_which_schema_wrote_an_object_is_refused(
    given: dict[str, Any], fix: str
) -> None:
    with pytest.raises(ottla.UserError, match=fix):
        ottla.AvroDeserializer(**given)


def test_schemas_are_asked_for_by_their_ids_once() -> None:
    asked = []

    def find(schema_id: int) -> dict[str, Any]:
        asked.append(schema_id)
        return ORDER

    deserialize = ottla.AvroDeserializer(find)
    data = ottla.AvroSerializer(ORDER, schema_id=7)(VALUE)
    assert [deserialize(data), deserialize(data)] == [VALUE, VALUE]
    assert asked == [7]


def test_bytes_without_the_framing_are_refused_with_their_offset() -> None:
    with ottla.open(":memory:") as log:
        log.create_topic("orders")
        log.append("orders", b"tea")
        deserialize = ottla.AvroDeserializer(ORDER, schema_id=7)
        refused = pytest.raises(ottla.UserError, match="offset 0 is not readable: it does not beg")
        with ottla.SimpleConsumer(log, value_deserializer=deserialize) as consumer, refused:
            consumer.fetch("orders")


def a_field(kind: Any, *default: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": kind, **({"default": default[0]} if default else {})}],
    }


LETTERS = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\xff\0", b"\xff\0"),
        ({"type": "fixed", "name": "F", "size": 2}, "\xff\0", b"\xff\0"),
        (["bytes", "null"], "\xe9", b"\xe9"),
        ({"type": "map", "values": "bytes"}, {"k": "\xe9"}, {"k": b"\xe9"}),
        (a_field("bytes", "\xe9") | {"name": "In"}, {}, {"f": b"\xe9"}),
        ({"type": "string", "logicalType": "decimal", "precision": 4}, "x", "x"),
        (LETTERS, "B", "B"),
    ],
)
def test_a_field_that_an_object_lacks_is_written_with_the_schemas_default(
    kind: Any, default: Any, value: Any
) -> None:
    schema = a_field(kind, default)
    data = ottla.AvroSerializer(schema)({})
    assert data == ottla.AvroSerializer(json.dumps(schema))({"f": value})
    assert ottla.AvroDeserializer(schema)(data) == {"f": value}


def test_a_schema_that_fastavro_has_parsed_is_one_too() -> None:
    import fastavro

    schema = fastavro.parse_schema({**a_field("bytes", "\xff"), "namespace": "n"})
    assert ottla.AvroSerializer(schema)({}) == b"\2\xff"
    for wrong in ("{", '{"type": "record"}', '"Gone"'):
        with pytest.raises(ottla.UserError, match="Avro schema"):
            ottla.AvroSerializer(wrong)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (LETTERS, b"", b""),
        (["null", "string"], b"", b"\2a"),
        (["string", "null", "int"], b"", b""),
        ({"type": "array", "items": LETTERS}, b"\2", b"\0"),
        ({"type": "array", "items": LETTERS}, b"\1\2", b"\0"),
        ({"type": "map", "values": ["null", LETTERS]}, b"\2\2k\2", b"\0"),
        (["null", {**a_field(LETTERS), "name": "In"}], b"\2", b""),
        (["null", "R", LETTERS], b"\4", b""),
    ],
)
@pytest.mark.parametrize("index", [-1, -2, -3, 3, -(2**62)])
def test_an_index_that_no_type_and_no_symbol_has_is_refused(
    kind: Any, before: bytes, after: bytes, index: int
) -> None:
    number, data = (index << 1) ^ (index >> 63), b""
    while number > 0x7F:
        data, number = data + bytes([number & 0x7F | 0x80]), number >> 7
    value = before + data + bytes([number]) + after
    wider = {**a_field(kind), "fields": [*a_field(kind)["fields"], *a_field("int", 1)["fields"]]}
    wider["fields"][1]["name"] = "g"
    for shown in (None, wider, {**a_field("int", 1), "fields": []}):
        deserialize = ottla.AvroDeserializer(shown or a_field(kind), schema_id=7)
        if shown is not None:
            deserialize = deserializer_of(a_field(kind), shown)
        with pytest.raises(ValueError, match=r"index|claims"):
            deserialize(b"\0\0\0\0\7" + value)


def deserializer_of(written: Any, shown: Any) -> Any:
    """With a reader's schema of its own."""
    from ottla.client.consumer.deserializers import _schema_of
    from ottla.schema_registry.avro_reading import avro_reader
    from ottla.schema_registry.avro_schemas import parsed

    schema = _schema_of(written)
    reader = avro_reader(schema, parsed(schema, is_shown=False), parsed(_schema_of(shown)))
    return lambda data: reader.read(data[5:])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "recrd"}, "there is no type recrd"),
        ({"type": "record"}, "record lacks its name"),
        ({"type": "record", "name": "X"}, "a type lacks its fields"),
        ({"type": "record", "name": "X", "fields": [{"name": "a"}]}, "a type lacks its type"),
        ({"type": "enum", "name": "E"}, "a type lacks its symbols"),
        ({"type": "array"}, "array lacks its items"),
        ({"type": "map"}, "map lacks its values"),
        ({}, "{} is not an Avro type"),
        (5, "5 is not an Avro type"),
    ],
)
def test_what_is_no_schema_is_told_in_words(schema: Any, reason: str) -> None:
    for make in (ottla.AvroSerializer, ottla.AvroDeserializer):
        with pytest.raises(ottla.UserError) as caught:
            make(schema)
        assert str(caught.value) == f"this is not an Avro schema: {reason}"


def test_a_deserializers_error_is_told_in_words_where_its_own_text_has_none() -> None:
    errors = [KeyError("n"), ValueError(), ValueError("it has\n  two lines")]
    words = ["KeyError: 'n'; seek to 1", "ValueError; seek to 2", "it has two lines; seek to 3"]

    def refuse(data: bytes) -> int:
        raise errors[int(data)]

    with ottla.open(":memory:") as log:
        log.create_topic("t")
        for number in range(3):
            log.append("t", b"%d" % number)
        with ottla.Consumer(log, value_deserializer=refuse) as consumer:
            for offset, reason in enumerate(words):
                consumer.assign({("t", 0): offset})
                with pytest.raises(ottla.DeserializationError, match=reason):
                    consumer.poll(timeout=10)
