"""Timestamps and durations as text."""

from datetime import UTC, datetime, timedelta

from ottla.base.patterns import lazy_pattern

_DURATION = lazy_pattern(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(timestamp_ms: int) -> str:
    """UTC with milliseconds; a number that is too large for a date stays a number."""
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


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
