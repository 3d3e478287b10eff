"""`--format`: kcat's letters, Python's fields, and the named formats."""

import json

import pytest

from ottla.base.errors import UserError
from ottla.cli.records.templates import Style, UnreadableError, parse_template
from ottla.search.encodings import encoding_of
from ottla.search.fields import Entry
from tests.unit.cli.records.support import entry

ORDER = entry(b'{"total": 120, "c": {"n": "Ada"}}', b"alice", headers=(("h", b"1"), ("n", None)))


PLAIN = Style()


def shown(template: str, of: Entry = ORDER, style: Style = PLAIN) -> bytes:
    return parse_template(template, style)(of)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (r"%t [%p] at %o: %k\n", b"t [3] at 7: alice\n"),
        (r"%T %K %S %V|%h|%%", b"1700000000123 5 33 33|h=1,n=NULL|%"),
        (r"\x00%k\t\e", b"\x00alice\t\x1b"),
        (r'{"k": "%k"}', b'{"k": "alice"}'),
        ("{topic}-{partition} {offset:>4} {key}", b"t-3    7 alice\n"),
        ("{.total} {value.c.n:>5} {.c} {.gone}|", b'120   Ada {"n":"Ada"} |\n'),
        ("{timestamp} {timestamp_ms}", b"2023-11-14T22:13:20.123+00:00 1700000000123\n"),
        ("{timestamp:%H:%M} {header.h} {headers}", b"22:13 1 h=1,n=NULL\n"),
        ("{{{key:.2}}}", b"{al}\n"),
        ("value", b'{"total": 120, "c": {"n": "Ada"}}\n'),
    ],
)
def test_a_record_is_printed_as_the_format_says(template: str, text: bytes) -> None:
    assert shown(template) == text


def test_bytes_are_printed_as_they_are() -> None:
    assert shown("%s", entry(b"\xff\x00")) == b"\xff\x00"
    assert shown("{value}", entry(b"\xff\x00")) == b"\xff\x00\n"
    assert shown("%R%s", entry(b"abc")) == b"\0\0\0\x03abc"


def test_a_null_is_nothing_or_a_word() -> None:
    null = entry(None)
    assert shown("%k|%s|%S|%R", null) == b"||-1|\xff\xff\xff\xff"
    assert shown("%k|%s", null, Style(null=b"NULL")) == b"NULL|NULL"
    assert shown("line", null).endswith(b"\tnull\tnull\n")


def test_a_line_is_one_line_whatever_the_bytes_are() -> None:
    one = entry(b"tea\tand\nmilk\xfe", b"k", headers=(("h", b"\xff"), ("none", None)))
    assert shown("line", one) == (
        b"t-3\t7\t2023-11-14T22:13:20.123+00:00\tk\ttea\\tand\\nmilk\\xfe\th=\\xff\tnone=null\n"
    )


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert b"\t9223372036854775807ms\t" in shown("line", entry(timestamp_ms=2**63 - 1))
    assert shown("{timestamp:%H}", entry(timestamp_ms=2**63 - 1)) == b"9223372036854775807ms\n"
    assert b"\t-\t" in shown("line", entry(timestamp_ms=-1, timestamp_type=None))


def test_json_has_text_where_it_is_utf8_and_base64_by_another_name_where_it_is_not() -> None:
    one = entry(b"\xff", "é".encode(), headers=(("h", b"\xfe"),))
    assert json.loads(shown("json", one)) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1_700_000_000_123,
        "timestamp_type": "CreateTime",
        "key": "é",
        "value_base64": "/w==",
        "headers": [{"key": "h", "value_base64": "/g=="}],
    }


def test_encodings_of_values() -> None:
    def of(name: str) -> Style:
        return Style(value=encoding_of("value", name, None))

    assert shown("value", entry(b"\x00\xff"), of("hex")) == b"00ff\n"
    assert shown("value", entry(b"\x00\xff"), of("base64")) == b"AP8=\n"
    assert shown("value", entry(b'{"a":\n 1}'), of("json")) == b'{"a":1}\n'
    assert json.loads(shown("json", ORDER, of("json")))["value"]["total"] == 120
    assert json.loads(shown("json", entry(b"\xff"), of("hex")))["value_hex"] == "ff"
    with pytest.raises(UnreadableError, match="t-3 at offset 7: its value is not json"):
        shown("value", entry(b"{"), of("json"))


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("hello", "has no field of a record"),
        ("%z", "unknown letter %z"),
        ("{colour}", "there is no field 'colour'"),
        ("{value.__class__!r}", "use only {value.__class__}"),
        ("{offset:zz}", "{offset:zz}"),
        ("{key", "expected '}'"),
    ],
)
def test_a_format_that_is_none_is_explained(template: str, told: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_template(template, Style())
    assert told in str(raised.value)
