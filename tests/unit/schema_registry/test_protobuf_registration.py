"""Protobuf schemas are examined when they are registered: protoc compiles them."""

import base64
import json
import sys
from typing import Any

import pytest

pytest.importorskip("avro")
pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.base.extras import install_command
from ottla.schema_registry.served import examining
from ottla.schema_registry.served.api import Api
from tests.support.protobuf import proto
from tests.unit.schema_registry.test_served_api import Asking, ListedLog

pytestmark = pytest.mark.slow  # protoc is a process

INNER = proto("message In { int32 x = 1; }")
REFERENCE = {"name": "inner.proto", "subject": "inner", "version": 1}


def registered(asking: Asking, text: str, subject: str = "t", **more: Any) -> Any:
    path = f"/subjects/{subject}/versions"
    found = asking("POST", path, schema=text, schemaType="PROTOBUF", **more)
    return found["id"] if isinstance(found, dict) else found


def file_of(*numbers: int, imports: tuple[str, ...] = ()) -> str:
    """A file descriptor as Confluent's Python client sends it, with fields of these numbers."""
    file = FileDescriptorProto(name="m.proto", syntax="proto3", dependency=imports)
    fields = file.message_type.add(name="M").field
    for number in numbers:
        fields.add(name=f"f{len(fields)}", number=number, type="TYPE_INT32", label="LABEL_OPTIONAL")
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message M {\n  optional int32 = 1; }", "2:18"),
        (proto("message M { Gone g = 1; }"), '"Gone" is not defined'),
        (proto("message M { int32 a = 1; int32 b = 1; }"), "Field number 1 has already been used"),
        (proto("message M { int32 a = 1; int32 a = 2; }"), "already defined"),
        (proto("message M { int32 a = 19000; }"), "reserved"),
        (proto("message M { In i = 1; }", 'import "inner.proto";'), "inner.proto"),
        (proto("", 'import "/etc/passwd";'), "passwd"),
        (file_of(1, 1), "descriptor set"),
        (file_of(1, imports=("gone.proto",)), "imports gone.proto"),
        (proto("/*" + "x" * examining.SMALL + "*/ message M { Gone g = 1; }"), "is not defined"),
    ],
)
def test_an_invalid_protobuf_schema_is_refused_with_the_reason(text: str, reason: str) -> None:
    api = Api(ListedLog())
    status, answer = api.answer("POST", "/subjects/t/versions", body_of(text))
    assert (status, answer["error_code"]) == (422, 42201)
    assert reason in answer["message"]
    assert "/tmp" not in answer["message"]
    assert api.answer("GET", "/subjects", b"") == (200, [])


def body_of(text: str) -> bytes:
    return json.dumps({"schema": text, "schemaType": "PROTOBUF"}).encode()


def test_imports_are_references_well_known_types_or_confluents() -> None:
    asking = Asking()
    imports = (
        'import "inner.proto"; import "google/protobuf/timestamp.proto";'
        'import "confluent/type/decimal.proto"; import "google/type/date.proto";'
    )
    body = """message Out {
      In in = 1; google.protobuf.Timestamp at = 2; confluent.type.Decimal d = 3;
      google.type.Date day = 4;
    }"""
    assert registered(asking, INNER, "inner") == 1
    assert registered(asking, proto(body, imports)) == 42201
    assert registered(asking, proto(body, imports), references=[REFERENCE]) == 2
    outer = {"name": "out.proto", "subject": "t", "version": 1}
    text = proto("message Top { Out o = 1; }", 'import "out.proto";')
    assert registered(asking, text, "top", references=[outer]) == 3
    wrong = [{**REFERENCE, "name": "../inner.proto"}]
    assert registered(asking, text, "top", references=wrong) == 42201
    assert registered(asking, file_of(1, imports=("inner.proto",)), references=[REFERENCE]) == 4


def test_a_protobuf_schema_is_the_same_in_another_spelling() -> None:
    asking = Asking()
    assert registered(asking, 'syntax = "proto3"; message M { string a = 1; }') == 1
    other = 'syntax="proto3";\n// a remark\nmessage M {\n  /* one */ string a=1;}'
    assert registered(asking, other) == registered(asking, other, "u") == 1
    assert asking("GET", "/subjects/t/versions") == [1]


def test_without_protoc_a_protobuf_schema_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ottla.schema_registry import protobuf_schemas

    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    protobuf_schemas._well_known.cache_clear()
    text = proto("message NeverCompiled { int32 x = 1; }")
    status, answer = Api(ListedLog()).answer("POST", "/subjects/t/versions", body_of(text))
    assert (status, answer["error_code"]) == (422, 42201)
    assert install_command("protobuf") in answer["message"]
