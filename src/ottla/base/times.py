"""Timestamps and durations as text."""

from datetime import UTC, datetime, timedelta

from ottla.base.patterns import lazy_pattern

_DURATION = lazy_pattern(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FIRST_TIME_MS = -62_135_596_800_000
LAST_TIME_MS = 253_402_300_799_999
"""The bounds of the years 1 to 9999. Records may have any other timestamp too, such as one in
microseconds; but dates of Python, SQL and most engines end there.
"""


def time_text(timestamp_ms: int) -> str:
    """UTC with milliseconds; a number that is too large for a date stays a number."""
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return at.replace(tzinfo=None).isoformat(" ", "milliseconds")


def second_text(timestamp_ms: int) -> str:
    """UTC with seconds."""
    return time_text(timestamp_ms).partition(".")[0]


def duration_ms(text: str) -> int:
    """The milliseconds of an ISO 8601 duration as Java writes it, such as `P1D` or `PT1H30M`.

    Raises `ValueError`.
    """
    found = _DURATION.fullmatch(text.upper())
    if found is None or not any(found.groupdict().values()):
        raise ValueError("a duration is written like PT1H30M or P1D")
    parts = {name: float(value) for name, value in found.groupdict().items() if value}
    return int(timedelta(**parts) / timedelta(milliseconds=1))
