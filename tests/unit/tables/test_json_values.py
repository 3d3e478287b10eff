"""JSON values as columns: what is decoded, and that every broken value is found, alone."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import UserError

pa = pytest.importorskip("pyarrow")

from ottla.tables.values.debezium import DebeziumDecoder  # noqa: E402
from ottla.tables.values.decoder import Decoded, Decoding, Envelope, ValueFormat  # noqa: E402
from ottla.tables.values.inference import infer_schema, with_inferred_fields  # noqa: E402
from ottla.tables.values.json_values import JsonDecoder  # noqa: E402
from ottla.tables.values.opening import open_decoder  # noqa: E402
from ottla.tables.values.record_decoder import RecordDecoder, RecordDecoding  # noqa: E402
from ottla.tables.values.schema import (  # noqa: E402
    MOST_LEVELS,
    check_evolution,
    check_levels,
    parse_schema,
    schema_text,
    struct_type,
)

MAPS = "who struct<m: map<string, array<map<string, decimal(20,2)>>>, x: double>"
SCHEMA = (
    "id bigint, small int, price double, exact decimal(5,2), name string, ok boolean, "
    "at timestamp, tags array<string>, who struct<x: bigint, y: string>"
)
SOUND = (
    b'{"id": 1, "name": "a", "tags": ["x", null], "who": {"x": 2}, "at": "2024-01-01T00:00:00Z"}'
)

NO_JSON = {
    "empty": b"",
    "spaces only": b" \n\t ",
    "not JSON at all": b"\x00\x01binary",
    "cut in the middle": b'{"id": 1, "name": "a',
    "cut before the end": b'{"id": 1',
    "cut, with a brace inside": b'{"who": {"x": 1}',
    "an open string that ends in a brace": b'{"name": "}',
    "a word after it": b'{"id": 1} x',
    "a brace too many": b'{"id": 1}}',
    "a bracket too many": b'{"id": 1}]',
    "two objects": b'{"id": 1}{"id": 2}',
    "two objects on two lines": b'{"id": 1}\n{"id": 2}',
    "two objects with a comma": b'{"id": 1},{"id": 2}',
    "a null between objects": b'{"id": 1}null{"id": 2}',
    "a null between objects, apart": b'{"id": 1} \n null {"id": 2}',
    "a number between objects": b'{"id": 1} 7 {"id": 2}',
    "null": b"null",
    "a number": b"17",
    "a string": b'"text"',
    "an array": b'[{"id": 1}]',
    "single quotes": b"{'id': 1}",
    "a bare name": b"{id: 1}",
    "a comma at the end": b'{"id": 1,}',
    "a comma missing": b'{"id": 1 "small": 2}',
    "a comment": b'{"id": 1 /* one */}',
    "a leading zero": b'{"id": 01}',
    "a plus sign": b'{"id": +1}',
    "a bare fraction": b'{"price": .5}',
    "an open fraction": b'{"price": 1.}',
    "NaN": b'{"price": NaN}',
    "Infinity": b'{"price": -Infinity}',
    "NaN where nobody looks": b'{"other": [1, NaN]}',
    "Inf": b'{"other": [Inf]}',
    "half a word": b'{"ok": tru}',
    "a raw line end in a string": b'{"name": "a\nb"}',
    "a raw tab in a string": b'{"name": "a\tb"}',
    "a zero byte": b'{"id": \x001}',
    "a zero byte after it": b'{"id": 1}\x00',
    "a wrong escape": b'{"name": "\\x41"}',
    "half a surrogate pair": b'{"name": "\\ud800"}',
    "the other half": b'{"name": "\\udc00"}',
    "not UTF-8": b'{"name": "\xff"}',
    "not UTF-8, where nobody looks": b'{"other": "\xff"}',
    "a surrogate as bytes": b'{"name": "\xed\xa0\x80"}',
    "UTF-16": '{"id": 1}'.encode("utf-16"),
    "a name twice": b'{"id": 1, "id": 2}',
}
WRONG_TYPE = {
    "a string for a number": b'{"id": "1"}',
    "a fraction for a whole number": b'{"id": 1.0}',
    "an exponent for a whole number": b'{"id": 1e3}',
    "too large for bigint": b'{"id": 9223372036854775808}',
    "too large for int": b'{"small": 2147483648}',
    "too large for double": b'{"price": 1e999}',
    "a string for a double": b'{"price": "NaN"}',
    "too many digits": b'{"exact": 12345.6}',
    "too fine": b'{"exact": 1.234}',
    "a number for a string": b'{"name": 1}',
    "an object for a string": b'{"name": {}}',
    "a number for a truth": b'{"ok": 1}',
    "a string for a truth": b'{"ok": "true"}',
    "no time": b'{"at": "yesterday"}',
    "a number for a time": b'{"at": 1700000000}',
    "a string for an array": b'{"tags": "x"}',
    "a number in an array of strings": b'{"tags": ["x", 1]}',
    "an array for an object": b'{"who": []}',
    "a wrong type within": b'{"who": {"x": "1"}}',
}
BROKEN = {**NO_JSON, **WRONG_TYPE}


def decoded(*values: bytes | None, schema: str = SCHEMA) -> Decoded:
    return JsonDecoder(schema).decode(pa.array(values, pa.binary()))


def test_values_become_columns_of_the_schemas_types() -> None:
    found = decoded(SOUND, None, b' {"price": 2, "exact": 1.5, "ok": true, "more": [1]}\r\n')
    assert found.faults == {}
    assert found.rows.type == parse_schema(SCHEMA)
    first, tombstone, third = found.rows.to_pylist()
    assert (first["id"], first["name"], first["tags"]) == (1, "a", ["x", None])
    assert first["who"] == {"x": 2, "y": None}
    assert first["at"].isoformat() == "2024-01-01T00:00:00+00:00"
    assert tombstone is None
    assert (third["price"], str(third["exact"]), third["ok"], third["id"]) == (
        2.0,
        "1.50",
        True,
        None,
    )


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_value_is_a_fault_with_a_reason(kind: str) -> None:
    found = decoded(BROKEN[kind])
    assert list(found.faults) == [0]
    assert len(found.faults[0]) > 10
    assert "\n" not in found.faults[0]
    assert found.rows.to_pylist() == [None]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_value_takes_no_neighbour_with_it(kind: str) -> None:
    values = [SOUND, b"{}", None, BROKEN[kind], SOUND, BROKEN[kind], b"{}"]
    found = decoded(*values)
    assert sorted(found.faults) == [3, 5]
    ids = [row and row["id"] for row in found.rows.to_pylist()]
    assert ids == [1, None, None, None, 1, None, None]


def test_all_kinds_of_broken_values_at_once_are_distinguished() -> None:
    values = [one for kind in BROKEN for one in (SOUND, BROKEN[kind], None)]
    found = decoded(*values)
    assert sorted(found.faults) == list(range(1, len(values), 3))
    assert all(row == found.rows[0].as_py() for row in found.rows.to_pylist()[::3])


def test_two_broken_values_that_make_a_sound_one_together_are_two_faults() -> None:
    pairs = [b'{"id": 1', b', "small": 2}', b'{"id": 1}{"id": 2}', b" ", b'{"name": "}', b'{"}']
    assert sorted(decoded(*pairs).faults) == list(range(len(pairs)))


def test_words_that_look_like_a_null_between_objects_are_text_in_a_string() -> None:
    found = decoded(
        b'{"name": "{} null"}', b'{"name": "}null{"}', b'{"name": ":NaN"}', schema="name string"
    )
    assert found.faults == {}
    assert [row["name"] for row in found.rows.to_pylist()] == ["{} null", "}null{", ":NaN"]


pieces = st.sampled_from([*b'{}[]",:\\ntrue1.-e \n\x00\xff', ord("u"), *b"null", ord("a")]).map(
    lambda number: bytes([number])
)


@st.composite
def bent(draw: Any) -> bytes:
    """A sound value with some bytes taken out, put in or changed."""
    value = bytearray(draw(st.sampled_from([SOUND, b"{}", b'{"name": "null}", "who": null}'])))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(value)))
        end = min(len(value), start + draw(st.integers(0, 4)))
        value[start:end] = b"".join(draw(st.lists(pieces, max_size=5)))
    return bytes(value)


@pytest.mark.slow
@settings(deadline=None)
@given(values=st.lists(bent(), min_size=1, max_size=12))
def test_what_is_accepted_is_what_another_parser_reads(values: list[bytes]) -> None:
    found = decoded(*values, schema="id bigint, name string")
    for index, value in enumerate(values):
        alone = decoded(value, schema="id bigint, name string")
        assert (index in found.faults) == (0 in alone.faults)
        if index not in found.faults:
            row = json.loads(value)
            assert found.rows[index].as_py() == {"id": row.get("id"), "name": row.get("name")}


def test_a_prefix_of_a_registry_is_taken_off_and_checked() -> None:
    decoding = Decoding(format=ValueFormat.JSON, schema="id bigint", confluent=True, schema_id=7)
    values = [
        b"\0\0\0\0\7" + b'{"id": 3}',
        b'{"id": 3}',
        None,
        b"\0\0\0\0\x08" + b'{"id": 3}',
        b"\0",
    ]
    found = open_decoder(decoding).decode(pa.array(values, pa.binary()))
    assert found.rows.to_pylist() == [{"id": 3}, None, None, None, None]
    assert sorted(found.faults) == [1, 3, 4]
    assert "schema id 8, not 7" in found.faults[3]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("", "a field's name is missing"),
        ("id", "at character 2: its end is not a type"),
        ("id number", "'number' is not a type"),
        ("id bigint,", "a field's name is missing"),
        ("id bigint not null", "',' is missing"),
        ("id decimal(50,2)", r"no decimal\(50,2\)"),
        ("id bigint, ID string", "names field id twice"),
        ("who struct<>", "name is missing"),
        ("at date", "date cannot be checked in JSON"),
        ("m map<string, date>", "value.m{}: date cannot be checked in JSON"),
        ("id bigint; drop", "are not allowed"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_place(schema: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        JsonDecoder(schema)


def test_a_schema_has_one_spelling() -> None:
    assert schema_text(parse_schema(SCHEMA)) == SCHEMA
    odd = "`a b` long, `c``d` ARRAY<struct<`e:f` integer>>, m map<string,bigint>, d date, b binary"
    text = schema_text(parse_schema(odd))
    assert text == (
        "`a b` bigint, `c``d` array<struct<`e:f`: int>>, m map<string, bigint>, d date, b binary"
    )
    assert parse_schema(text) == parse_schema(odd)


def test_a_schema_is_inferred_from_what_the_values_have_in_common() -> None:
    values = [
        b'{"id": 1, "x": 1, "at": "2024-01-01", "who": {"n": null, "ok": true}, "none": null}',
        b"broken",
        None,
        b"[1]",
        b'{"id": 2, "x": 1.5, "lines": [{"a": 1}, {"b": "t"}], "empty": []}',
        b'{"big": 9223372036854775808}',
    ]
    assert schema_text(infer_schema(values)) == (
        "id bigint, x double, at string, who struct<ok: boolean>, "
        "lines array<struct<a: bigint, b: string>>, big decimal(38,0)"
    )
    for wrong, words in (
        ([b'{"id": 1}', b'{"id": "1"}'], "value.id is bigint in some values and string in others"),
        ([b'{"a": {"b": [1, {}]}}'], r": value\.a\.b\[\] is bigint in some values and an object"),
        ([b"x", None], "none of the first values is a JSON object"),
        ([b"{}"], "none of the first values is a JSON object with something in it"),
        ([b'{"a": null}', b'{"b": [{}]}'], "all fields of the first values are null"),
        ([b'{"a": [{"n": %d}]}' % 10**45], r"value\.a\[\]\.n is a whole number of more than 38"),
        ([b'{"n": -%s}' % (b"9" * 5000)], r"value\.n is a .* 38 digits; give --schema, in which"),
        ([b'{"": 1}'], "value has a field '', which no column can be called"),
        ([b'{"a": %s1%s}' % (b"[" * 32, b"]" * 32)], r"value\.a.* is more than 32 levels deep"),
    ):
        with pytest.raises(UserError, match=words):
            infer_schema(wrong)


def test_a_number_without_a_column_is_kept_by_the_schema_that_the_error_names() -> None:
    digits = b"9" * 45
    found = JsonDecoder("n double", is_rescuing=True).decode(pa.array([b'{"n":%s}' % digits]))
    assert found.faults == {}
    (row,) = found.rows.to_pylist()
    assert (row["n"], json.loads(row["_rescued"])) == (None, {"n": int(digits)})
    assert schema_text(infer_schema([b'{"id":1,"n":%s}' % (b"9" * 5000)])) == "id bigint"


def test_fields_of_a_sample_are_added_and_no_type_changes() -> None:
    before = parse_schema("id int, who struct<x: bigint>, tags array<struct<a: int>>, s string")
    values = [
        b'{"ID": "x", "id": 1.5, "who": {"y": true}, "tags": [{"b": [1]}, {"a": "x"}]}',
        b'{"s": {"t": 1}}',
        b'{"new": 1, "mixed": 1, "deep": {"mixed": [1], "n": 1}, "_rescued": 1}',
        b'{"new": 1.5, "mixed": "x", "deep": {"mixed": ["x"]}, "nothing": null}',
        b'{"mixed": 1}',
        b"broken",
    ]
    assert schema_text(with_inferred_fields(before, values)) == (
        "id int, who struct<x: bigint, y: boolean>, tags array<struct<a: int, b: array<bigint>>>, "
        "s string, new double, deep struct<n: bigint>"
    )
    assert with_inferred_fields(before, [b"broken", None]) == before
    one = schema_text(with_inferred_fields(before, [b'{"a": 1, "A": "x"}']))
    assert one == f"{schema_text(before)}, a bigint"


NOT_COLUMNS = [
    rb'{"": 1}',
    rb'{"a\u0000": 1}',
    rb'{"\ud800": 1}',
    b'{"w": {"": 1}}',
    b'{"ID": "x"}',
]


@pytest.mark.parametrize("value", NOT_COLUMNS)
def test_a_field_whose_name_no_column_can_have_gets_none(value: bytes) -> None:
    kind = infer_schema([b'{"id": 1}', value])
    assert schema_text(kind) == "id bigint"
    assert with_inferred_fields(kind, [value]) == kind


@pytest.mark.parametrize("name", ["", "a\0", "\ud800"])
def test_a_schema_with_such_a_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="which no column can be named"):
        struct_type([(name, pa.int64())])


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_levels_below_those_of_a_table_get_no_column() -> None:
    kind = infer_schema([nested(MOST_LEVELS)])
    check_levels(kind)
    assert parse_schema(schema_text(kind)) == kind
    for levels in (MOST_LEVELS + 1, 900):
        flat = infer_schema([b'{"id": 1}', nested(levels)])
        assert schema_text(flat) == "id bigint"
    text = "a struct<" * MOST_LEVELS + "a bigint" + ">" * MOST_LEVELS
    with pytest.raises(UserError, match="more than 32 levels"):
        RecordDecoder(RecordDecoding(value=Decoding(format=ValueFormat.JSON, schema=text)))


def test_a_schema_may_grow_and_nothing_else() -> None:
    before = parse_schema("id int, who struct<x: bigint>, tags array<struct<a: int>>")
    check_evolution(
        before,
        parse_schema(
            "new string, id bigint, who struct<y: int, x: bigint>, tags array<struct<a: bigint>>"
        ),
    )
    for text, words in (
        ("id int, who struct<x: bigint>", "value.tags is gone"),
        (
            "id string, who struct<x: bigint>, tags array<struct<a: int>>",
            "value.id was int and would be string",
        ),
        ("id int, who struct<x: int>, tags array<struct<a: int>>", "value.who.x was bigint"),
        (
            "id int, who struct<x: bigint>, tags array<struct<a: string>>",
            r"value.tags\[\].a was int",
        ),
    ):
        with pytest.raises(UserError, match=words):
            check_evolution(before, parse_schema(text))


def test_maps_are_objects_whose_names_are_keys() -> None:
    found = decoded(
        b'{"who": {"m": {"a": [{"b": 123456789012345678.25, "c": null}, null], "\\u00e9": []}}}',
        None,
        b'{"who": {"m": null, "x": 0.1}}',
        b'{"who": {"m": [{"key": "a", "value": []}]}}',
        b'{"who": {"m": {"a": 1}}}',
        b'{"who": {"m": {"a": [], "a": []}}}',
        b'{"who": {"m": {"a": [{"b": "x"}]}}}',
        b"{",
        b'{"who": {}}',
        schema=MAPS,
    )
    found.rows.validate(full=True)
    assert found.rows.type == parse_schema(MAPS)
    rows = found.rows.to_pylist()
    exact = Decimal("123456789012345678.25")
    assert rows[0]["who"] == {
        "m": [("a", [[("b", exact), ("c", None)], None]), ("é", [])],
        "x": None,
    }
    assert (rows[2]["who"], rows[8]["who"]) == ({"m": None, "x": 0.1}, {"m": None, "x": None})
    assert sorted(found.faults) == [3, 4, 5, 6, 7]
    assert "value.who.m is" in found.faults[3]
    assert "value.who.m{} is 1, not of type array" in found.faults[4]
    assert "an object repeats a name" in found.faults[5]


def rescued(*values: bytes | None, schema: str = "id bigint") -> list[Any]:
    found = JsonDecoder(schema, is_rescuing=True).decode(pa.array(values, pa.binary()))
    assert found.faults == {}
    return [row and row["_rescued"] for row in found.rows.to_pylist()]


def test_what_the_schema_does_not_name_is_kept_as_json() -> None:
    schema = (
        "id bigint, who struct<name: string>, lines array<struct<a: int>>, "
        "m map<string, struct<a: int>>"
    )
    assert rescued(
        b'{"id": 1, "who": {"name": "a"}, "lines": [{"a": 1}], "m": {"k": {"a": 1}}}',
        None,
        b'{"x": 1.10, "y": {"z": [null, true, "\\u00e9\\n"]}, "n": 123456789012345678901.50}',
        b'{"who": {"name": "a", "age": 3}, "lines": [{"a": 1}, {"b": 2}, null]}',
        b'{"m": {"k": {"c": 1}, "l": {"a": 1}}}',
        b'{"ID": 1, "_rescued": null}',
        schema=schema,
    ) == [
        None,
        None,
        '{"x":1.10,"y":{"z":[null,true,"é\\n"]},"n":123456789012345678901.50}',
        '{"who":{"age":3},"lines":[null,{"b":2},null]}',
        '{"m":{"k":{"c":1}}}',
        '{"ID":1,"_rescued":null}',
    ]


def test_a_broken_value_is_a_fault_among_those_that_have_more_than_the_schema_names() -> None:
    broken = [one for name, one in BROKEN.items() if name != "too large for double"]
    values = [b'{"x": 1}', *broken, b'{"id": 1}', b'{"x": 2}']
    found = JsonDecoder(SCHEMA, is_rescuing=True).decode(pa.array(values, pa.binary()))
    assert sorted(found.faults) == list(range(1, len(broken) + 1))
    rows = found.rows.to_pylist()
    assert [rows[place]["_rescued"] for place in (0, -2, -1)] == ['{"x":1}', None, '{"x":2}']


def test_what_is_nested_too_deep_to_be_kept_is_a_fault() -> None:
    deep = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    found = JsonDecoder("id bigint", is_rescuing=True).decode(pa.array([deep, b"{}"], pa.binary()))
    assert list(found.faults) == [0]


def test_a_schema_that_names_the_column_of_the_rest_is_refused() -> None:
    with pytest.raises(UserError, match="--no-rescued"):
        JsonDecoder("id bigint, _Rescued string", is_rescuing=True)


@pytest.mark.parametrize("around", ["%s", '{"schema": {"x": 1}, "payload": %s}'])
def test_of_an_envelope_what_its_row_has_more_is_kept_and_nothing_else(around: str) -> None:
    decoding = Decoding(
        format=ValueFormat.JSON,
        schema="id bigint",
        envelope=Envelope.DEBEZIUM,
        is_rescuing=True,
    )
    changes = ['{"op": "c", "after": {"id": 1, "x": 2}, "ts": 3}', '{"op": "d", "after": null}']
    changes.append('{"op": "u", "after": {"id": 3}, "source": {}}')
    values = [(around % one).encode() for one in changes]
    found = open_decoder(decoding).decode(pa.array([*values, None], pa.binary()))
    found.rows.validate(full=True)
    one, two = {"id": 1, "_rescued": '{"x":2}'}, {"id": 3, "_rescued": None}
    assert (found.rows.to_pylist(), found.faults) == ([one, None, two, None], {})


def test_a_member_beside_an_envelope_may_be_called_payload() -> None:
    """Where a registry's schema has the envelope, none stands around it."""
    inner = JsonDecoder("op string, after struct<id: bigint>", is_rescuing=True)
    value = b'{"op": "c", "after": {"id": 1, "x": 2}, "payload": "heavy"}'
    found = DebeziumDecoder(inner).decode(pa.array([value], pa.binary()))
    assert (found.rows.to_pylist(), found.faults) == ([{"id": 1, "_rescued": '{"x":2}'}], {})


def test_integers_of_any_size_are_inferred_without_losing_a_digit() -> None:
    big, huge = 2**63, 10**38
    for numbers, columns in (
        ([1, big], "x decimal(38,0)"),
        ([-big - 1], "x decimal(38,0)"),
        ([big, 1.5], "x double"),
        ([1, 1.5], "x double"),
        ([1, huge], "x bigint"),
    ):
        values = [json.dumps({"x": one, "y": 1}).encode() for one in numbers]
        kind = schema_text(infer_schema(values))
        assert kind == f"{columns}, y bigint"
        found = JsonDecoder(kind, is_rescuing=True).decode(pa.array(values))
        for index, row in enumerate(found.rows.to_pylist()):
            is_there = row is None or row["x"] == numbers[index]
            assert is_there or json.loads(row["_rescued"])["x"] == numbers[index]
            assert (row is None) == (numbers[index] == huge)


def test_of_a_repeated_name_no_value_is_dropped_in_silence() -> None:
    values = [b'{"a": 1, "a": 2}', b'{"a": 1, "b": 1, "b": 2}', b'{"b": {"c": 1, "c": 2}}']
    found = JsonDecoder("a bigint", is_rescuing=True).decode(pa.array(values))
    assert sorted(found.faults) == [0, 1, 2]
