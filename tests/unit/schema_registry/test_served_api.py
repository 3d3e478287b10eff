"""A registry for development: Confluent's API over a log that is a list."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("avro")

from ottla.schema_registry.served import examining, subjects
from ottla.schema_registry.served.api import Api, answer_text
from ottla.schema_registry.served.records import (
    SchemaVersion,
    Setting,
    SubjectDeleted,
    VersionGone,
    read_change,
    write_change,
)
from ottla.schema_registry.served.spelling import meaning

Record = tuple[bytes | None, bytes | None]


class ListedLog:
    """Of any number of registries; each reads from its own place."""

    def __init__(self, records: list[Record] | None = None) -> None:
        self.records: list[Record] = [] if records is None else records
        self._read = 0

    def read_new(self) -> Sequence[Record]:
        new, self._read = self.records[self._read :], len(self.records)
        return new

    def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.records += records


class Asking:
    """One registry, asked as over HTTP."""

    def __init__(self, records: list[Record] | None = None) -> None:
        self.log = ListedLog(records)
        self._api = Api(self.log)

    def __call__(self, method: str, path: str, **body: Any) -> Any:
        """What it answers; its code, when it refuses."""
        data = json.dumps(body).encode() if body else b""
        status, answer = self._api.answer(method, path, data)
        if status != 200:
            assert status == int(str(answer["error_code"])[:3])
            return answer["error_code"]
        return json.loads(answer_text(answer))

    def register(self, subject: str, schema: Any, **more: Any) -> Any:
        found = self("POST", f"/subjects/{subject}/versions", schema=json.dumps(schema), **more)
        return found["id"] if isinstance(found, dict) else found


def record(*fields: str, name: str = "P", **defaults: Any) -> dict[str, Any]:
    listed = [{"name": one, "type": "string"} for one in fields]
    listed += [{"name": one, "type": "string", "default": value} for one, value in defaults.items()]
    return {"type": "record", "name": name, "fields": listed}


A, AB, A_OPTIONAL_B = record("a"), record("a", "b"), record("a", b="-")


def test_the_same_schema_has_one_id_in_all_subjects_and_one_version_in_each() -> None:
    asking = Asking()
    assert [asking.register(subject, A) for subject in ("t", "t", "u")] == [1, 1, 1]
    assert asking.register("t", A_OPTIONAL_B) == 2
    assert asking("GET", "/subjects") == ["t", "u"]
    assert asking("GET", "/subjects/t/versions") == [1, 2]
    assert asking("GET", "/schemas/ids/1/versions") == [
        {"subject": "t", "version": 1},
        {"subject": "u", "version": 1},
    ]
    assert asking("GET", "/schemas/ids/1/subjects") == ["t", "u"]


def test_a_schema_is_found_by_id_by_version_by_guid_and_by_itself() -> None:
    asking = Asking()
    asking.register("t", A)
    text = json.dumps(A, separators=(",", ":"))
    by_id = asking("GET", "/schemas/ids/1")
    assert by_id["schema"] == text
    assert asking("GET", "/schemas/ids/1/schema") == A
    assert asking("GET", f"/schemas/guids/{by_id['guid']}") == by_id
    for path in ("/subjects/t/versions/1", "/subjects/t/versions/latest"):
        version = asking("GET", path)
        assert version == {"subject": "t", "version": 1, "id": 1, **by_id}
        assert asking("GET", path + "/schema") == A
    assert asking("POST", "/subjects/t", schema=json.dumps(A)) == version


def test_a_registry_that_comes_later_knows_all_that_is_in_the_log() -> None:
    first = Asking()
    second = Asking(first.log.records)
    assert first.register("t", A) == 1
    assert second("GET", "/subjects/t/versions") == [1]
    assert second.register("u", AB) == 2
    assert first("GET", "/schemas/ids/2/subjects") == ["u"]


@pytest.mark.parametrize(
    ("level", "old", "new", "is_compatible"),
    [
        ("BACKWARD", A, AB, False),
        ("BACKWARD", AB, A, True),
        ("BACKWARD", A, A_OPTIONAL_B, True),
        ("FORWARD", A, AB, True),
        ("FORWARD", AB, A, False),
        ("FORWARD", A_OPTIONAL_B, A, True),
        ("FULL", A, A_OPTIONAL_B, True),
        ("FULL", A, AB, False),
        ("FULL", AB, A, False),
        ("NONE", A, record("x"), True),
    ],
)
def test_what_may_follow_is_as_the_subjects_level_has_it(
    level: str, old: Any, new: Any, is_compatible: bool
) -> None:
    asking = Asking()
    asking("PUT", "/config/t", compatibility=level)
    asking.register("t", old)
    for path in ("/versions/latest", "/versions/1", "/versions"):
        found = asking(
            "POST", f"/compatibility/subjects/t{path}?verbose=true", schema=json.dumps(new)
        )
        assert found["is_compatible"] is is_compatible
        assert bool(found["messages"]) is not is_compatible
    assert asking.register("t", new) == (2 if is_compatible else 409)


@pytest.mark.parametrize(("level", "answer"), [("BACKWARD", 3), ("BACKWARD_TRANSITIVE", 409)])
def test_a_transitive_level_looks_at_all_versions(level: str, answer: int) -> None:
    asking = Asking()
    asking("PUT", "/config", compatibility=level.lower())
    assert asking("GET", "/config/t?defaultToGlobal=true") == {"compatibilityLevel": level}
    asking.register("t", A)
    asking.register("t", record(b="x"))
    assert asking.register("t", record("b")) == answer


def test_what_was_deleted_is_listed_on_request_and_gone_for_good_on_another() -> None:
    asking = Asking()
    asking.register("t", A)
    asking.register("t", A_OPTIONAL_B)
    assert asking("DELETE", "/subjects/t/versions/1?permanent=true") == 40407
    assert asking("DELETE", "/subjects/t/versions/1") == 1
    assert asking("GET", "/subjects/t/versions") == [2]
    assert asking("GET", "/subjects/t/versions?deleted=true") == [1, 2]
    assert asking("GET", "/schemas/ids/1/schema") == A
    assert asking("DELETE", "/subjects/t?permanent=true") == 40405
    assert asking("DELETE", "/subjects/t") == [2]
    assert asking("GET", "/subjects") == []
    assert asking("GET", "/subjects?deleted=true") == ["t"]
    assert asking("DELETE", "/subjects/t?permanent=true") == [1, 2]
    assert asking("GET", "/subjects?deleted=true") == []
    assert asking.register("t", AB) == 3


def test_a_deleted_schema_that_is_registered_again_keeps_its_id_and_has_the_next_version() -> None:
    asking = Asking()
    asking.register("t", A)
    asking("DELETE", "/subjects/t")
    assert asking.register("t", A) == 1
    assert asking("GET", "/subjects/t/versions") == [2]


def test_a_schema_that_names_another_is_read_with_it_and_keeps_it_from_being_deleted() -> None:
    asking = Asking()
    asking.register("inner", record("x", name="org.In"))
    outer = {"type": "record", "name": "Out", "fields": [{"name": "in", "type": "org.In"}]}
    assert asking.register("outer", outer) == 42201
    reference = {"name": "org.In", "subject": "inner", "version": 1}
    assert asking.register("outer", outer, references=[reference]) == 2
    assert asking("GET", "/schemas/ids/2")["references"] == [reference]
    assert asking("GET", "/subjects/inner/versions/1/referencedby") == [2]
    assert asking("DELETE", "/subjects/inner") == 42206
    assert asking("DELETE", "/subjects/inner/versions/1") == 42206
    for wrong in ({"version": "1"}, {"version": True}, {"subject": 1}):
        assert asking.register("other", outer, references=[{**reference, **wrong}]) == 42201
    missing = {**reference, "version": 7}
    assert asking.register("other", outer, references=[missing]) == 42201


@pytest.mark.slow  # protoc is a process
def test_other_kinds_are_kept_as_they_are() -> None:
    asking = Asking()
    pytest.importorskip("grpc_tools")
    text = 'syntax = "proto3"; message M { int32 a = 1; }'
    body = {"schema": text, "schemaType": "PROTOBUF"}
    assert asking("POST", "/subjects/t/versions", **body)["id"] == 1
    found = asking("GET", "/schemas/ids/1")
    assert (found["schema"], found["schemaType"]) == (text, "PROTOBUF")
    assert asking.register("t", A) == 409
    assert asking("POST", "/subjects/j/versions", schema="{}", schemaType="JSON")["id"] == 2


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/subjects/none/versions", {}, 40401),
        ("GET", "/subjects/t/versions/9", {}, 40402),
        ("GET", "/subjects/t/versions/0", {}, 42202),
        ("GET", "/subjects/t/versions/one", {}, 42202),
        ("GET", "/schemas/ids/9", {}, 40403),
        ("GET", "/schemas/ids/x", {}, 40403),
        ("GET", "/schemas/guids/x", {}, 40403),
        ("POST", "/subjects/t", {"schema": '"int"'}, 40403),
        ("POST", "/subjects/t/versions", {"schema": "{"}, 42201),
        ("POST", "/subjects/t/versions", {"schema": ""}, 42201),
        ("POST", "/subjects/t/versions", {"schema": '{"type": "record"}'}, 42201),
        ("POST", "/subjects/t/versions", {"schema": '"int"', "schemaType": "XML"}, 42201),
        ("POST", "/subjects/t/versions", {"schema": "[" * 9999}, 42201),
        ("PUT", "/config", {"compatibility": "SOME"}, 42203),
        ("PUT", "/config", {"compatibility": 3}, 42203),
        ("GET", "/config/t", {}, 40408),
        ("DELETE", "/config/t", {}, 40401),
        ("GET", "/mode/t", {}, 40409),
        ("DELETE", "/mode/t", {}, 40401),
        ("PUT", "/mode", {"mode": "SOME"}, 42204),
        ("PUT", "/mode", {"mode": 3}, 42204),
        ("PUT", "/mode", {"mode": "IMPORT"}, 42205),
        ("PUT", "/mode/%00", {"mode": "READONLY"}, 42208),
        ("PUT", "/config/%7F", {"compatibility": "NONE"}, 42208),
        ("POST", "/subjects/a%0Ab/versions", {"schema": '"int"'}, 42208),
        ("POST", "/subjects/%20/versions", {"schema": '"int"'}, 42208),
        ("POST", "/subjects/%ff/versions", {"schema": '"int"'}, 400),
        ("GET", "/subjects/none/versions/latest", {}, 40401),
        ("DELETE", "/subjects/none", {}, 40401),
        ("DELETE", "/subjects/t/versions/9", {}, 40402),
        ("POST", "/compatibility/subjects/t/versions/9", {"schema": '"int"'}, 40402),
        ("POST", "/compatibility/subjects/none/versions/1", {"schema": '"int"'}, 40402),
        ("POST", "/compatibility/subjects/none/versions/latest", {"schema": "{"}, 42201),
        ("GET", "/schemas?offset=x", {}, 404),
        ("GET", "/schemas/ids/" + "9" * 5000, {}, 40403),
        ("GET", "/subjects/t/versions/" + "9" * 5000, {}, 42202),
        ("POST", "/subjects/t/versions", {"schema": '"int"', "id": "7"}, 400),
        ("POST", "/subjects/t/versions", {"schema": '"int"', "id": 2**31}, 400),
        ("POST", "/subjects/t/versions", {"schema": '"int"', "id": 7}, 42205),
        ("POST", "/subjects/u/versions", {"schema": '"int"', "version": 7}, 42201),
        ("POST", "/subjects/t/versions", {"schema": '"\\ud800"'}, 42201),
        ("POST", "/subjects/t/versions", {"schema": '"\ud800"'}, 400),
        ("POST", "/subjects/t/versions", {"schema": "NaN", "schemaType": "JSON"}, 42201),
        ("POST", "/subjects/t/versions", {"schema": "3", "schemaType": "JSON"}, 42201),
        ("POST", "/subjects/u/versions", {"schema": '"%s"' % ("x" * 400_000)}, 42209),
        ("POST", "/subjects/u/versions", {"schema": '"int"', "references": [{"name": "a"}]}, 42201),
        ("GET", "//subjects", {}, 404),
        ("GET", "/nothing", {}, 404),
        ("DELETE", "/schemas/types", {}, 405),
    ],
)
def test_what_cannot_be_has_the_apis_code(
    method: str, path: str, body: dict[str, Any], code: int
) -> None:
    asking = Asking()
    asking.register("t", A)
    before = list(asking.log.records)
    assert asking(method, path, **body) == code
    assert asking.log.records == before


def test_a_subject_that_is_read_only_takes_nothing() -> None:
    asking = Asking()
    asking.register("t", A)
    assert asking("PUT", "/mode/t", mode="READONLY") == {"mode": "READONLY"}
    assert asking.register("t", A_OPTIONAL_B) == 42205
    assert asking.register("t", A) == 1
    assert asking("DELETE", "/subjects/t") == 42205
    assert asking("DELETE", "/mode/t") == {"mode": "READONLY"}
    assert asking("GET", "/mode/t") == 40409
    assert asking("GET", "/mode/t?defaultToGlobal=true") == {"mode": "READWRITE"}
    assert asking("PUT", "/mode", mode="readonly_override") == {"mode": "readonly_override"}
    assert asking.register("t", A_OPTIONAL_B) == 42205
    assert asking("PUT", "/config/t", compatibility="NONE") == 42205
    assert asking("DELETE", "/mode") == {"mode": "READONLY_OVERRIDE"}
    assert asking.register("t", A_OPTIONAL_B) == 2


def test_a_subjects_own_level_can_be_taken_back() -> None:
    asking = Asking()
    asking("PUT", "/config/t", compatibility="FULL")
    assert asking("DELETE", "/config/t") == {"compatibilityLevel": "FULL"}
    assert asking("GET", "/config/t?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}


def test_a_subject_may_have_any_name() -> None:
    asking = Asking()
    name = "a/b c%?é"
    path = "a%2Fb%20c%25%3F%C3%A9"
    assert asking.register(path, A) == 1
    assert asking("GET", "/subjects") == [name]
    assert asking("GET", f"/subjects/{path}/versions") == [1]
    assert asking("GET", "/subjects?subjectPrefix=a%2F") == [name]


def test_what_was_deleted_is_not_deleted_again_but_for_good() -> None:
    asking = Asking()
    asking.register("t", A)
    asking.register("t", A_OPTIONAL_B)
    assert asking("DELETE", "/subjects/t/versions/1") == 1
    assert asking("DELETE", "/subjects/t/versions/1") == 40406
    assert asking("DELETE", "/subjects/t") == [2]
    assert asking("DELETE", "/subjects/t") == 40404
    assert asking("DELETE", "/subjects/t/versions/2") == 40406
    assert asking("GET", "/subjects?deletedOnly=true") == ["t"]
    assert asking("GET", "/subjects/t/versions?deletedOnly=true") == [1, 2]
    assert asking("DELETE", "/subjects/t/versions/2?permanent=true") == 2
    assert asking("GET", "/schemas/ids/2") == 40403
    assert asking("GET", "/schemas/ids/1/versions") == []
    assert asking("DELETE", "/subjects/t?permanent=true") == [1]
    assert asking("DELETE", "/subjects/t?permanent=true") == 40401


def test_a_subject_without_versions_takes_any_schema() -> None:
    """So that a check before the first registration passes, as at Confluent's."""
    asking = Asking()
    for path in ("/versions/latest", "/versions"):
        found = asking("POST", f"/compatibility/subjects/new{path}", schema=json.dumps(A))
        assert found == {"is_compatible": True}
    asking.register("new", A)
    asking("DELETE", "/subjects/new")
    found = asking("POST", "/compatibility/subjects/new/versions/latest", schema=json.dumps(AB))
    assert found == {"is_compatible": True}


def test_schemas_are_listed_by_prefix_and_page() -> None:
    asking = Asking()
    for subject, schema in (("a-1", A), ("a-1", A_OPTIONAL_B), ("a-2", A), ("b", A)):
        asking.register(subject, schema)
    asking("DELETE", "/subjects/a-2")

    def listed(query: str = "") -> list[tuple[str, int]]:
        return [(one["subject"], one["version"]) for one in asking("GET", f"/schemas{query}")]

    assert listed() == [("a-1", 1), ("a-1", 2), ("b", 1)]
    assert listed("?deleted=true&subjectPrefix=a") == [("a-1", 1), ("a-1", 2), ("a-2", 1)]
    assert listed("?latestOnly=true") == [("a-1", 2), ("b", 1)]
    assert listed("?offset=1&limit=1") == [("a-1", 2)]
    assert listed("?offset=-1&limit=0") == []
    assert asking("GET", "/schemas?subjectPrefix=b")[0] == asking("GET", "/subjects/b/versions/1")
    assert asking("GET", "/subjects?limit=1&offset=1") == ["b"]
    assert asking("GET", "/subjects/a-1/versions?offset=1") == [2]
    assert asking("GET", "/schemas/ids/1/subjects?subject=b") == ["b"]
    assert asking("GET", "/schemas/ids/1?fetchMaxId=true")["maxId"] == 2
    assert asking("GET", "/contexts") == ["."]


SPELLINGS = [
    ("AVRO", '{"type":"int"}', '"int"', '{"name":"x","type":"int","doc":"d","namespace":"y"}'),
    (
        "AVRO",
        '{"type":"record","name":"a.R","fields":[{"name":"f","type":"a.R","default":null}]}',
        '{"namespace":"a","fields":[{"type":"R","default":null,"name":"f"}],"name":"R",'
        '"type":"record"}',
        '{"type":"record","namespace":"ignored","name":"a.R","fields":[{"name":"f",'
        '"order":"ascending","default":null,"type":"R"}]}',
    ),
    (
        "AVRO",
        '{"type":"enum","name":"E","symbols":["A"],"aliases":["n.X","Y"],"default":"A"}',
        '{"default":"A","aliases":["Y","n.X"],"type":"enum","namespace":"","name":"E",'
        '"symbols":["A"]}',
    ),
    (
        "AVRO",
        '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}',
        '{"scale":2,"type":"bytes","precision":4,"logicalType":"decimal"}',
    ),
    ("JSON", '{"a":{"b":1,"c":[2]}}', ' {"a" : {"c":[2], "b" : 1}}'),
]


@pytest.mark.parametrize(
    ("kind", "first", "others"), [(one[0], one[1], one[2:]) for one in SPELLINGS]
)
def test_a_schema_is_the_same_in_another_spelling(
    kind: str, first: str, others: tuple[str, ...]
) -> None:
    asking = Asking()
    path = "/subjects/t/versions"
    registered = asking("POST", path, schema=first, schemaType=kind)
    for other in others:
        assert asking("POST", path, schema=other, schemaType=kind) == registered
        assert asking("POST", "/subjects/t", schema=other, schemaType=kind)["id"] == 1
        again = asking("POST", "/subjects/u/versions", schema=other, schemaType=kind)
        assert again == registered
    assert asking("GET", "/subjects/t/versions") == [1]
    later = Asking(asking.log.records)
    assert later("POST", "/subjects/t", schema=others[-1], schemaType=kind)["version"] == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record("a"), {**record("a"), "doc": "a remark"}),
        (record("a"), {**record("a"), "custom": 1}),
        (record("a"), {**record("a"), "namespace": "n"}),
        (record("a", "b"), record("b", "a")),
        (record(a="x"), record(a="y")),
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 3}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]},
         {"type": "enum", "name": "E", "symbols": ["B", "A"]}),
    ],
)  # fmt: skip
def test_a_schema_that_says_something_else_is_another(one: Any, other: Any) -> None:
    asking = Asking()
    asking("PUT", "/config", compatibility="NONE")
    assert [asking.register("t", one), asking.register("t", other)] == [1, 2]


@pytest.mark.parametrize(
    ("schema", "is_valid"),
    [
        ({"type": "record", "name": "R", "namespace": "my-team.orders", "fields": []}, True),
        ({"type": "record", "name": ".R", "namespace": "n", "fields": []}, True),
        ({"type": "array", "items": "int", "name": "a-b"}, True),
        ({"type": "string", "name": 5, "aliases": 7, "doc": 3, "symbols": 1}, True),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, True),
        ({"type": "record", "name": "a-b", "fields": []}, False),
        ({"type": "record", "name": "int", "fields": []}, False),
        ({"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}, False),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "n.Unknown"}]}, False),
        ({"type": "fixed", "name": "F", "size": True}, False),
        ({"type": "enum", "name": "E", "symbols": [1]}, False),
        ({"type": "enum", "name": "E"}, False),
        ({"type": "array"}, False),
        (["null", "null"], False),
        (["null", ["int"]], False),
    ],
)
def test_names_are_checked_where_avro_reads_them(schema: Any, is_valid: bool) -> None:
    assert Asking().register("t", schema) == (1 if is_valid else 42201)


def test_a_name_without_a_namespace_is_found_from_within_one() -> None:
    asking = Asking()
    asking.register("inner", record("x", name="In"))
    fields = [{"name": "in", "type": "In"}, {"name": "self", "type": ["null", "Out"]}]
    outer = {"type": "record", "name": "Out", "namespace": "n", "fields": fields}
    reference = {"name": "In", "subject": "inner", "version": 1}
    assert asking.register("outer", outer, references=[reference]) == 2
    other = {**outer, "fields": [*fields, {"name": "more", "type": "In"}]}
    path = "/compatibility/subjects/outer/versions/latest?verbose=true"
    found = asking("POST", path, schema=json.dumps(other), references=[reference])
    assert not found["is_compatible"]
    assert "_." not in str(found["messages"])


def test_an_id_that_a_client_gives_is_kept_or_refused() -> None:
    asking = Asking()
    assert asking.register("a", "int", id=100) == 42205
    assert asking("GET", "/subjects") == []
    assert asking("PUT", "/mode", mode="IMPORT") == {"mode": "IMPORT"}
    assert asking.register("a", "string") == 42205
    assert asking.register("b", "int", id=200, version=3) == 200
    assert asking.register("b", "int", id=200, version=3) == 200
    assert asking("GET", "/subjects/b/versions") == [3]
    assert asking.register("c", "long", id=200) == 42205
    assert asking.register("b", "long", id=201, version=3) == 42205
    assert asking.register("c", "int", id=200, version=2) == 200
    assert asking.register("c", "int", id=300) == 300, "as the other registry had it"
    assert asking.register("b", A, id=5) == 5, "in import, nothing is compared"
    assert asking("PUT", "/mode", mode="READWRITE") == {"mode": "READWRITE"}
    assert asking.register("d", "long") == 301
    assert asking.register("d", "long", id=301) == 301
    assert asking.register("d", "long", id=7) == 42205
    assert asking("PUT", "/mode/d", mode="IMPORT") == 42205
    assert asking("PUT", "/mode/e", mode="IMPORT") == {"mode": "IMPORT"}
    assert asking.register("e", "bytes", id=9) == 9
    assert asking("PUT", "/mode?force=true", mode="IMPORT") == {"mode": "IMPORT"}
    later = Asking(asking.log.records)
    assert later("GET", "/schemas/ids/200/versions") == [
        {"subject": "b", "version": 3},
        {"subject": "c", "version": 2},
    ]


def diamonds(depth: int) -> Iterator[tuple[str, Any, list[Any]]]:
    """Subjects and schemas, two on each level that name both of the level below: 2**depth ways."""
    for level in range(depth):
        below = [f"{side}{level - 1}" for side in "LR"] if level else []
        for side in "LR":
            fields = [{"name": one, "type": one} for one in below]
            schema = {"type": "record", "name": f"{side}{level}", "fields": fields}
            references = [{"name": one, "subject": one, "version": 1} for one in below]
            yield f"{side}{level}", schema, references


@pytest.mark.slow
def test_references_are_read_once_however_many_ways_lead_to_them() -> None:
    asking = Asking()
    for number, (subject, schema, references) in enumerate(diamonds(40), 1):
        assert asking.register(subject, schema, references=references) == number


def test_a_chain_of_references_has_a_limit() -> None:
    asking = Asking()
    text = "{}"
    asking("POST", "/subjects/s0/versions", schema=text, schemaType="JSON")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subjects, "MOST_REFERENCES", 30)
        for number in range(1, 32):
            reference = {"name": f"n{number}", "subject": f"s{number - 1}", "version": 1}
            found = asking("POST", f"/subjects/s{number}/versions", schema=text, schemaType="JSON",
                           references=[reference])  # fmt: skip
            assert isinstance(found, dict) is (number <= 30)
    assert found == 42209


@pytest.mark.parametrize("depth", [199, 205, 900, 100_000])
@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_a_deeply_nested_schema_is_refused(kind: str, depth: int) -> None:
    before, after = ('{"type":"array","items":', "}") if kind == "AVRO" else ('{"a":', "}")
    text = before * depth + '"int"' + after * depth
    asking = Asking()
    found = asking("POST", "/subjects/t/versions", schema=text, schemaType=kind)
    assert found == 42209 if depth == 100_000 else isinstance(found, dict) is (depth < 200)
    nested = b'{"schema":' + b"[" * depth + b"]" * depth + b"}"
    assert asking._api.answer("POST", "/subjects/t/versions", nested)[0] in (400, 422)


def union(prefix: str, count: int) -> list[Any]:
    return [record("a", name=f"{prefix}{number}") for number in range(count)]


@pytest.mark.slow
def test_what_is_examined_in_a_child_has_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[Any]:
        asking = Asking()
        asking.register("inner", record("x", name="In"))
        outer = {"type": "record", "name": "Out", "fields": [{"name": "in", "type": "In"}]}
        reference = {"name": "In", "subject": "inner", "version": 1}
        path = "/compatibility/subjects/t/versions/latest?verbose=true"
        return [
            asking.register("t", A),
            asking.register("t", AB),
            asking.register("t", {"type": "record"}),
            asking.register("outer", outer, references=[reference]),
            asking("POST", path, schema=json.dumps(AB)),
            list(asking.log.records),
        ]

    here = answers()
    monkeypatch.setattr(examining, "SMALL", 0)
    monkeypatch.setattr(examining, "SMALL_PRODUCT", 0)
    assert answers() == here


def test_a_schema_that_takes_too_long_to_examine_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking = Asking()
    asking.register("t", A)
    monkeypatch.setattr(examining, "PATIENCE_S", -10)
    assert asking.register("t", union("A", 400)) == 42209
    monkeypatch.setattr(examining, "SMALL_PRODUCT", 0)
    assert asking.register("t", A_OPTIONAL_B) == 42209
    assert asking("GET", "/subjects/t/versions") == [1]


@pytest.mark.parametrize("start", ["/*", '"', "'", '"\\', '\\"', "//", "a", "("])
def test_a_hostile_protobuf_text_is_read_once(start: str) -> None:
    assert len(meaning(start * 200_000, "PROTOBUF")) <= 400_001


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "name", "fields", "items", "x"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(schema=JSON | JSON.map(json.dumps), kind=JSON | st.just("AVRO"), references=JSON, wish=JSON)
def test_whatever_a_body_holds_is_answered(
    schema: Any, kind: Any, references: Any, wish: Any
) -> None:
    asking = Asking()
    body = {"schema": schema, "schemaType": kind, "references": references}
    for path in ("/subjects/t/versions", "/subjects/t", "/compatibility/subjects/t/versions"):
        assert isinstance(asking("POST", path, **body), dict | int)
    for path, name in (("/config", "compatibility"), ("/mode/t", "mode")):
        assert isinstance(asking("PUT", path, **{name: wish}), dict | int)
    assert isinstance(asking("GET", "/subjects"), list)


def test_records_are_in_confluents_words() -> None:
    version = SchemaVersion(subject="t", version=2, schema_id=7, text='"int"')
    assert write_change(version) == (
        b'{"keytype":"SCHEMA","subject":"t","version":2,"magic":1}',
        b'{"subject":"t","version":2,"id":7,"schema":"\\"int\\"","deleted":false}',
    )
    assert write_change(SubjectDeleted(subject="t", version=2)) == (
        b'{"keytype":"DELETE_SUBJECT","subject":"t","magic":0}',
        b'{"subject":"t","version":2}',
    )
    assert write_change(Setting(kind="CONFIG", value="FULL")) == (
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"compatibilityLevel":"FULL"}',
    )


@pytest.mark.parametrize(
    "change",
    [
        SchemaVersion(
            subject="t",
            version=1,
            schema_id=3,
            text="message M {}",
            kind="PROTOBUF",
            references=({"name": "n", "subject": "s", "version": 1},),
            is_deleted=True,
        ),
        VersionGone(subject="t", version=1),
        SubjectDeleted(subject="t", version=3),
        Setting(kind="MODE", subject="t", value="READONLY"),
        Setting(kind="CONFIG", subject="t"),
    ],
)
def test_records_are_read_as_they_were_written(change: Any) -> None:
    assert read_change(*write_change(change)) == change


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONTEXT","tenant":"x","magic":0}', b"{}"),
        (b"{}", b"{}"),
        (None, b"{}"),
        (b"[]", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"t","version":1}', b"{"),
        (b'{"keytype":"SCHEMA","subject":"t","version":1}', b"{}"),
    ],
)
def test_records_of_others_say_nothing(key: bytes | None, value: bytes | None) -> None:
    assert read_change(key, value) is None
    asking = Asking([(key, value)])
    assert asking("GET", "/subjects") == []
