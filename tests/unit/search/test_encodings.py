"""Values that name their schema in a registry, as `consume` and `records` print them."""

import json
from io import BytesIO
from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.cli.records.json_lines import record_object
from ottla.cli.records.templates import Style, parse_template
from ottla.record.record import Record
from ottla.schema_registry.directory import DirectoryRegistry
from ottla.schema_registry.framing import PREFIX
from ottla.search.encodings import encoding_of, field_reader
from ottla.search.fields import Entry, parse_field
from tests.support.protobuf import message, proto, registered

fastavro = pytest.importorskip("fastavro")


def written(directory: Path, schema_id: int, *names: str) -> bytes:
    fields = [{"name": name, "type": "string"} for name in names]
    schema = {"type": "record", "name": "Person", "fields": fields}
    (directory / f"{schema_id}.avsc").write_text(json.dumps(schema))
    stream = BytesIO()
    stream.write(PREFIX.pack(0, schema_id))
    person = {"first": "Alan", "last": "Turing"}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), person)
    return stream.getvalue()


def test_a_value_is_shown_by_the_schema_that_wrote_it(tmp_path: Path) -> None:
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path)))
    assert encoding.show(written(tmp_path, 1, "first", "last")) == (
        b'{"first":"Alan","last":"Turing"}'
    )
    assert encoding.show(written(tmp_path, 2, "last", "first")) == (
        b'{"last":"Turing","first":"Alan"}'
    )


def test_a_value_that_names_no_schema_is_none_of_it(tmp_path: Path) -> None:
    registry = DirectoryRegistry(str(tmp_path))
    encoding = encoding_of("value", "avro", None, registry)
    for data, fault in (
        (b"text", "does not begin with a schema registry's 0"),
        (PREFIX.pack(0, 9), "no schema id 9"),
    ):
        with pytest.raises(ValueError, match=fault):
            encoding.decode(data)
        assert encoding.json_field("value", data)[0] == "value_base64"


GUID = "89791762-2336-4186-9674-299b90a802e2"


def entry(key: bytes | None, value: bytes, *headers: tuple[str, bytes]) -> Entry:
    return Entry("t", 0, Record(offset=0, key=key, value=value, headers=headers))


def test_a_guid_in_a_header_names_the_schema_for_all_that_looks_at_a_record(tmp_path: Path) -> None:
    bare = written(tmp_path, 1, "first", "last")[PREFIX.size :]
    (tmp_path / f"{GUID}.avsc").write_text((tmp_path / "1.avsc").read_text())
    guid = b"\1" + bytes.fromhex(GUID.replace("-", ""))
    registry = DirectoryRegistry(str(tmp_path))
    sides = [encoding_of(side, "registry", None, registry) for side in ("key", "value")]
    found = entry(bare, bare, ("__key_schema_id", guid), ("__value_schema_id", guid))
    person = {"first": "Alan", "last": "Turing"}
    shown = record_object(found, *sides)
    assert (shown["key"], shown["value"]) == (person, person)
    reader = field_reader(*sides)
    assert reader.get(found, parse_field("key.last")[0]) == "Turing"
    assert reader.get(found, parse_field(".first")[0]) == "Alan"
    style = Style(key=sides[0], value=sides[1])
    assert parse_template("{key} {value}", style)(found) == (
        b'{"first":"Alan","last":"Turing"} {"first":"Alan","last":"Turing"}\n'
    )
    assert reader.get(entry(bare, bare), parse_field("key.last")[0]) is None


def test_json_is_shown_by_the_framing_of_registries_too(tmp_path: Path) -> None:
    (tmp_path / "4.json").write_text("{}")
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path)))
    assert encoding.show(PREFIX.pack(0, 4) + b'{"a": 1}') == b'{"a":1}'


@pytest.mark.slow  # protoc is a process.
def test_a_protobuf_value_is_shown_as_the_message_that_it_says_it_is(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")
    text = proto(
        "message Other {} message Order { int64 id = 1; repeated Line lines = 2; Color color = 3; "
        "map<int32, string> names = 4; optional string note = 5; google.protobuf.Timestamp at = 6; "
        "message Line { bytes raw = 1; } enum Color { RED = 0; } }",
        'import "google/protobuf/timestamp.proto";',
    )
    (tmp_path / "5.proto").write_text(text)
    order = message(text, "Order")(id=2**40, lines=[{"raw": b"x"}], names={2: "b", 1: "a"})
    order.at.seconds = 1
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path)))
    data = registered(order, 5, b"\2\2")
    assert json.loads(encoding.show(data)) == {
        "id": 2**40,
        "lines": [{"raw": "eA=="}],
        "color": "RED",
        "names": {"1": "a", "2": "b"},
        "at": "1970-01-01T00:00:01Z",
    }
    for broken, fault in (
        (registered(order, 5, b"\2\4"), r"no message \[2\]"),
        (PREFIX.pack(0, 5), "which message"),
        (data[:-1], "not a Protobuf message shop.Order"),
    ):
        with pytest.raises(ValueError, match=fault):
            encoding.decode(broken)


@pytest.mark.slow  # protoc is a process.
def test_a_proto_file_reads_and_writes_values_without_a_registry(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")
    text = proto("message Other {} message Order { int64 id = 1; Order next = 2; }")
    file = tmp_path / "orders.proto"
    file.write_text(text)
    encoding = encoding_of("value", None, str(file), message="Order")
    data = encoding.parse(b'{"id": "7", "next": {"id": 8}}')
    assert encoding.decode(data) == {"id": 7, "next": {"id": 8}}
    assert json.loads(encoding.show(data)) == {"id": 7, "next": {"id": 8}}
    for wrong in (b'{"price": 1}', b"{", b"[]", b'{"id": "seven"}', b"\xff"):
        with pytest.raises(ValueError, match=r"not a Protobuf message shop\.Order"):
            encoding.parse(wrong)
    with pytest.raises(UserError, match=r"orders.proto: .*name one of Other, Order"):
        encoding_of("value", "protobuf", str(file))
    with pytest.raises(UserError, match="a message is a type of a Protobuf schema"):
        encoding_of("value", "text", None, message="Order")
    with pytest.raises(UserError, match=r"a protobuf key needs its schema: --key-schema"):
        encoding_of("key", "protobuf", None)


@pytest.mark.slow  # protoc is a process.
def test_a_message_without_json_is_a_value_that_does_not_decode(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")
    imports = "".join(f'import "google/protobuf/{one}.proto";' for one in ("timestamp", "any"))
    fields = "google.protobuf.Timestamp at = 1; google.protobuf.Any what = 2;"
    text = proto(f"message Order {{ {fields} }}", imports)
    (tmp_path / "5.proto").write_text(text)
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path)))
    endless = message(text)()
    endless.at.seconds = 2**62
    unknown = message(text)()
    unknown.what.type_url = "type.googleapis.com/shop.Nothing"
    for one in (endless, unknown):
        with pytest.raises(ValueError):
            encoding.decode(registered(one, 5))
        assert encoding.json_field("value", registered(one, 5))[0] == "value_base64"


def test_what_names_its_schema_by_id_needs_a_registry() -> None:
    with pytest.raises(UserError, match="needs --registry"):
        encoding_of("key", "registry", None)


def test_a_registry_that_is_not_there_ends_the_command(tmp_path: Path) -> None:
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path / "gone")))
    with pytest.raises(UserError, match="is not a directory of schemas"):
        encoding.show(PREFIX.pack(0, 1))


def test_keys_stay_text_unless_they_are_asked_for(tmp_path: Path) -> None:
    registry = DirectoryRegistry(str(tmp_path))
    assert encoding_of("key", None, None, registry).name == "text"
    assert encoding_of("key", "avro", None, registry).decode(written(tmp_path, 1, "first"))
    with pytest.raises(UserError, match="--registry URL"):
        encoding_of("key", "avro", None)


def test_a_type_of_many_nulls_is_not_expanded(tmp_path: Path) -> None:
    """Two records of two records of nulls, forty levels deep: 2^40 fields in no bytes."""
    schema: object = "null"
    for level in range(40):
        again = f"R{level - 1}" if level else "null"
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": again}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    (tmp_path / "1.avsc").write_text(json.dumps(schema))
    listed = {"type": "array", "items": schema}
    (tmp_path / "2.avsc").write_text(json.dumps(listed))
    few = [{"name": f"n{number}", "type": "null"} for number in range(20)]
    (tmp_path / "3.avsc").write_text(json.dumps({"type": "record", "name": "Few", "fields": few}))
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path)))
    for data in (PREFIX.pack(0, 1), PREFIX.pack(0, 2) + b"\x02\x00"):
        with pytest.raises(ValueError, match="items without bytes"):
            encoding.decode(data)
    assert encoding.decode(PREFIX.pack(0, 3)) == {one["name"]: None for one in few}
