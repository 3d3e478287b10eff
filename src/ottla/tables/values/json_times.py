"""Times of RFC 3339 in other spellings than those that Arrow's JSON parser takes.

Of a second Arrow takes no more than six digits, and no `t` and `z` in lower case. A batch that may
have such times is parsed with text in the columns of times, which is then converted here. Digits
finer than a microsecond are cut off: a column has no more.
"""

from typing import Any

OTHER_TIME = r'"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t|[T ][0-9:]*(?:\.[0-9]{7,9}|[0-9.]*z))'
"""In the text of a value, a time that Arrow may not take."""

_TIME = (
    r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<time>[0-9:]+(?:\.[0-9]{1,6})?)[0-9]{0,3}"
    r"(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
)


def as_times(texts: Any, kind: Any) -> Any:
    """Texts as times of a timestamp type; raises `ArrowInvalid` if one is no time.

    Times without a zone are in UTC, as for Arrow's parser.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = pc.extract_regex(texts, _TIME)
    if parts.null_count != texts.null_count:
        raise pa.ArrowInvalid("a time is not one of RFC 3339")
    day, time, zone = parts.flatten()
    time = pc.if_else(pc.equal(time, ""), "00:00:00", time)
    zone = pc.if_else(pc.equal(zone, ""), "Z", pc.ascii_upper(zone))
    spelled = pc.binary_join_element_wise(day, "T", time, zone, "")
    return spelled.cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
