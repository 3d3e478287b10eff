"""Protobuf values as columns: by a given schema, and by the one that a registry says wrote them."""

import base64
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip(
    "grpc_tools", reason="no compiler of .proto texts: grpcio-tools is not installed"
)

from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: E402

from ottla.base.errors import UserError  # noqa: E402
from ottla.schema_registry.framing import framed_message, message_indexes  # noqa: E402
from ottla.schema_registry.protobuf_schemas import (  # noqa: E402
    MessageTypes,
    compiled,
    descriptor_set,
)
from ottla.tables.layout import RAW, LayoutOptions, first_layout  # noqa: E402
from ottla.tables.schemas import with_registered_schema  # noqa: E402
from ottla.tables.values.decoder import Decoding, ValueFormat  # noqa: E402
from ottla.tables.values.opening import open_decoder  # noqa: E402
from ottla.tables.values.schema import schema_text  # noqa: E402
from tests.support.protobuf import given, message, proto, registered  # noqa: E402

pytestmark = pytest.mark.slow  # protoc is a process.

WELL_KNOWN = "".join(
    f'import "google/protobuf/{one}.proto"; ' for one in ("timestamp", "wrappers", "struct")
)
ORDER = proto(
    """
    enum Color { RED = 0; BLUE = 1; }
    message Order {
      int64 id = 1;
      uint64 big = 2;
      optional int32 maybe = 3;
      google.protobuf.Timestamp at = 4;
      repeated Line lines = 5;
      map<string, int32> tags = 6;
      map<bool, Line> by_truth = 7;
      Color color = 8;
      google.protobuf.StringValue note = 9;
      google.protobuf.Struct extra = 10;
      oneof pay { string card = 11; Cash cash = 12; }
      bytes raw = 13;
      repeated Color colors = 14;
      float ratio = 15;
      message Line { string tea = 1; double price = 2; }
      message Cash {}
    }
    """,
    WELL_KNOWN,
)
COLUMNS = (
    "id bigint, big decimal(20,0), maybe int, at timestamp, "
    "lines array<struct<tea: string, price: double>>, tags map<string, int>, "
    "by_truth map<string, struct<tea: string, price: double>>, color string, note string, "
    "extra string, card string, cash boolean, raw binary, colors array<string>, ratio double"
)


def decoded(of: Decoding, *values: bytes | None, headers: Any = None) -> tuple[Any, dict[int, str]]:
    found = open_decoder(of).decode(pa.array(values, pa.binary()), headers)
    assert len(found.rows) == len(values)
    found.rows.validate(full=True)
    return found.rows.to_pylist(), dict(found.faults)


@pytest.fixture(scope="module")
def order() -> Any:
    return message(ORDER, "Order")


def test_each_kind_of_field_has_a_column(order: Any) -> None:
    one = order(
        id=-1,
        big=2**64 - 1,
        lines=[{"tea": "x", "price": 1.5}, {"tea": "y"}],
        tags={"b": 2, "a": 1},
        by_truth={True: {"tea": "t"}},
        color=1,
        raw=b"\xff",
        colors=[0, 7],
        ratio=0.5,
    )
    one.at.FromDatetime(datetime.datetime(2026, 1, 31, 13, 0, 0, 5))
    one.extra.update({"a": [1, None]})
    one.cash.SetInParent()
    one.note.value = ""
    of = given(ORDER, "Order")
    assert schema_text(open_decoder(of).type) == COLUMNS
    (row, nothing, tombstone), faults = decoded(of, one.SerializeToString(), b"", None)
    assert (faults, tombstone) == ({}, None)
    assert row == {
        "id": -1,
        "big": Decimal(2**64 - 1),
        "maybe": None,
        "at": datetime.datetime(2026, 1, 31, 13, 0, 0, 5, datetime.UTC),
        "lines": [{"tea": "x", "price": 1.5}, {"tea": "y", "price": 0.0}],
        "tags": [("a", 1), ("b", 2)],
        "by_truth": [("true", {"tea": "t", "price": 0.0})],
        "color": "BLUE",
        "note": "",
        "extra": '{"a": [1.0, null]}',
        "card": None,
        "cash": True,
        "raw": b"\xff",
        "colors": ["RED", "7"],
        "ratio": 0.5,
    }
    assert nothing == {
        **dict.fromkeys(row),
        "id": 0,
        "big": 0,
        "color": "RED",
        "raw": b"",
        "ratio": 0.0,
        "lines": [],
        "tags": [],
        "by_truth": [],
        "colors": [],
    }


def test_what_is_no_such_message_is_a_fault_and_its_neighbours_are_rows(order: Any) -> None:
    far = order(id=2)
    far.at.seconds = 2**62
    good = order(id=1).SerializeToString()
    rows, faults = decoded(
        given(ORDER, "shop.Order"),
        good,
        b"\x08",
        None,
        far.SerializeToString(),
        b"\x5a\1\xff",
        good,
    )
    assert [row and row["id"] for row in rows] == [1, None, None, None, None, 1]
    assert sorted(faults) == [1, 3, 4]
    assert "not a Protobuf message shop.Order" in faults[1]
    assert "cannot be stored" in faults[3]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@hypothesis_given(data=st.data())
def test_bytes_of_any_kind_are_rows_or_faults_each_as_it_is_alone(order: Any, data: Any) -> None:
    whole = order(id=3, lines=[{"tea": "é"}], tags={"a": 1}, note={"value": "x"}, color=9)
    sound = whole.SerializeToString()
    bent = st.tuples(st.integers(0, len(sound)), st.binary(max_size=6)).map(
        lambda one: sound[: one[0]] + one[1] + sound[one[0] + len(one[1]) :]
    )
    values = data.draw(st.lists(st.one_of(bent, st.binary(max_size=30), st.none()), max_size=6))
    decoder = open_decoder(given(ORDER, "Order"))
    found = decoder.decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    for index, value in enumerate(values):
        alone = decoder.decode(pa.array([value], pa.binary()))
        assert (index in found.faults) == (0 in alone.faults)
        assert repr(found.rows[index].as_py()) == repr(alone.rows[0].as_py())


def test_proto2_has_required_fields_defaults_and_texts_that_are_none() -> None:
    text = """syntax = "proto2";
    message P { required int32 id = 1; optional string s = 2; optional int32 d = 3 [default = 5]; }
    """
    rows, faults = decoded(given(text), b"\x08\1", b"", b"\x08\2\x12\1\xff\x18\6", b"\x08\3\x18\6")
    assert rows == [{"id": 1, "s": None, "d": 5}, None, None, {"id": 3, "s": None, "d": 6}]
    assert "it has no id, which P requires" in faults[1]
    assert "cannot be stored" in faults[2]


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (proto("message A { A inner = 1; }"), "", "value.inner: message shop.A is recursive"),
        (
            proto("message A { int32 x = 1; } message B {}"),
            "",
            "several messages: name one of A, B",
        ),
        (proto("message A { int32 x = 1; }"), "C", "has no message C; it has A"),
        (proto("message A {}"), "", "has no fields of its own"),
        (proto("message A { int32 x = 1; int32 X = 2; }"), "", "names field x twice"),
        ("message A { int32 = 1; }", "", "not a Protobuf schema: 1:"),
        (proto("", 'import "gone.proto";'), "", "gone.proto"),
    ],
)
def test_a_schema_that_no_table_can_have_is_refused_in_one_line(
    text: str, name: str, words: str
) -> None:
    with pytest.raises(UserError) as refused:
        open_decoder(given(text, name))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["../up.proto", "/up.proto", "", "a\0b"])
def test_an_import_that_leads_out_of_its_place_is_refused(path: str) -> None:
    with pytest.raises(UserError, match="not a path that a Protobuf schema may import"):
        compiled(proto(""), {path: proto("")})


def test_what_is_no_descriptor_set_is_refused() -> None:
    for schema in ("!", "", "AAAA"):
        with pytest.raises(UserError):
            open_decoder(Decoding(format=ValueFormat.PROTOBUF, schema=schema))


def test_a_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "inner.proto").write_text(proto("message In { int32 x = 1; }"))
    outer = tmp_path / "outer.proto"
    outer.write_text(proto("message Out { In in = 1; }", 'import "inner.proto";'))
    found = descriptor_set(outer)
    assert MessageTypes(found).named("Out").full_name == "shop.Out"
    (tmp_path / "set.desc").write_bytes(found)
    assert descriptor_set(tmp_path / "set.desc") == found
    for name in ("gone.proto", "gone.desc"):
        with pytest.raises(UserError, match=f"{name}: No such file"):
            descriptor_set(tmp_path / name)


def test_messages_are_found_by_the_indexes_of_confluents_serializers() -> None:
    types = MessageTypes(
        compiled(
            proto(
                "message A { map<string, B> m = 1; message B { message C {} } message D {} } "
                "message E {}"
            ),
            {},
        )
    )
    names = {path: types.at(path) for path in [(0,), (1,), (0, 0, 0), (0, 1), (2,), (0, 2)]}
    assert [one and one.full_name for one in names.values()] == [
        *("shop.A", "shop.E", "shop.A.B.C", "shop.A.D"),
        *(None, None),
    ]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\0x", ((0,), 1)),
        (b"\4\2\0x", ((1, 0), 3)),
        (b"\2\x80\2x", ((128,), 3)),
        (b"", None),
        (b"\2", None),
        (b"\1", None),
        (b"\2\1", None),
        (b"\xff\xff\xff\xff\xff\xff", None),
    ],
)
def test_indexes_are_zigzag_varints(data: bytes, found: Any) -> None:
    assert message_indexes(data, 0) == found


@hypothesis_given(st.binary(max_size=40), st.one_of(st.none(), st.binary(max_size=40)))
def test_bytes_of_any_kind_have_a_framing_within_them_or_none(
    value: bytes, header: bytes | None
) -> None:
    found = framed_message(value, header)
    if found is not None:
        assert 0 <= found.start <= len(value)
        assert all(index >= 0 for index in found.indexes)


V1 = proto("message Person { string first = 1; string last = 2; }")
SWAPPED = proto("message Person { string last = 1; string first = 2; }")
RENAMED = proto("message Person { string first = 1; string surname = 2; }")
ADDED = proto(
    "message Person { string first = 1; string last = 2; Place home = 3; } "
    "message Place { string town = 1; }"
)
TURING = {"first": "Alan", "last": "Turing"}


def register(directory: Path, **schemas: str) -> None:
    for name, text in schemas.items():
        (directory / f"{name.removeprefix('id').replace('_', '.')}.proto").write_text(text)


def of_subject(directory: Path, *versions: str) -> Decoding:
    """The decoding of a table that is made of a subject with these versions, with ids from 1 on."""
    for number, text in enumerate(versions, 1):
        register(directory, **{f"id{number}": text, f"t-value_{number}": text})
    asked = Decoding(format=ValueFormat.PROTOBUF, schema="", registry=str(directory))
    found = with_registered_schema(LayoutOptions(decoding=asked), RAW, "t").decoding
    assert found is not None
    return found


def test_each_value_is_read_with_the_schema_that_wrote_it(tmp_path: Path) -> None:
    of = of_subject(tmp_path, V1, SWAPPED, ADDED)
    assert (schema_text(open_decoder(of).type), of.message) == (
        "first string, last string, home struct<town: string>",
        "shop.Person",
    )
    home = {"town": "London"}
    rows, faults = decoded(
        of,
        registered(message(SWAPPED)(**TURING), 2),
        None,
        registered(message(V1)(**TURING), 1),
        registered(message(ADDED, "Person")(**TURING, home=home), 3),
        registered(message(V1)(**TURING), 1, b"\2\0"),
    )
    assert faults == {}
    without = {**TURING, "home": None}
    assert rows == [without, None, without, {**TURING, "home": home}, without]
    assert first_layout(LayoutOptions(decoding=of)).decoding == of


def test_a_renamed_field_is_refused_where_the_new_name_begins(tmp_path: Path) -> None:
    values = (
        registered(message(V1)(**TURING), 1),
        registered(message(RENAMED)(first="Alan", surname="Turing"), 2),
    )
    rows, faults = decoded(of_subject(tmp_path, V1, RENAMED), *values)
    assert (rows, list(faults)) == ([TURING, None], [1])
    assert "its value.surname is not in the table" in faults[1]
    by_given = Decoding(
        format=ValueFormat.PROTOBUF, schema=given(V1).schema, registry=str(tmp_path)
    )
    rows, faults = decoded(by_given, *values)
    assert (rows, list(faults)) == ([TURING, None], [1])
    assert "last (number 2) is surname in it" in faults[1]


def test_a_given_schema_leaves_out_what_it_does_not_name(tmp_path: Path) -> None:
    register(tmp_path, id1=ADDED)
    by_given = Decoding(
        format=ValueFormat.PROTOBUF, schema=given(V1).schema, registry=str(tmp_path)
    )
    value = registered(message(ADDED, "Person")(**TURING, home={"town": "London"}))
    assert decoded(by_given, value) == ([TURING], {})


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"x", "does not begin with the prefix"),
        (b"\0\0\0\0\1", "does not begin with the prefix"),
        (b"\0\0\0\0\x09\0", "written with schema 9: .* has no schema id 9"),
        (b"\0\0\0\0\2\0", "schema 2, which is AVRO, not PROTOBUF"),
        (b"\0\0\0\0\1\2\4", r"which has no message \[2\]"),
        (b"\0\0\0\0\1\2\2", "it is a shop.Place, but the table has shop.Person"),
        (b"\0\0\0\0\3\0", "shop.Person.last does not match the table's string"),
        (b"\0\0\0\0\4\0", "written with schema 4: this is not a Protobuf schema"),
        (b"\0\0\0\0\1\0\x0a\1\xff", "not a Protobuf message shop.Person"),
    ],
)
def test_a_value_that_cannot_be_shown_has_a_fault_that_says_why(
    tmp_path: Path, value: bytes, fault: str
) -> None:
    of = of_subject(tmp_path, ADDED)
    (tmp_path / "2.avsc").write_text('"int"')
    register(tmp_path, id3=V1.replace("string last", "int32 last"), id4="message {")
    sound = registered(message(ADDED, "Person")(**TURING))
    rows, faults = decoded(of, value, sound)
    assert rows == [None, {**TURING, "home": None}]
    with pytest.raises(UserError, match=fault):
        raise UserError(faults[0])


def test_a_guid_and_indexes_in_a_header_name_the_message_too(tmp_path: Path) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    of = of_subject(tmp_path, ADDED)
    register(tmp_path, **{guid: ADDED})
    header = b"\1" + bytes.fromhex(guid.replace("-", ""))
    named = [{"key": "__value_schema_id", "value": header + b"\0"}]
    headers = pa.array([named, named[:0]])
    value = message(ADDED, "Person")(**TURING).SerializeToString()
    rows, faults = decoded(of, value, value, headers=headers)
    assert (rows[0], list(faults)) == ({**TURING, "home": None}, [1])
    assert framed_message(value, header) is None


def test_schemas_refer_to_others_and_to_well_known_ones(tmp_path: Path) -> None:
    register(tmp_path, place=proto("message Place { google.type.LatLng at = 1; }", LATLNG))
    text = proto(
        'message Trip { Place to = 1 [(confluent.field_meta).doc = "x"]; '
        "confluent.type.Decimal price = 2; }",
        'import "place.proto"; import "confluent/meta.proto"; '
        'import "confluent/type/decimal.proto";',
    )
    of = of_subject(tmp_path, text)
    assert schema_text(open_decoder(of).type) == (
        "to struct<at: struct<latitude: double, longitude: double>>, "
        "price struct<value: binary, precision: bigint, scale: int>"
    )


LATLNG = 'import "google/type/latlng.proto";'


def test_a_schema_may_be_its_descriptor_in_base64_as_confluents_python_client_has_it(
    tmp_path: Path,
) -> None:
    inner = compiled(proto("message Place { string town = 1; }"), {})
    text = proto(
        "message Trip { Place to = 1; google.protobuf.Timestamp at = 2; }",
        'import "place.proto"; import "google/protobuf/timestamp.proto";',
    )
    outer = compiled(text, {"place.proto": proto("message Place { string town = 1; }")})
    as_base64, place = (
        base64.b64encode(FileDescriptorSet.FromString(one).file[-1].SerializeToString()).decode()
        for one in (outer, inner)
    )
    for reference in (place, proto("message Place { string town = 1; }")):
        types = MessageTypes(compiled(as_base64, {"place.proto": reference}))
        assert [field.name for field in types.named("Trip").fields] == ["to", "at"]
    with pytest.raises(UserError, match=r"imports place\.proto, which does not exist"):
        compiled(as_base64, {})


def test_a_table_of_several_messages_takes_the_one_that_was_asked_for(tmp_path: Path) -> None:
    register(tmp_path, id1=ADDED, **{"t-value": ADDED})
    asked = Decoding(
        format=ValueFormat.PROTOBUF, schema="", registry=str(tmp_path), message="Place"
    )
    found = with_registered_schema(LayoutOptions(decoding=asked), RAW, "t").decoding
    assert found is not None
    assert (found.schema, found.message) == ("town string", "shop.Place")
    value = registered(message(ADDED, "Place")(town="London"), 1, b"\2\2")
    assert decoded(found, value) == ([{"town": "London"}], {})
