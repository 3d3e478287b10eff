"""Where a share group begins in a partition that it has not read: `share.auto.offset.reset`.

Kafka's counterparts: `AutoOffsetResetStrategy`, `ShareGroupAutoOffsetResetStrategy`.
"""

from typing import Final, NamedTuple

from ottla.base.patterns import lazy_pattern

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"

_DURATION: Final = lazy_pattern(
    r"(?i)P(?=.)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?"
)
"""As Java's `Duration.parse`, without signs."""


class OffsetReset(NamedTuple):
    """The beginning or the end of the log, or, if `age_ms` is set, the first record that is at most
    so old.
    """

    is_earliest: bool = False
    age_ms: int | None = None


def read_offset_reset(text: str) -> OffsetReset:
    """Raises `ValueError`, which says what would be valid.

    >>> read_offset_reset("by_duration:PT1H30M").age_ms
    5400000
    """
    if text in (EARLIEST, LATEST):
        return OffsetReset(is_earliest=text == EARLIEST)
    kind, duration = text[: len(BY_DURATION)], text[len(BY_DURATION) :]
    found = _DURATION.fullmatch(duration) if kind == BY_DURATION else None
    if found is None:
        raise ValueError(
            "must be earliest, latest, or by_duration: and a duration such as PT12H or P2DT30M"
        )
    days, hours, minutes, seconds, fraction = found.groups(default="0")
    whole_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return OffsetReset(age_ms=whole_s * 1000 + int(fraction.ljust(3, "0")[:3]))
