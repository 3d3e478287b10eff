"""Numbers and times in JSON that a column cannot have, although Arrow's parser may read them.

Arrow reads any number into a double column, however many of its digits the double lacks. Values
with such a number are found in three steps, of which each leaves few to the next one: a regular
expression finds a long number in a double column; it is not written as a double is; it is not
what the double shows. These values are parsed in Python, with null in place of the number, so
that it is kept in the rescued column; so are those with a time in a year that no column has.
"""

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from ottla.base.json_texts import Number
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.tables.values.json_maps import Rewrite, rewrite_of

_LONG_NUMBER = r"[0-9](?:[0-9.]{15}|[0-9.]*[eE][+-]?[0-9]{3})"
_WRITTEN_LONG = lazy_pattern(r"-?[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|-?[0-9.]+[eE][+-]?[0-9]{3,}")
"""All of each number in which `_LONG_NUMBER` finds something."""
_IS = r"[ \t\n\r]*:[ \t\n\r]*"
_NUMBERS = r"(?:\[[^\"{}]*|-?)"
"""What may be between a name and a number of its value: brackets, and other numbers."""
_WITH_ESCAPE = r'\\.(?:[^"\\]|\\.)*"'
"""The end of a string that is not written as it is, so that as a name it may be any."""
_MOST_NAMES = 100
"""The most names that are looked for in a text."""
_TIME_WITHOUT_COLUMN = lazy_pattern(
    r"(?:[+-][0-9]{5,}|0000)-[0-9]{2}-[0-9]{2}[Tt ][0-9:]+(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_YEAR_WITHOUT_COLUMN = r'"(?:[+-][0-9]{5,}|0000)-'
_MOST_DIGITS = 767
"""No double has more significant digits, written out."""


@dataclass(frozen=True, slots=True)
class LossyTexts:
    """Finds the values of a type that may have a number or a time without a column."""

    long_numbers: str | None
    """A regular expression for long numbers in double columns; `None` if there are none."""
    members: "re.Pattern[str] | None"
    """Finds the numbers in double columns; `None`: they may be anywhere."""
    has_times: bool

    def among(self, texts: Any) -> Any:
        """A mask; `None` if there are none."""
        import pyarrow.compute as pc

        masks = []
        if self.long_numbers is not None:
            is_long = pc.match_substring_regex(texts, self.long_numbers)
            if pc.any(is_long).as_py():
                masks.append(pc.replace_with_mask(is_long, is_long, self._lossy(texts, is_long)))
        if self.has_times:
            masks.append(pc.match_substring_regex(texts, _YEAR_WITHOUT_COLUMN))
        found = pc.or_(*masks) if len(masks) > 1 else next(iter(masks), None)
        return found if found is not None and pc.any(found).as_py() else None

    def _lossy(self, texts: Any, is_long: Any) -> Any:
        """Which of the texts with long numbers have one that is not written as a double is."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = texts.filter(is_long)
        listed = found.to_pylist()
        members = self.members
        if (
            members is not None
            and pc.any(pc.match_substring_regex(found, _WITH_ESCAPE + _IS)).as_py()
        ):
            members = None
        # Most programs write doubles as Arrow does: all are compared at once.
        numbers = pa.array(_numbers_in("\n".join(listed), members), pa.string())
        try:
            shown = numbers.cast(pa.float64()).cast(pa.string())
            numbers = numbers.filter(pc.not_equal(shown, numbers))
        except pa.ArrowInvalid:
            pass
        are_sound = all(map(_is_written_double, numbers.to_pylist()))
        lossy = [not are_sound and may_have_losses(one, members) for one in listed]
        return pa.array(lossy, pa.bool_())


def may_have_losses(text: str, members: "re.Pattern[str] | None" = None) -> bool:
    """Whether a long number of a text, or of a string in it, is not as a double is written.

    Programs write doubles with 16 and 17 digits; with this check they need not be parsed here.
    """
    return not all(map(_is_written_double, _numbers_in(text, members)))


def _numbers_in(text: str, members: "re.Pattern[str] | None") -> list[str]:
    """The long numbers of a text, or of those members in it."""
    if members is not None:
        text = " ".join(members.findall(text))
    return _WRITTEN_LONG.findall(text)


def lossy_texts(kind: Any) -> LossyTexts | None:
    """Of a struct type; `None` for types that have all numbers and times."""
    import pyarrow.types as types

    has_times = any(map(types.is_timestamp, _leaf_types(kind)))
    names = set(_names_of_doubles(kind, ""))
    if not names:
        return LossyTexts(None, None, has_times) if has_times else None
    if None in names or len(names) > _MOST_NAMES:
        return LossyTexts(_LONG_NUMBER, None, has_times)
    named = "|".join(re.escape(name) for name in sorted(filter(None, names)))
    long_numbers = f'(?:"(?:{named})"|{_WITH_ESCAPE}){_IS}{_NUMBERS}{_LONG_NUMBER}'
    members = re.compile(f'"(?:{named})"{_IS}(\\[[^"{{}}]*|[-+.0-9eE]+)')
    return LossyTexts(long_numbers, members, has_times)


def _names_of_doubles(kind: Any, name: str | None) -> Iterator[str | None]:
    """The names of members that are doubles, or lists of them; `None` for items of maps."""
    import pyarrow.types as types

    if types.is_floating(kind):
        yield name
    elif types.is_list(kind):
        yield from _names_of_doubles(kind.value_type, name)
    elif types.is_map(kind):
        yield from _names_of_doubles(kind.item_type, None)
    else:
        for index in range(kind.num_fields):
            yield from _names_of_doubles(kind.field(index).type, kind.field(index).name)


def _leaf_types(kind: Any) -> Iterator[Any]:
    if not kind.num_fields:
        yield kind
    for index in range(kind.num_fields):
        yield from _leaf_types(kind.field(index).type)


def _is_written_double(number: str) -> bool:
    try:
        nearest = float(number)
    except ValueError:
        return False
    return repr(nearest) == number or (nearest.is_integer() and f"{nearest:.0f}" == number)


def rewriter_of(kind: Any) -> Rewrite:
    """A function that rewrites parsed values of a type."""
    found = rewrite_of(kind, _leaf_rewrite)
    return found or (lambda value: value)


def _leaf_rewrite(kind: Any) -> Rewrite | None:
    is_left = _left_test(kind)
    return None if is_left is None else lambda value: None if is_left(value) else value


def left_of(kind: Any) -> Callable[[Any], Any] | None:
    """What a column of a type does not have of a parsed value, or `None`."""
    is_left = _left_test(kind)
    return None if is_left is None else lambda value: value if is_left(value) else None


def _left_test(kind: Any) -> Callable[[Any], bool] | None:
    import pyarrow.types as types

    if types.is_floating(kind):
        return is_lossy
    return _is_time_without_column if types.is_timestamp(kind) else None


def _is_time_without_column(value: Any) -> bool:
    return isinstance(value, str) and _TIME_WITHOUT_COLUMN.fullmatch(value) is not None


def is_lossy(value: Any) -> bool:
    """Whether a number has digits that the nearest double does not show."""
    if not isinstance(value, Number):
        return False
    nearest = float(value)
    if repr(nearest) == value:
        return False
    if math.isinf(nearest):
        return True
    if nearest == 0:
        mantissa = value.lower().partition("e")[0]
        return any(digit in mantissa for digit in "123456789")
    exact = Decimal(value)
    count = len("".join(map(str, exact.as_tuple().digits)).strip("0"))
    return count > _MOST_DIGITS or Decimal(f"{nearest:.{count - 1}e}") != exact
