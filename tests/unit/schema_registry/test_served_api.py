"""A registry for development: Confluent's API over a log that is a list."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("avro")

from ottla.schema_registry.served.api import Api, answer_text
from ottla.schema_registry.served.records import (
    SchemaVersion,
    Setting,
    SubjectDeleted,
    VersionGone,
    read_change,
    write_change,
)

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
    missing = {**reference, "version": 7}
    assert asking.register("other", outer, references=[missing]) == 42201


def test_other_kinds_are_kept_as_they_are() -> None:
    asking = Asking()
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
        ("DELETE", "/config/t", {}, 40408),
        ("PUT", "/mode", {"mode": "SOME"}, 42204),
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
    assert asking("GET", "/mode/t") == {"mode": "READWRITE"}


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "name", "fields", "items", "x"]), inner)
    ),
    max_leaves=8,
)


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
