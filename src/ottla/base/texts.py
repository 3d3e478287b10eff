"""Sizes, durations, rates and settings as text for people."""

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.patterns import lazy_pattern

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
SIZE_UNITS = {
    "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4,
    "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
}  # fmt: skip
_AMOUNT = lazy_pattern(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_AGE = lazy_pattern(r"-?(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
FOREVER_MS = 1 << 62
_WORDS_MS = dict(
    zip(["milliseconds", "seconds", "minutes", "hours", "days", "weeks"], UNITS_MS, strict=True)
)
_SIZE_WORDS = {"kilobytes": "k", "megabytes": "M", "gigabytes": "G", "terabytes": "T"}
_WILDCARDS = frozenset("*?[")


def size_text(size: int | None) -> str:
    """Examples: 640 B, 3.2 MiB; a dash for an unknown size."""
    if size is None:
        return "–"
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def duration_text(ms: int | None) -> str:
    """Examples: 250 ms, 12 s, 3 m 20 s, 4 h 5 m, 7 d; a dash for an unknown duration."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms // 1000
    for unit, size, below, below_size in (
        ("d", 86_400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)
    ):  # fmt: skip
        if seconds >= size:
            rest = seconds % size // below_size
            return f"{seconds // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"


def limit_text(ms_or_size: int, *, is_size: bool) -> str:
    """A retention limit as text; -1 means none."""
    if ms_or_size < 0:
        return "no limit"
    return size_text(ms_or_size) if is_size else duration_text(ms_or_size)


def rate_text(count: int, seconds: float) -> str:
    """Records per second with significant digits."""
    rate = count / seconds
    if not count:
        return "0"
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" if rate >= 0.1 else f"{rate:.3f}"


def whole_number(text: str, most: int = (1 << 63) - 1) -> int | None:
    """The number that ASCII digits write; `None` for other texts, and for what exceeds `most`.

    Python refuses to read thousands of digits with an error of its own.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


def value_text(name: str, value: str | None) -> str:
    """A setting's value, with milliseconds and bytes explained: `604800000 (7 d)`."""
    number = whole_number(value or "") or 0
    if name.endswith(".ms") and number >= 1000:
        return f"{value} ({'forever' if number >= FOREVER_MS else duration_text(number)})"
    if name.endswith(".bytes") and number >= 1 << 10:
        return f"{value} ({'no limit' if number >= FOREVER_MS else size_text(number)})"
    return value or ""


def setting_value(name: str, text: str) -> str:
    """A setting's value, with `7d` and `1Gi` converted to milliseconds and bytes.

    Raises `UserError` for a number with another unit, and names the one that was meant.
    """
    amount = None
    if name.endswith(".ms"):
        amount = amount_of(text, UNITS_MS)
        _check_unit(name, text, amount, _WORDS_MS, "ms, s, m, h, d and w")
    elif name.endswith(".bytes"):
        amount = amount_of(text.lower().removesuffix("b"), SIZE_UNITS)
        _check_unit(name, text, amount, _SIZE_WORDS, "k, M, G, T, Ki, Mi, Gi and Ti")
    return text if amount is None else str(round(amount))


def _check_unit(
    name: str, text: str, amount: float | None, words: Mapping[str, str], units: str
) -> None:
    """Raises `UserError` for a number with an unknown unit."""
    found = _AMOUNT.fullmatch(text.strip())
    if amount is not None or found is None or not found[2]:
        return
    number, unit = found[1], found[2].lower()
    meant = next((one for word, one in words.items() if word.startswith(unit)), None)
    hint = f"the units are {units}" if meant is None else f"did you mean {number}{meant}?"
    raise UserError(f"{name}={text}: there is no unit {found[2]}; {hint}")


def amount_of(text: str, units: Mapping[str, int]) -> float | None:
    """The value of a number with a unit; `None` for any other text."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in units:
        return None
    return _finite(float(found[1]) * units[found[2]])


def age_ms(text: str) -> float | None:
    """The milliseconds of an age such as `2h` or `-1.5d`; `None` for any other text."""
    found = _AGE.fullmatch(text)
    return None if found is None else _finite(float(found[1]) * UNITS_MS[found[2]])


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def some_text(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    shown, more = ", ".join(names[:most]), len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def matching(noun: str, patterns: Sequence[str], known: Iterable[str]) -> list[str]:
    """The names that match the patterns, in order; all of them without patterns.

    A pattern with `*`, `?` or `[` is a shell pattern. Raises `UnknownNameError` for a pattern that
    matches nothing.
    """
    names = sorted(known)
    if not patterns:
        return names
    found: set[str] = set()
    for pattern in patterns:
        if pattern in names:
            found.add(pattern)
            continue
        matched = fnmatch.filter(names, pattern) if _WILDCARDS & {*pattern} else []
        if not matched:
            raise UnknownNameError(noun, pattern, names)
        found.update(matched)
    return sorted(found)


def parse_places(text: str) -> tuple[str, list[int] | None]:
    """Parses TOPIC or TOPIC:PARTITION,...; raises `UserError`."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(one) for one in numbers.split(",")]
    except ValueError:
        raise UserError(f"{text}: partitions are TOPIC:0, or TOPIC:0,2") from None
