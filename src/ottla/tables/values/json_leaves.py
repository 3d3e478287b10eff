"""Numbers and times in JSON that Arrow's parser would change, or refuse although they are sound.

Arrow reads any number into a double column, however many of its digits the double lacks; and of
RFC 3339's times it takes no more than six digits of a second, and no `t` and `z`. Values that may
have such a part are found by a regular expression, and rewritten before they are parsed: times in
Arrow's spelling, finer digits than a microsecond's cut off; numbers that no double has, and times
that no column has, as null, so that they are kept in the rescued column.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ottla.base.patterns import lazy_pattern
from ottla.tables.values.json_maps import Rewrite, rewrite_of
from ottla.tables.values.json_texts import Number

_LONG_NUMBER = r"[0-9][0-9.]{15}|[0-9][eE][+-]?[0-9]{3}"
_WRITTEN_LONG = lazy_pattern(r"-?[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|-?[0-9.]+[eE][+-]?[0-9]{3,}")
"""All of each number in which `_LONG_NUMBER` finds something."""
_OTHER_TIME = (
    r'"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t|[T ][0-9:]*(?:\.[0-9]{7,9}|[0-9.]*z))'
    r'|"[+-][0-9]{5,}-|"0000-'
)
_TIME = lazy_pattern(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9:]+(?:\.[0-9]{1,6})?)[0-9]{0,3}"
    r"([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_TIME_WITHOUT_COLUMN = lazy_pattern(
    r"(?:[+-][0-9]{5,}|0000)-[0-9]{2}-[0-9]{2}[Tt ][0-9:]+(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_MOST_DIGITS = 767
"""No double has more significant digits, written out."""


def suspicious_pattern(kind: Any) -> str | None:
    """A regular expression for the texts of values to be rewritten; `None` for types without
    doubles and times.
    """
    import pyarrow.types as types

    kinds = list(_leaf_types(kind))
    parts = [_LONG_NUMBER] if any(map(types.is_floating, kinds)) else []
    parts += [_OTHER_TIME] if any(map(types.is_timestamp, kinds)) else []
    return "|".join(parts) or None


def rewritten_places(texts: Any, pattern: str) -> Any:
    """A mask of the texts that must be rewritten, among those that match a suspicious pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.match_substring_regex(texts, pattern)
    if _LONG_NUMBER not in pattern:
        return found
    is_time = pc.match_substring_regex(texts, _OTHER_TIME) if _OTHER_TIME in pattern else None
    only_numbers = found if is_time is None else pc.and_not(found, is_time)
    if not pc.any(only_numbers).as_py():
        return found
    left = pa.array(map(may_have_losses, texts.filter(only_numbers).to_pylist()), pa.bool_())
    return pc.replace_with_mask(found, only_numbers, left)


def may_have_losses(text: str) -> bool:
    """Whether a long number of a text, or of a string in it, is not as a double is written.

    Programs write doubles with 16 and 17 digits; with this check they need not be parsed here.
    """
    return not all(map(_is_written_double, _WRITTEN_LONG.findall(text)))


def _is_written_double(number: str) -> bool:
    try:
        nearest = float(number)
    except ValueError:
        return False
    return repr(nearest) == number or (nearest.is_integer() and f"{nearest:.0f}" == number)


def _leaf_types(kind: Any) -> Any:
    if not kind.num_fields:
        yield kind
    for index in range(kind.num_fields):
        yield from _leaf_types(kind.field(index).type)


def rewriter_of(kind: Any) -> Rewrite:
    """A function that rewrites parsed values of a type."""
    found = rewrite_of(kind, _leaf_rewrite)
    return found or (lambda value: value)


def _leaf_rewrite(kind: Any) -> Rewrite | None:
    import pyarrow.types as types

    if types.is_floating(kind):
        return lambda value: None if is_lossy(value) else value
    return _spelled_time if types.is_timestamp(kind) else None


def left_of(kind: Any) -> Callable[[Any], Any] | None:
    """What a column of a type does not have of a parsed value, or `None`."""
    import pyarrow.types as types

    if types.is_floating(kind):
        return lambda value: value if is_lossy(value) else None
    if types.is_timestamp(kind):
        return lambda value: value if _spelled_time(value) is None else None
    return None


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


def _spelled_time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _TIME.fullmatch(value)
    if found is not None and not value.startswith("0000"):
        day, time, zone = found.groups()
        return f"{day}T{time}{(zone or '').upper()}"
    return None if _TIME_WITHOUT_COLUMN.fullmatch(value) else value
