"""Values that name their schema in a registry, as `consume` and `records` print them."""

import json
from io import BytesIO
from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.cli.records.encodings import encoding_of
from ottla.schema_registry.directory import DirectoryRegistry
from ottla.schema_registry.framing import PREFIX

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
    (tmp_path / "3.proto").write_text("message M {}")
    for data, fault in (
        (b"text", "does not begin with a schema registry's 0"),
        (PREFIX.pack(0, 9), "no schema id 9"),
        (PREFIX.pack(0, 3), "its schema 3 is PROTOBUF"),
    ):
        with pytest.raises(ValueError, match=fault):
            encoding.decode(data)
        assert encoding.json_field("value", data)[0] == "value_base64"


def test_a_registry_that_is_not_there_ends_the_command(tmp_path: Path) -> None:
    encoding = encoding_of("value", None, None, DirectoryRegistry(str(tmp_path / "gone")))
    with pytest.raises(UserError, match="is no directory of schemas"):
        encoding.show(PREFIX.pack(0, 1))


def test_keys_stay_text_unless_they_are_asked_for(tmp_path: Path) -> None:
    registry = DirectoryRegistry(str(tmp_path))
    assert encoding_of("key", None, None, registry).name == "text"
    assert encoding_of("key", "avro", None, registry).decode(written(tmp_path, 1, "first"))
    with pytest.raises(UserError, match="--registry URL"):
        encoding_of("key", "avro", None)
