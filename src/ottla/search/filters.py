"""`--where`: selects records, in a small language without function calls.

    value ~ 'error|fail' and not header.test
    key = alice or .order.total >= 100
    timestamp >= 2026-01-31T12:00 and partition = 3

A test is a field (`fields.py`), one of `= == != < <= > >= ~ !~`, and a literal: a quoted text, a
number, `true`, `false`, `null`, or a word without spaces. A field alone is true if it exists and is
neither null nor false; `key is null` and `key is not null` test for nulls. `~` searches a regular
expression (`patterns.py`). A missing field is null: equal to null only, and neither less nor
greater than anything. `and`, `or`, `not` and parentheses combine tests.
"""

import json
from collections.abc import Callable
from typing import Any

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.search.fields import Entry, Field, FieldReader, parse_field
from ottla.search.patterns import compiled
from ottla.search.positions import parse_time
from ottla.search.words import NO_WORDS, Words, either, exactly, in_json

Filter = Callable[[FieldReader, Entry], bool]

EXAMPLE = 'such as --where "key = alice and .total > 100"'

_SPACE = lazy_pattern(r"\s*")
_OPERATOR = lazy_pattern(r"==|!=|!~|<=|>=|=|<|>|~")
_IS_NULL = lazy_pattern(r"is\s+(?P<not>not\s+)?null\b")
_WORD = lazy_pattern(r"(and|or|not)\b|&&|\|\||!|\(|\)")
_LITERAL = lazy_pattern(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s()'"][^\s()]*)""")
_PLAIN = lazy_pattern(r"[\w /:,;@=<>\"'-]*")
"""Regular expressions that only match themselves."""
_ESCAPE = lazy_pattern(r"\\(['\"\\])")

MOST_NESTED = 50
"""The maximum nesting of parentheses and nots: each level uses stack in every test."""

_SPELLINGS = {"&&": "and", "||": "or", "!": "not"}
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Literal:
    """The value that a field is compared with; `number` if a bare word is one."""

    text: str
    value: Any
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A test, and the bytes that a batch must contain if one of its records can pass it.

    `words` are valid only for JSON: other decoders may decode a text from other bytes.
    """

    test: Filter
    words: Words = NO_WORDS


def parse_filter(text: str, now_ms: int, option: str = "--where") -> Filter:
    """Parses an expression; raises `UserError` with the position of the mistake in `option`."""
    return _Parser(text, now_ms, option).parse().test


def parse_condition(text: str, now_ms: int) -> Condition:
    """Like `parse_filter`, with the words."""
    return _Parser(text, now_ms).parse()


def all_conditions(several: list[Condition]) -> Condition | None:
    """Combines conditions by `and`; `None` if there is none."""
    test = all_of([one.test for one in several])
    return test and Condition(test, sum((one.words for one in several), NO_WORDS))


def all_of(filters: list[Filter]) -> Filter | None:
    """Combines filters by `and`; `None` if there is none."""
    if len(filters) < 2:
        return filters[0] if filters else None
    return lambda reader, entry: all(one(reader, entry) for one in filters)


class _Parser:
    """By recursive descent: or, and, not, a test or parentheses."""

    def __init__(self, text: str, now_ms: int, option: str = "--where") -> None:
        self._text = text
        self._option = option
        self._now_ms = now_ms
        self._position = 0
        self._depth = 0

    def parse(self) -> Condition:
        found = self._either()
        self._skip_space()
        if self._position < len(self._text):
            raise self._wrong("and, or, or the end is expected")
        return found

    def _either(self) -> Condition:
        several = [self._both()]
        while self._takes("or"):
            several.append(self._both())
        if len(several) == 1:
            return several[0]
        tests = [one.test for one in several]
        return Condition(
            lambda reader, entry: any(one(reader, entry) for one in tests),
            either([one.words for one in several]),
        )

    def _both(self) -> Condition:
        several = [self._negated()]
        while self._takes("and"):
            several.append(self._negated())
        return all_conditions(several) or several[0]

    def _negated(self) -> Condition:
        if self._takes("not"):
            inner = self._nested(self._negated).test
            return Condition(lambda reader, entry: not inner(reader, entry))
        if self._takes("("):
            found = self._nested(self._either)
            if not self._takes(")"):
                raise self._wrong("a closing parenthesis is expected")
            return found
        return self._test()

    def _nested(self, parse: Callable[[], Condition]) -> Condition:
        if self._depth == MOST_NESTED:
            raise self._wrong(f"at most {MOST_NESTED} parentheses and nots, one in another")
        self._depth += 1
        found = parse()
        self._depth -= 1
        return found

    def _test(self) -> Condition:
        self._skip_space()
        try:
            field, self._position = parse_field(self._text, self._position)
        except UserError as error:
            raise self._wrong(str(error)) from error
        if field.root == "headers":
            raise self._wrong("name one header: header.trace-id")
        self._skip_space()
        if nothing := _IS_NULL.match(self._text, self._position):
            self._position = nothing.end()
            is_wanted = nothing["not"] is None
            return Condition(lambda reader, one: (reader.get(one, field) is None) is is_wanted)
        operator = _OPERATOR.match(self._text, self._position)
        if operator is None:
            return Condition(lambda reader, entry: reader.get(entry, field) not in (None, False))
        self._position = operator.end()
        literal = self._literal()
        words = _words(field, operator[0], literal)
        return Condition(self._comparison(field, operator[0], literal), words)

    def _literal(self) -> Literal:
        self._skip_space()
        found = _LITERAL.match(self._text, self._position)
        if found is None:
            raise self._wrong("a value to compare with is expected")
        self._position = found.end()
        if found[3] is None:
            # Other escapes belong to the regular expression.
            text = _ESCAPE.sub(r"\1", found[1] if found[1] is not None else found[2])
            return Literal(text, text)
        word = found[3]
        if word in _CONSTANTS:
            return Literal(word, _CONSTANTS[word])
        number = _number(word)
        return Literal(word, word if number is None else number, number)

    def _comparison(self, field: Field, operator: str, literal: Literal) -> Filter:
        if operator in ("~", "!~"):
            return self._search(field, literal, is_wanted=operator == "~")
        if field.root == "timestamp" and literal.value is not None:
            time_ms = parse_time(literal.text, self._now_ms)
            literal = Literal(literal.text, time_ms, float(time_ms))
        compare = _ORDERS.get(operator)
        if compare is not None:
            return lambda reader, entry: compare(_order(reader.get(entry, field), literal))
        is_wanted = operator != "!="
        return lambda reader, entry: _equals(reader.get(entry, field), literal) is is_wanted

    def _search(self, field: Field, literal: Literal, *, is_wanted: bool) -> Filter:
        try:
            pattern = compiled(literal.text)
        except UserError as error:
            raise self._wrong(str(error)) from error

        def test(reader: FieldReader, entry: Entry) -> bool:
            data = as_bytes(reader.get(entry, field))
            return (data is not None and pattern.search(data) is not None) is is_wanted

        return test

    def _takes(self, word: str) -> bool:
        self._skip_space()
        found = _WORD.match(self._text, self._position)
        if found is None or _SPELLINGS.get(found[0], found[0]) != word:
            return False
        self._position = found.end()
        return True

    def _skip_space(self) -> None:
        found = _SPACE.match(self._text, self._position)
        assert found is not None
        self._position = found.end()

    def _wrong(self, reason: str) -> UserError:
        at = f"at character {self._position + 1}"
        return UserError(f"{self._option} {self._text!r}: {at}: {reason}; {EXAMPLE}")


def _words(field: Field, operator: str, literal: Literal) -> Words:
    """The bytes that a match of a comparison must contain, if known."""
    if field.root not in ("key", "value", "header"):
        return NO_WORDS
    is_raw = field.root == "header" or not field.steps
    if operator == "~":
        return exactly(literal.text) if is_raw and _PLAIN.fullmatch(literal.text) else NO_WORDS
    if operator not in ("=", "==") or literal.value is None:
        return NO_WORDS
    if is_raw:
        return exactly(literal.text)
    # A number may be written in many ways, and true and false occur in most records.
    return in_json(literal.text) if isinstance(literal.value, str) else NO_WORDS


_ORDERS: dict[str, Callable[[int | None], bool]] = {
    "<": lambda order: order == -1,
    "<=": lambda order: order in (-1, 0),
    ">": lambda order: order == 1,
    ">=": lambda order: order in (0, 1),
}


def as_bytes(value: Any) -> bytes | None:
    """Returns a field as the text in which a pattern is searched."""
    match value:
        case None | bytes():
            return value
        case str():
            return _utf8(value)
    try:
        return _utf8(json.dumps(value, ensure_ascii=False, default=str))
    except RecursionError:
        return None


def _utf8(text: str) -> bytes:
    """Restores bytes that were escaped. JSON may contain half a character (`\\ud800`)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def _number(text: str | bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _equals(value: Any, literal: Literal) -> bool:
    match value:
        case None | bool():
            return value is literal.value
        case bytes():
            return literal.value is not None and value == literal.text.encode()
        case str():
            return literal.value is not None and value == literal.text
    return bool(value == literal.value)


def _order(value: Any, literal: Literal) -> int | None:
    """-1, 0 or 1; `None` for what has no order. Numbers are compared as numbers where both are."""
    if literal.number is not None:
        number = _number(value) if isinstance(value, str | bytes) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        return (number > literal.number) - (number < literal.number)
    if literal.value is None or isinstance(literal.value, bool):
        return None
    match value:
        case bytes():
            wanted = literal.text.encode()
            return (value > wanted) - (value < wanted)
        case str():
            return (value > literal.text) - (value < literal.text)
    return None
