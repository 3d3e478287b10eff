"""Keys, and headers as columns, decoded by the same rules as values."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from ottla.base.errors import UserError  # noqa: E402
from ottla.record.columns import schema as record_schema  # noqa: E402
from ottla.schema_registry.framing import PREFIX  # noqa: E402
from ottla.schema_registry.registry import RegistryLogin  # noqa: E402
from ottla.tables.columns.identity import Upsert  # noqa: E402
from ottla.tables.layout import (  # noqa: E402
    RAW,
    LayoutOptions,
    PinnedDecoding,
    TableLayout,
    first_layout,
    layout_fields,
    next_layout,
    parse_layout,
)
from ottla.tables.schemas import with_registered_schema  # noqa: E402
from ottla.tables.values.decoder import Decoding, ValueDecoder, ValueFormat  # noqa: E402
from ottla.tables.values.opening import open_decoder  # noqa: E402
from ottla.tables.values.record_decoder import (  # noqa: E402
    DecodedRecords,
    RecordDecoder,
    RecordDecoding,
)

TEXT = Decoding(format=ValueFormat.TEXT, schema="string")
JSON_ID = Decoding(format=ValueFormat.JSON, schema="id bigint")
Headers = list[tuple[str, bytes | None]]


def records(*each: tuple[bytes | None, bytes | None, Headers]) -> Any:
    rows = [
        {
            "offset": offset,
            "timestamp_ms": 0,
            "timestamp_type": 0,
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": one} for name, one in headers],
        }
        for offset, (key, value, headers) in enumerate(each)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=record_schema())


def decoded(of: RecordDecoding, *each: tuple[bytes | None, bytes | None, Headers]) -> Any:
    found: DecodedRecords = RecordDecoder(of).decode(records(*each))
    return {name: one.to_pylist() for name, one in found.columns.items()}, dict(found.faults)


def test_what_is_not_asked_for_is_not_touched() -> None:
    assert decoded(RecordDecoding(), (b"k", b"v", [])) == ({}, {})


def test_text_keys_are_utf_8_and_others_faults() -> None:
    of = RecordDecoding(key=TEXT)
    columns, faults = decoded(of, ("é".encode(), b"", []), (b"\xff", b"", []), (None, b"", []))
    assert columns == {"key": ["é", None, None]}
    assert faults == {1: "its key: it is not UTF-8"}


def test_a_record_whose_key_and_value_are_broken_is_one_fault() -> None:
    of = RecordDecoding(key=JSON_ID, value=JSON_ID)
    columns, faults = decoded(
        of, (b'{"id": 1}', b'{"id": 2}', []), (b"x", b"y", []), (b"x", b"{}", [])
    )
    assert columns == {
        "key": [{"id": 1}, None, None],
        "value": [{"id": 2}, None, {"id": None}],
    }
    assert faults == {1: "it is not a JSON object", 2: "its key: it is not a JSON object"}


HEADER = "trace string, attempt int, ok boolean, at timestamp, raw binary, `a b` double"


def test_headers_are_fields_by_their_names_and_the_last_of_a_name_counts() -> None:
    columns, faults = decoded(
        RecordDecoding(header=HEADER),
        (
            None,
            None,
            [
                ("trace", b"first"),
                ("trace", b"last"),
                ("attempt", b"7"),
                ("ok", b"true"),
                ("at", b"2026-01-31T13:00:00Z"),
                ("raw", b"\xff"),
                ("a b", b"1.5"),
                ("other", b"\xff"),
            ],
        ),
        (None, None, [("trace", None)]),
        (None, None, []),
    )
    assert faults == {}
    nothing = dict.fromkeys(("trace", "attempt", "ok", "at", "raw", "a b"))
    assert columns["header"] == [
        {
            "trace": "last",
            "attempt": 7,
            "ok": True,
            "at": datetime.datetime(2026, 1, 31, 13, tzinfo=datetime.UTC),
            "raw": b"\xff",
            "a b": 1.5,
        },
        nothing,
        nothing,
    ]


def test_a_header_that_is_no_such_thing_is_a_fault_that_names_it() -> None:
    columns, faults = decoded(
        RecordDecoding(header=HEADER),
        (None, None, [("attempt", b"many")]),
        (None, None, [("trace", b"\xff")]),
        (None, None, [("attempt", b"1")]),
    )
    assert columns["header"][2]["attempt"] == 1
    assert faults == {
        0: "header attempt: it is not of type int: 'many'",
        1: "header trace: it is not UTF-8",
    }


@pytest.mark.parametrize("schema", ["a array<int>", "a struct<b: int>", "a date", "a decimal(3,1)"])
def test_headers_are_not_made_of_types_that_text_has_no_form_of(schema: str) -> None:
    with pytest.raises(UserError, match="header a: a column of"):
        first_layout(LayoutOptions(header=schema))


def test_keys_name_their_schema_in_a_registry_and_may_be_one_number(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    for name in ("7", "t-key"):
        (tmp_path / f"{name}.avsc").write_text(json.dumps("long"))
    asked = LayoutOptions(key=Decoding(format=ValueFormat.AVRO, schema="", registry=str(tmp_path)))
    layout = first_layout(with_registered_schema(asked, RAW, "t"))
    assert layout.row_schema.startswith("key bigint, value binary, ")
    guid = "89791762-2336-4186-9674-299b90a802e2"
    (tmp_path / f"{guid}.avsc").write_text(json.dumps("int"))
    header = b"\1" + bytes.fromhex(guid.replace("-", ""))
    columns, faults = decoded(
        layout.record_decoding,
        (PREFIX.pack(0, 7) + b"\x08", b"x", []),
        (b"\x08", b"x", [("__key_schema_id", header)]),
        (b"\x08", b"x", [("__value_schema_id", header)]),
    )
    assert columns == {"key": [4, 4, None]}
    assert list(faults) == [2]
    assert "its key: it does not begin with the prefix" in faults[2]


def test_how_keys_and_headers_are_decoded_is_pinned_and_may_grow() -> None:
    before = first_layout(LayoutOptions(key=JSON_ID, header="trace string"))
    before = parse_layout(json.loads(json.dumps(layout_fields(before))))
    assert before.decoding is None
    assert before.row_schema == (
        "key struct<id: bigint>, value binary, partition int, offset bigint, timestamp timestamp, "
        "timestamp_type int, headers array<struct<key: string, value: binary>>, "
        "header struct<trace: string>, topic string, commit_id bigint"
    )
    assert next_layout(before, LayoutOptions(), 3) is before
    more = Decoding(format=ValueFormat.JSON, schema="id bigint, at timestamp")
    asked = LayoutOptions(key=more, header="trace string, attempt int")
    grown = next_layout(before, asked, 3)
    assert grown.record_decoding_of(2) == before.record_decoding
    assert grown.record_decoding_of(3).key == more
    for refused, words in (
        (LayoutOptions(key=TEXT), "keys are decoded as json, which cannot change"),
        (LayoutOptions(decoding=JSON_ID), "values are raw, which cannot change"),
        (LayoutOptions(header="attempt int"), "header.trace is gone"),
        (LayoutOptions(key=Decoding(format=ValueFormat.JSON, schema="x int")), "key.id is gone"),
    ):
        with pytest.raises(UserError, match=words):
            next_layout(grown, refused, 4)
    later = next_layout(TableLayout(), LayoutOptions(header="trace string"), 5)
    assert later.record_decoding_of(4).is_raw


def test_a_table_of_the_latest_rows_keeps_the_bytes_of_keys() -> None:
    with pytest.raises(UserError, match="leave out --decode-key"):
        first_layout(LayoutOptions(key=TEXT, upsert=Upsert()))


def test_a_layout_opens_its_decoder_once_however_often_its_columns_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Decoding] = []

    def open_noting(decoding: Decoding, login: RegistryLogin | None = None) -> ValueDecoder:
        opened.append(decoding)
        return open_decoder(decoding, login)

    monkeypatch.setattr("ottla.tables.values.record_decoder.open_decoder", open_noting)
    names = [f"once_{number}" for number in range(2)]
    for name in names:
        value = Decoding(format=ValueFormat.JSON, schema=f"{name} bigint")
        pinned = PinnedDecoding(since_commit=0, record=RecordDecoding(value=value))
        layout = TableLayout(decodings=(pinned,))
        for _ in range(2):
            assert layout.columns.field("value").type.names == [name]
            assert f"struct<{name}: bigint>" in layout.row_schema
    assert [one.schema for one in opened] == [f"{name} bigint" for name in names]
