"""Timestamps as people read them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(timestamp_ms: int) -> str:
    """UTC to the millisecond; a number too large for a date stays a number."""
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def second_text(timestamp_ms: int) -> str:
    """UTC to the second."""
    return time_text(timestamp_ms).partition(".")[0]
