"""`--where`: the small language, and what it says of a mistake."""

import pytest

from ottla.base.errors import UserError
from ottla.search.fields import Entry, FieldReader
from ottla.search.filters import all_of, parse_filter
from tests.unit.cli.records.support import entry

NOW_MS = 1_700_000_003_600

ORDER = entry(
    b'{"total": 120, "id": "5", "paid": true, "items": [{"price": 7.5}], "note": null, "a b": 1}',
    b"alice",
    headers=(("trace-id", b"old"), ("trace-id", b"abc"), ("none", None), ("x.y", b"1")),
)


def holds(text: str, of: Entry = ORDER) -> bool:
    return parse_filter(text, NOW_MS)(FieldReader(), of)


@pytest.mark.parametrize(
    "text",
    [
        "key = alice",
        "key == 'alice'",
        'key != "bob"',
        "key ~ ^al",
        "key !~ 'b(o|e)b'",
        "value ~ '\"total\": \\d+'",
        ".total > 100",
        ".total>=120 and .total <= 120",
        "value.total < 1e3",
        ".id = 5",
        ".id > 4",
        "key > alibi and key < b",
        ".items[0].price = 7.5",
        ".items[-1].price < 8",
        ".paid",
        ".paid = true",
        "not .note",
        ".note = null",
        ".missing = null",
        ".missing != 5",
        'value["a b"] = 1',
        "header.trace-id = abc",
        "headers['x.y'] = 1",
        "header.none = null and not header.none",
        "header.none is null and header.trace-id is not null and header.absent is null",
        "key is not  null and .note is null and .missing is null and .id is not null",
        "header.trace-id[0] = old and header.trace-id[-1] = abc and header['trace-id'][1] = abc",
        "header.trace-id[2] is null",
        "topic = t and partition = 3 and offset >= 7",
        "timestamp > 2023-11-14T22:00 and timestamp < 1700000001",
        "timestamp >= 2h or key = nobody",
        "(key = bob or .total = 120) && !(.total = 1)",
        "key = bob or key = alice and .paid",
        ".items ~ 7.5",
    ],
)
def test_a_test_that_holds(text: str) -> None:
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "key = Alice",
        ".total > 120",
        ".missing > 0",
        ".missing < 0",
        ".paid > 0",
        ".paid = 1",
        ".id = '6'",
        "header.none ~ .",
        ".total.deeper = 1",
        "key.a = 1",
        ".note > a",
        "key = null",
        "key is null",
        "value is null or timestamp is null",
        "timestamp = null",
    ],
)
def test_a_test_that_does_not_hold(text: str) -> None:
    assert not holds(text)


def test_nulls_and_bytes_that_are_no_json_have_no_members() -> None:
    assert not holds(".a", entry(None))
    assert holds("value = null", entry(None))
    assert holds("value is null and key is not null", entry(None, b"k"))
    assert not holds(".a", entry(b"\xff{"))
    assert holds("value ~ '\\xff'", entry(b"\xff{"))
    assert holds("timestamp = null", entry(timestamp_ms=-1, timestamp_type=None))


def test_an_expression_takes_no_longer_than_the_value_is_long() -> None:
    """Python's own engine would take years for this one."""
    assert not holds("value ~ '(a+)+b'", entry(b"a" * 100))


@pytest.mark.parametrize("expression", ["(?=a)", "(?!a)b", r"(a)\\1"])
def test_what_only_backtracking_can_match_is_refused(expression: str) -> None:
    with pytest.raises(UserError, match="not a regular expression of RE2"):
        parse_filter(f"value ~ '{expression}'", NOW_MS)


@pytest.mark.parametrize("text", [".a = 1", ".a ~ 7", "not .a[0].b"])
@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, b'{"a": ' * 50_000, b'{"a": ' + b"1" * 5000 + b"}", b'{"a": "\\ud800"}'],
    ids=["a deep list", "a deep object", "a long number", "half a character"],
)
def test_json_that_is_made_to_break_a_reader_is_a_value_like_others(
    value: bytes, text: str
) -> None:
    """None is as deep, or as long, as what Python's own reader takes; the last is no text."""
    parse_filter(text, NOW_MS)(FieldReader(), entry(value))


def test_parentheses_and_nots_may_stand_in_one_another() -> None:
    assert holds("not " * 24 + "(" * 24 + "key = alice" + ")" * 24)


def test_all_of_several_tests_must_hold() -> None:
    tests = [parse_filter(one, NOW_MS) for one in ("key = alice", ".total > 500")]
    both = all_of(tests)
    assert both is not None
    assert not both(FieldReader(), ORDER)
    assert all_of([]) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at character 1"),
        ("key =", "at character 6: a value to compare with is expected"),
        ("key = a b", "at character 9: and, or, or the end is expected"),
        ("(key = a", "a closing parenthesis is expected"),
        ("colour = red", "there is no field 'colour'"),
        ("value ~ '['", "is not a regular expression"),
        ("timestamp > soon", "'soon' is not a time"),
        ("headers ~ a", "name one header"),
        ("header = a", "a header is named as"),
        ("header.a.b = 1", "its first value header.trace-id[0]"),
        ("key is", "at character 5: and, or, or the end is expected"),
        ("key is nullable", "at character 5: and, or, or the end is expected"),
        ("offset.a = 1", "offset has no fields of its own"),
        ("__import__('os')", "there is no field '__import__'"),
        ("(" * 5000 + "key", "at most 50 parentheses and nots, one in another"),
        ("not " * 5000 + "key", "at most 50 parentheses and nots, one in another"),
    ],
)
def test_a_mistake_is_shown_with_its_place_and_an_example(text: str, told: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_filter(text, NOW_MS)
    assert told in str(raised.value)
