"""Numbers and times in JSON: columns have them with all digits, or say what they lack."""

import json
import re
from datetime import UTC, datetime
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from ottla.base.json_texts import Number, read, write  # noqa: E402
from ottla.tables.values.json_leaves import is_lossy, may_have_losses  # noqa: E402
from ottla.tables.values.json_values import JsonDecoder  # noqa: E402
from ottla.tables.values.schema import parse_schema, schema_text  # noqa: E402


def test_long_numbers_that_doubles_hold_and_others_are_distinguished() -> None:
    """As a decoder does that reads each value on its own, however the numbers are written."""
    numbers = [
        *("0.30000000000000004", "-0.00012345678901234", "9007199254740991", "9007199254740993"),
        *("1.2345678901234567e-100", "1e100", "1.5E+200", "1e400", "0.12345678901234567890"),
        *("1234567890123456789012", "100000000000000000000", "-0.1000000000000000055511151231"),
        *("5e-324", "1e-400", "123456.5e-300", "1.0000000000000000", "0.1000000000000000000"),
    ]
    values = [f'{{"x":{one},"s":"1.2.3.4.5.6.7.8.9","i":9007199254740993}}' for one in numbers]
    decoder = JsonDecoder("x double, s string, i bigint", is_rescuing=True)
    found = decoder.decode(pa.array([one.encode() for one in values]))
    assert found.faults == {}
    for number, row in zip(numbers, found.rows.to_pylist(), strict=True):
        is_lost = is_lossy(Number(number))
        assert row["x"] == (None if is_lost else float(number)), number
        assert row["_rescued"] == (f'{{"x":{number}}}' if is_lost else None), number
        assert row["i"] == 9007199254740993
        if is_lost:
            assert may_have_losses(number), number
    assert not any(map(may_have_losses, (numbers[0], numbers[1], numbers[2], numbers[4])))


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ("x bigint", "%s", "value.x is a number of 5000 digits, which its type cannot hold"),
        ("x bigint", "-%s", "value.x is a number of 5000 digits, which its type cannot hold"),
        ("x array<int>", "[%s]", "value.x[] is a number of 5000 digits, which its type"),
        ("x map<string, int>", '{"k":%s}', "value.x{} is a number of 5000 digits, which its"),
        ("x decimal(38,0)", "%s", "Failed to convert JSON to decimal128(38, 0): 777"),
        ("x string", "%s", "value.x is 777"),
        ("x double", "%s", "it has a number with more digits than a double"),
        ("y bigint", "%s", None),
    ],
)
def test_an_integer_of_more_digits_than_python_converts_is_called_one(
    schema: str, value: str, fault: str | None
) -> None:
    text = f'{{"x":{value}}}' % ("7" * 5000)
    decoder = JsonDecoder(schema)
    found = decoder.decode(pa.array([b"{}", text.encode(), b"broken"]))
    assert sorted(found.faults) == ([2] if fault is None else [1, 2])
    if fault is not None:
        assert found.faults[1].startswith(fault)
        assert len(found.faults[1]) < 250


LOOKED_FOR = parse_schema(
    "x double, l array<array<double>>, `é.x` double, at timestamp, ats array<timestamp>, i bigint, "
    "s struct<at: string, ats: array<string>, x: double, i: string>, "
    "u struct<at: timestamp, x: int>"
)
NUMBERS = st.one_of(
    st.sampled_from(["0.1", "1e400", "12345678901234567", "1E-400", "5", "-0.30000000000000004"]),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
CLOCKS = ["", "T02:03:04Z", "t02:03:04z", " 02:03:04.5", "T02:03:04.123456789-0130", "T02:03+14"]
TIMES = st.one_of(
    st.tuples(st.sampled_from(["2026-03-29", "0001-01-02", "9999-12-30"]), st.sampled_from(CLOCKS)),
    st.tuples(st.just("2026-02-28T23:59:59."), st.from_regex(r"[0-9]{1,9}[zZ]", fullmatch=True)),
    st.tuples(st.just("+58000-01-01T02:03:04"), st.sampled_from(["Z", ".123456789z"])),
).map("".join)


@st.composite
def written(draw: st.DrawFn, kind: Any) -> str:
    """The JSON of a value of a type, spelled in one of the ways that JSON has."""
    if draw(st.integers(0, 9)) == 0 and not pa.types.is_struct(kind):
        return "null"
    space = draw(st.sampled_from(["", " ", "\t\r\n"]))
    if pa.types.is_struct(kind):
        fields = draw(st.permutations(list(kind)))
        names = [draw(st.sampled_from([json.dumps(one.name), spelled(one.name)])) for one in fields]
        members = [
            f"{name}{space}:{space}{draw(written(one.type))}"
            for name, one in zip(names, fields, strict=True)
            if draw(st.booleans())
        ]
        return "{" + f",{space}".join(members) + "}"
    if pa.types.is_list(kind):
        items = draw(st.lists(written(kind.value_type), max_size=3))
        return "[" + f"{space},{space}".join(items) + "]"
    if pa.types.is_floating(kind):
        return draw(NUMBERS)
    if pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        return str(draw(st.integers(-(2**bits), 2**bits - 1)))
    text = draw(TIMES)
    if pa.types.is_string(kind):
        text = draw(st.sampled_from([text, f'"x":{draw(NUMBERS)}', f'\\"x":[{draw(NUMBERS)}']))
    return json.dumps(text)


def spelled(text: str) -> str:
    return '"' + "".join(f"\\u{ord(one):04x}" for one in text) + '"'


def read_slowly(value: Any, kind: Any) -> tuple[Any, Any]:
    """What a column has of a parsed value, and what is left of it."""
    if pa.types.is_struct(kind) and value is not None:
        both = {one.name: read_slowly(value.get(one.name), one.type) for one in kind}
        left = {name: both[name][1] for name in value if both[name][1] is not None}
        return {name: has for name, (has, _) in both.items()}, left or None
    if pa.types.is_list(kind) and value is not None:
        items = [read_slowly(one, kind.value_type) for one in value]
        rest = [left for _, left in items]
        return [has for has, _ in items], rest if any(one is not None for one in rest) else None
    if isinstance(value, Number):
        if pa.types.is_integer(kind):
            return int(value), None
        return (None, value) if is_lossy(value) else (float(value), None)
    if pa.types.is_timestamp(kind) and value is not None:
        return (None, value) if value.startswith("+") else (time_of(value), None)
    return value, None


def time_of(text: str) -> datetime:
    day, clock = text[:10], text[11:].upper()
    found = re.fullmatch(r"([0-9:]*)(?:\.([0-9]*))?(Z|[+-].*)?", clock)
    assert found is not None
    whole = datetime.fromisoformat(f"{day}T{found[1] or '00:00'}{found[3] or 'Z'}")
    return whole.replace(microsecond=int((found[2] or "")[:6].ljust(6, "0"))).astimezone(UTC)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(values=st.lists(written(LOOKED_FOR), min_size=1, max_size=4))
def test_numbers_and_times_found_by_name_are_those_of_a_reader_that_looks_at_each(
    values: list[str],
) -> None:
    found = JsonDecoder(schema_text(LOOKED_FOR), is_rescuing=True).decode(
        pa.array([one.encode() for one in values])
    )
    assert found.faults == {}
    for row, text in zip(found.rows.to_pylist(), values, strict=True):
        has, left = read_slowly(read(text), LOOKED_FOR)
        assert row.pop("_rescued") == (None if left is None else write(left))
        assert row == has
    alone = JsonDecoder(schema_text(LOOKED_FOR)).decode(pa.array([one.encode() for one in values]))
    assert sorted(alone.faults) == [
        place for place, one in enumerate(values) if read_slowly(read(one), LOOKED_FOR)[1]
    ]


@pytest.mark.parametrize(
    ("number", "is_kept"),
    [
        ("1.5", False),
        ("0.1", False),
        ("0.10000000000000001", False),
        ("0.10000000000000000000", False),
        ("0.30000000000000004", False),
        ("1152921504606846976", False),
        ("10000000000000000000000", False),
        ("-0.0", False),
        ("5e-324", False),
        ("1.7976931348623157e308", False),
        ("9007199254740993", True),
        ("-9007199254740993", True),
        ("12345678901234567890", True),
        ("3.14159265358979323846", True),
        ("1e400", True),
        ("-1e999999", True),
        ("1e99999999999999999999", True),
        ("1e-400", True),
    ],
)
def test_a_number_that_a_double_does_not_show_is_kept_beside_it_with_every_digit(
    number: str, is_kept: bool
) -> None:
    for schema, text in (
        ("x double", f'{{"x":{number}}}'),
        ("x array<double>", f'{{"x":[{number}]}}'),
        ("x map<string, double>", f'{{"x":{{"k":{number}}}}}'),
        ("x struct<y: double>", f'{{"x":{{"y":{number}}}}}'),
    ):
        values = pa.array([b"{}", text.encode(), b'{"x":null}'])
        found = JsonDecoder(schema, is_rescuing=True).decode(values)
        assert found.faults == {}
        assert [one["_rescued"] for one in found.rows.to_pylist()] == [
            None,
            text if is_kept else None,
            None,
        ]
        alone = JsonDecoder(schema).decode(values)
        assert list(alone.faults) == ([1] if is_kept else [])


@pytest.mark.slow
def test_nanoseconds_and_long_integers_beside_doubles_take_little_longer() -> None:
    """Some twelve times as long while each value was parsed in Python."""

    def seconds(fraction: str, first_id: int) -> float:
        at = f"2026-03-29T02:30:00.{fraction}Z"
        values = pa.array(
            json.dumps({"at": at, "id": first_id + one, "x": one / 4}).encode()
            for one in range(2000)
        )
        decoder = JsonDecoder("at timestamp, id bigint, x double", is_rescuing=True)
        times = []
        for _ in range(8):
            began = process_time()
            assert decoder.decode(values).faults == {}
            times.append(process_time() - began)
        return min(times)

    usual = seconds("123456", 1)
    assert seconds("123456789", 1) < 4 * usual
    assert seconds("123456", 12345678901234567) < 4 * usual


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-03-29T02:30:00.1234567Z", "2026-03-29T02:30:00.123456"),
        ("2026-03-29T02:30:00.12345678Z", "2026-03-29T02:30:00.123456"),
        ("2026-03-29T02:30:00.999999999Z", "2026-03-29T02:30:00.999999"),
        ("2026-03-29T02:30:00.123456789+02:00", "2026-03-29T00:30:00.123456"),
        ("2026-03-29t02:30:00z", "2026-03-29T02:30:00"),
        ("2026-03-29t02:30:00.5-00:30", "2026-03-29T03:00:00.500000"),
        ("2026-03-29T02:30:00.123456789z", "2026-03-29T02:30:00.123456"),
        ("2026-03-29 02:30:00.123456789", "2026-03-29T02:30:00.123456"),
        ("2026-03-29T02:30:00.5Z", "2026-03-29T02:30:00.500000"),
    ],
)
def test_times_of_rfc_3339_have_up_to_nine_digits_and_letters_in_either_case(
    text: str, shown: str
) -> None:
    value = json.dumps({"at": text, "same": text}).encode()
    found = JsonDecoder("at timestamp, same string").decode(pa.array([value, b"{}"]))
    assert found.faults == {}
    row = found.rows.to_pylist()[0]
    assert row["at"].isoformat() == f"{shown}+00:00"
    assert row["same"] == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-29T02:30:00.1234567890Z",
        "2026-13-29T02:30:00.123456789Z",
        "2026-03-29t25:30:00z",
        "2026-02-30T02:30:00.1234567Z",
        "2026-03-29T02:30:00.Z",
    ],
)
def test_what_is_no_time_is_a_fault_however_it_is_spelled(text: str) -> None:
    value = json.dumps({"at": text}).encode()
    assert list(JsonDecoder("at timestamp").decode(pa.array([value])).faults) == [0]


@pytest.mark.parametrize("text", ["+10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"])
def test_a_time_in_a_year_that_no_column_has_is_kept_beside_it(text: str) -> None:
    value = json.dumps({"at": text}, separators=(",", ":")).encode()
    found = JsonDecoder("at timestamp", is_rescuing=True).decode(pa.array([value]))
    assert found.rows.to_pylist() == [{"at": None, "_rescued": value.decode()}]
