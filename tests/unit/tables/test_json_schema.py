"""JSON Schema as columns, and JSON values that name theirs in a registry."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from ottla.base.errors import UserError  # noqa: E402
from ottla.schema_registry.framing import PREFIX  # noqa: E402
from ottla.schema_registry.registry import JSON, RegisteredSchema  # noqa: E402
from ottla.tables.layout import RAW, LayoutOptions  # noqa: E402
from ottla.tables.schemas import with_registered_schema  # noqa: E402
from ottla.tables.values.decoder import Decoding, ValueFormat  # noqa: E402
from ottla.tables.values.json_schema import json_schema_type  # noqa: E402
from ottla.tables.values.opening import open_decoder  # noqa: E402
from ottla.tables.values.schema import schema_text  # noqa: E402

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def columns_of(schema: Any, **references: Any) -> str:
    texts = {name: json.dumps(one) for name, one in references.items()}
    found = RegisteredSchema(text=json.dumps(schema), kind=JSON, references=texts)
    return schema_text(json_schema_type(found))


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (STRING, "a string"),
        ({"type": ["null", "integer"]}, "a bigint"),
        ({"type": ["integer", "number"]}, "a double"),
        ({"type": "boolean", "description": "x"}, "a boolean"),
        ({"type": "string", "format": "date-time"}, "a timestamp"),
        ({"type": "string", "format": "date"}, "a string"),
        ({"type": "array", "items": NUMBER}, "a array<double>"),
        ({"type": "object", "additionalProperties": INTEGER}, "a map<string, bigint>"),
        (
            {"type": "object", "additionalProperties": an_object(x=STRING)},
            "a map<string, struct<x: string>>",
        ),
        ({**an_object(x=STRING), "additionalProperties": INTEGER}, "a struct<x: string>"),
        ({"oneOf": [{"type": "null"}, an_object(x=STRING)]}, "a struct<x: string>"),
        (
            {"oneOf": [an_object(x=STRING, k=STRING), an_object(y=INTEGER, k=INTEGER)]},
            "a struct<x: string, y: bigint>",
        ),
        ({"anyOf": [INTEGER, NUMBER]}, "a double"),
        (an_object(**{"": STRING, "x\0": STRING, "y": STRING}), "a struct<y: string>"),
        (
            {"allOf": [an_object(x=STRING)], "properties": {"y": INTEGER}},
            "a struct<x: string, y: bigint>",
        ),
        ({"enum": ["a", "b", None]}, "a string"),
        ({"const": 1}, "a bigint"),
        ({"$ref": "#/$defs/in"}, "a struct<x: bigint>"),
        ({"$ref": "other#/definitions/a~1b"}, "a boolean"),
    ],
)
def test_a_type_is_a_column(schema: Any, columns: str) -> None:
    outer = {**an_object(a=schema), "$defs": {"in": an_object(x=INTEGER)}}
    other = {"definitions": {"a/b": {"type": "boolean"}}}
    assert columns_of(outer, other=other) == columns


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "integer"]},
        {"anyOf": [STRING, INTEGER]},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": [STRING, INTEGER]},
        {"enum": ["a", 1]},
        {"$ref": "#"},
        {"$ref": "#/$defs/tree"},
        {"type": "null"},
    ],
)
def test_what_has_no_type_that_a_column_has_gets_none(schema: Any) -> None:
    tree = an_object(inner={"$ref": "#/$defs/tree"})
    outer = {**an_object(a=schema, b=STRING), "$defs": {"tree": tree}}
    assert columns_of(outer) == "b string"


ADDRESS = an_object(street=STRING)
TOWN = "https://acme.example/types/town.json"


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/x", {"x": ADDRESS}),
        ("#/$defs/a%20b", {"a b": ADDRESS}),
        ("#/$defs/a%25%7e1~0b", {"a%/~b": ADDRESS}),
        ("#/$defs/list/allOf/1", {"list": {"allOf": [STRING, ADDRESS]}}),
        ("#/$defs//", {"": {"": ADDRESS}}),
        ("#street", {"x": {"$anchor": "street", **ADDRESS}}),
        ("#street", {"x": {"$dynamicAnchor": "street", **ADDRESS}}),
        ("#street", {"x": {"$id": "#street", **ADDRESS}}),
        ("address.json", {"x": {"$id": "address.json", **ADDRESS}}),
        ("/v1/address.json#", {"x": {"$id": "address.json#", **ADDRESS}}),
        ("https://acme.example/v1/address.json", {"x": {"$id": "address.json", **ADDRESS}}),
        ("order.json#/$defs/x", {"x": ADDRESS}),
        ("./../v1/order.json#/$defs/x", {"x": ADDRESS}),
        ("urn:acme:address", {"x": {"$id": "urn:acme:address", **ADDRESS}}),
        ("urn:acme:a#s", {"x": {"$id": "urn:acme:a", "$defs": {"y": {"$anchor": "s", **ADDRESS}}}}),
        (
            "in/b.json#s",
            {"x": {"$id": "in/a.json", "$defs": {"y": {"$id": "b.json#s", **ADDRESS}}}},
        ),
        # Within a schema with an $id, its own URI is the base.
        ("in/a.json", {"x": {"$id": "in/a.json", "$ref": "#/$defs/y", "$defs": {"y": ADDRESS}}}),
        (
            "#/$defs/x/$defs/z",
            {"x": {"$id": "in/", "$defs": {"z": {"$ref": "b"}, "y": {"$id": "b", **ADDRESS}}}},
        ),
        ("#/$defs/x/new/z", {"x": {"$id": "q", "new": {"z": {"$ref": "#/new/y"}, "y": ADDRESS}}}),
        # References of the registry: by URI, by a name, and from one to another.
        (TOWN, {}),
        ("/types/town.json#/properties/main", {}),
        ("../types/town.json#main", {}),
        ("my types.json", {}),
        ("my%20types.json", {}),
        ("acme:plain", {}),
        ("no-id/outer.json", {}),
    ],
)
def test_a_reference_is_found_by_uri_identifier_anchor_or_pointer(
    reference: str, definitions: Any
) -> None:
    schema = an_object(a={"$ref": reference})
    main = {"main": {"$anchor": "main", "$ref": "#/definitions/m"}}
    town = {**an_object(street=STRING), "properties": {"street": STRING, **main}}
    others = {
        TOWN: {**town, "definitions": {"m": ADDRESS}},
        "my types.json": {"$ref": f"{TOWN}#main"},
        "acme:plain": {"$id": "https://other.example/x/y.json", "$ref": "my%20types.json"},
        "no-id/outer.json": {"$ref": "inner.json#/$defs/i"},
        "no-id/inner.json": {"$defs": {"i": {"$ref": "../my types.json"}}},
    }
    whole = {**schema, "$id": "https://acme.example/v1/order.json", "$defs": definitions}
    found = columns_of(whole, **others)
    assert found in (
        "a struct<street: string>",
        "a struct<street: string, main: struct<street: string>>",
    )


def test_the_draft_decides_what_is_an_identifier() -> None:
    inner = {"id": "in/x.json", "$id": "y.json", **ADDRESS}
    ref = {"$ref": "#/definitions/x", "$id": "elsewhere/"}
    for draft, reference in (("04", "in/x.json"), ("07", "y.json")):
        whole = {
            "$schema": f"http://json-schema.org/draft-{draft}/schema#",
            **an_object(id=STRING, a={"$ref": reference}, b=ref),
            "definitions": {"x": inner, "const": {"const": {"$id": reference}}},
        }
        assert columns_of(whole) == "id string, a struct<street: string>, b struct<street: string>"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("#/$defs/y", "#/$defs/y, which does not exist"),
        ("#/$defs/x/3", "does not exist"),
        ("#gone", "does not exist"),
        ("gone.json#x", "name of a reference, nor has a schema the $id gone.json"),
        ("http://[/", "Invalid IPv6"),
    ],
)
def test_an_unknown_reference_is_named_with_its_place(reference: str, words: str) -> None:
    inner = an_object(b={"type": "array", "items": {"$ref": reference}})
    whole = {**an_object(a=inner), "$defs": {"x": {"const": {"$anchor": "gone"}}}}
    with pytest.raises(UserError) as caught:
        columns_of(whole)
    assert str(caught.value).startswith(f"value.a.b[]: the JSON Schema refers to {reference}")
    assert words in str(caught.value)


@pytest.mark.parametrize("word", ["$dynamicRef", "$recursiveRef"])
def test_a_dynamic_reference_is_said_to_be_unsupported(word: str) -> None:
    for schema in ({word: "#"}, {"type": "array", "items": {word: "#"}}, {"anyOf": [{word: "#"}]}):
        with pytest.raises(UserError, match=rf"value\.a.*: .*\{word}, which is not supported"):
            columns_of(an_object(a=schema, b=STRING))


def test_what_contains_itself_by_any_reference_has_no_column() -> None:
    tree = {"$id": "tree", **an_object(x=STRING, up={"$ref": "tree"}, down={"$ref": "other"})}
    loop = {"one": {"$ref": "#/$defs/two"}, "two": {"$ref": "#/$defs/one"}}
    whole = {**an_object(a=tree, b={"$ref": "#/$defs/one"}), "$defs": loop}
    assert columns_of(whole, other=an_object(y=STRING, t={"$ref": "tree"})) == (
        "a struct<x: string, down: struct<y: string>>"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "must be an object with properties"),
        ('{"type": "string"}', "must be an object with properties"),
        ('{"properties": {"a": true}}', "must be an object with properties"),
        ('{"properties": {"a": {"type": 5}}}', "not a JSON Schema"),
        (
            '{"properties": {"a": {"$ref": "gone"}}}',
            "value.a: the JSON Schema refers to gone, which does not exist",
        ),
        ('{"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}', "names field a"),
    ],
)
def test_what_is_no_schema_of_a_table_is_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        json_schema_type(RegisteredSchema(text=text, kind=JSON))


KNOWN = [
    *("type", "properties", "items", "additionalProperties", "required", "enum", "const"),
    *(
        "$id",
        "$anchor",
        "b#a",
        "#a",
        "$ref",
        "#",
        "#/a",
        "#/$defs/a",
        "$defs",
        "oneOf",
        "anyOf",
        "allOf",
        "format",
        "date-time",
    ),
    *("string", "object", "array", "integer", "number", "null", "boolean", "a"),
]
words = st.sampled_from(KNOWN)
schemas = st.recursive(
    st.one_of(words, st.none(), st.booleans(), st.integers(0, 3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(words, schemas, max_size=4))
def test_json_of_any_kind_is_a_schema_or_refused(schema: Any) -> None:
    text = json.dumps({"type": "object", **schema})
    try:
        found = json_schema_type(RegisteredSchema(text=text, kind=JSON))
    except UserError:
        return
    assert found.num_fields > 0


def register(directory: Path, *versions: Any) -> None:
    for number, schema in enumerate(versions, 1):
        for name in (number, f"t-value.{number}"):
            (directory / f"{name}.json").write_text(json.dumps(schema))


def of_subject(directory: Path, *versions: Any) -> Decoding:
    register(directory, *versions)
    asked = Decoding(format=ValueFormat.JSON, schema="", registry=str(directory), is_rescuing=True)
    found = with_registered_schema(LayoutOptions(decoding=asked), RAW, "t").decoding
    assert found is not None
    return found


def written(value: Any, schema_id: int = 1) -> bytes:
    return PREFIX.pack(0, schema_id) + json.dumps(value).encode()


def decoded(of: Decoding, *values: bytes | None, headers: Any = None) -> tuple[Any, dict[int, str]]:
    found = open_decoder(of).decode(pa.array(values, pa.binary()), headers)
    return found.rows.to_pylist(), dict(found.faults)


def test_a_table_has_the_columns_of_all_versions_and_keeps_what_none_names(tmp_path: Path) -> None:
    of = of_subject(tmp_path, an_object(a=INTEGER), an_object(b=STRING, a=INTEGER))
    assert of.schema == "a bigint, b string"
    rows, faults = decoded(of, written({"a": 1, "x": [1.0]}), None, written({"a": 2, "b": "y"}, 2))
    assert (rows, faults) == (
        [
            {"a": 1, "b": None, "_rescued": '{"x":[1.0]}'},
            None,
            {"a": 2, "b": "y", "_rescued": None},
        ],
        {},
    )


def test_a_renamed_field_is_refused_where_the_new_name_begins(tmp_path: Path) -> None:
    old = an_object("first", "last", first=STRING, last=STRING)
    new = an_object("first", "surname", first=STRING, surname=STRING)
    of = of_subject(tmp_path, old, new)
    rows, faults = decoded(
        of,
        written({"first": "Alan", "last": "Turing"}),
        written({"first": "Alan", "surname": "Turing"}, 2),
    )
    assert (rows[0], list(faults)) == ({"first": "Alan", "last": "Turing", "_rescued": None}, [1])
    assert "its value.surname is not in the table" in faults[1]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"{}", "does not begin with the prefix"),
        (written({"a": 1}, 9), "has no schema id 9"),
        (written({"a": "1"}), "value.a is"),
        (written([]), "not a JSON object"),
        (written({"a": 1}, 2), "schema 2, which is AVRO, not JSON"),
    ],
)
def test_a_value_that_cannot_be_shown_has_a_fault_that_says_why(
    tmp_path: Path, value: bytes, fault: str
) -> None:
    of = of_subject(tmp_path, an_object(a=INTEGER))
    (tmp_path / "2.avsc").write_text('"int"')
    rows, faults = decoded(of, value, written({"a": 2}))
    assert (rows, list(faults)) == ([None, {"a": 2, "_rescued": None}], [0])
    assert fault in faults[0]


def test_a_guid_in_a_header_names_the_schema_too(tmp_path: Path) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    of = of_subject(tmp_path, an_object(a=INTEGER))
    (tmp_path / f"{guid}.json").write_text(json.dumps(an_object(a=INTEGER)))
    header = b"\1" + bytes.fromhex(guid.replace("-", ""))
    headers = pa.array([[{"key": "__value_schema_id", "value": header}]])
    assert decoded(of, b'{"a": 1}', headers=headers) == ([{"a": 1, "_rescued": None}], {})


@pytest.mark.slow
@pytest.mark.parametrize("word", ["properties", "anyOf", "allOf"])
def test_references_that_double_at_each_level_are_refused_at_once(word: str) -> None:
    def twice(level: int) -> dict[str, Any]:
        ref = {"$ref": f"#/$defs/d{level}"}
        return {word: {"a": ref, "b": ref} if word == "properties" else [ref, ref]}

    defs = {f"d{level}": twice(level + 1) for level in range(40)} | {"d40": {"type": "integer"}}
    schema = {"type": "object", "properties": {"x": twice(0)}, "$defs": defs}
    with pytest.raises(UserError, match="more than 20,000 parts"):
        json_schema_type(RegisteredSchema(text=json.dumps(schema), kind=JSON))
