"""Confluent's clients of a schema registry with the one of `ottla serve --schema-registry`."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ottla.cli.serve.schema_registry import ServedRegistry
from ottla.config.listeners import client_listeners
from ottla.schema_registry.opening import open_registry
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.values.opening import open_decoder
from ottla.tables.values.registered import with_schema_of_subject
from tests.support.protobuf import message, proto
from tests.support.serving import open_broker, serving

pytest.importorskip("avro")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("authlib", reason="confluent-kafka[schemaregistry] is not installed")
with warnings.catch_warnings():
    # authlib warns of httpx, which it takes itself.
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import (
        Schema,
        SchemaRegistryClient,
        header_schema_id_serializer,
    )
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from confluent_kafka.serialization import MessageField, SerializationContext

pytestmark = pytest.mark.slow

TURING = {"first": "Alan", "last": "Turing"}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    broker = open_broker(tmp_path)
    with serving(broker) as server:
        listeners = client_listeners(broker.settings.config)
        registry = ServedRegistry("127.0.0.1:0", listeners, server.addresses)
        yield f"http://127.0.0.1:{registry.port}"
        registry.close()


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as found:
        yield found


def person(*names: str, **more: Any) -> str:
    fields: list[dict[str, Any]] = [{"name": one, "type": "string"} for one in names]
    fields += [{"name": one, "type": "int", "default": value} for one, value in more.items()]
    return json.dumps({"type": "record", "name": "Person", "fields": fields})


def context() -> Any:
    return SerializationContext("people", MessageField.VALUE, headers=[])


def test_a_client_registers_finds_compares_and_deletes(client: SchemaRegistryClient) -> None:
    old, new = Schema(person("first"), "AVRO"), Schema(person("first", "last"), "AVRO")
    assert client.register_schema("people-value", old) == 1
    assert client.get_subjects() == ["people-value"]
    assert not client.test_compatibility("people-value", new)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("people-value", new)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    client.set_compatibility("people-value", "NONE")
    assert client.get_compatibility("people-value") == "NONE"
    assert client.register_schema("people-value", new) == 2
    latest = client.get_latest_version("people-value")
    assert (latest.version, latest.schema_id) == (2, 2)
    assert client.lookup_schema("people-value", old).version == 1
    assert client.delete_version("people-value", 1) == 1
    assert client.delete_subject("people-value") == [2]
    assert client.get_subjects() == []


def test_values_that_a_client_wrote_are_read_by_theirs_and_ours(
    url: str, client: SchemaRegistryClient
) -> None:
    """In fields of another order for each version, and with the schema's GUID in a header."""
    schemas = [person("first", "last"), person("last", "first", born=0)]
    by_header = {"schema.id.serializer": header_schema_id_serializer}
    written, headers = [], []
    for schema in schemas:
        for options in ({}, by_header):
            where = context()
            written.append(AvroSerializer(client, schema, conf=options)(TURING, where))
            headers.append([{"key": key, "value": value} for key, value in where.headers])
    theirs = AvroDeserializer(client)
    assert theirs(written[0], context()) == TURING
    registry = open_registry(url)
    ours = with_schema_of_subject(
        Decoding(format=ValueFormat.AVRO, schema="", registry=url, subject="people-value"),
        registry,
    )
    kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    found = open_decoder(ours).decode(pa.array(written, pa.binary()), pa.array(headers, kind))
    assert found.faults == {}
    born = {"born": 0}
    assert found.rows.to_pylist() == [{**TURING, **born}] * 4


def decoded_by_ours(asked: Decoding, written: list[bytes], headers: list[Any]) -> list[Any]:
    ours = with_schema_of_subject(asked, open_registry(asked.registry))
    kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    found = open_decoder(ours).decode(pa.array(written, pa.binary()), pa.array(headers, kind))
    assert found.faults == {}
    rows: list[Any] = found.rows.to_pylist()
    return rows


def by_both(serializer: Any, options: dict[str, Any], value: Any) -> tuple[list[bytes], list[Any]]:
    """What a client writes with the schema's id before a value, and with its GUID in a header."""
    written, headers = [], []
    for more in ({}, {"schema.id.serializer": header_schema_id_serializer}):
        where = context()
        written.append(serializer({**options, **more})(value, where))
        headers.append([{"key": key, "value": one} for key, one in where.headers])
    return written, headers


def test_protobuf_that_a_client_wrote_is_read_by_the_message_that_it_names(
    url: str, client: SchemaRegistryClient
) -> None:
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")
    text = proto(
        "message Other {} message Person { string first = 1; Place home = 2; "
        "google.protobuf.Timestamp born = 3; message Place { string town = 1; } }",
        'import "google/protobuf/timestamp.proto";',
    )
    person = message(text, "Person")(first="Alan", home={"town": "London"})
    written, headers = by_both(
        lambda options: protobuf.ProtobufSerializer(type(person), client, options), {}, person
    )
    asked = Decoding(
        format=ValueFormat.PROTOBUF,
        schema="",
        registry=url,
        subject="people-value",
        message="Person",
    )
    row = {"first": "Alan", "home": {"town": "London"}, "born": None}
    assert decoded_by_ours(asked, written, headers) == [row, row]


def test_json_that_a_client_wrote_is_read_by_its_schema(
    url: str, client: SchemaRegistryClient
) -> None:
    json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
    schema = json.dumps(
        {
            "title": "Person",
            "type": "object",
            "properties": {"first": {"type": "string"}, "born": {"type": "integer"}},
        }
    )
    person = {"first": "Alan", "born": 1912, "more": [1]}
    written, headers = by_both(
        lambda options: json_schema.JSONSerializer(schema, client, conf=options), {}, person
    )
    asked = Decoding(
        format=ValueFormat.JSON,
        schema="",
        registry=url,
        subject="people-value",
        is_rescuing=True,
    )
    row = {"first": "Alan", "born": 1912, "_rescued": '{"more":[1]}'}
    assert decoded_by_ours(asked, written, headers) == [row, row]


def test_schemas_are_there_after_a_restart(tmp_path: Path) -> None:
    for expected in (b"[]", b'["people-value"]'):
        broker = open_broker(tmp_path)
        with serving(broker) as server:
            listeners = client_listeners(broker.settings.config)
            registry = ServedRegistry("127.0.0.1:0", listeners, server.addresses)
            url = f"http://127.0.0.1:{registry.port}"
            with urlopen(f"{url}/subjects") as answer:
                assert answer.read() == expected
            with SchemaRegistryClient({"url": url}) as client:
                client.register_schema("people-value", Schema(person("first"), "AVRO"))
            registry.close()
