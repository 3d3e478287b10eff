"""Records for tests of what is printed and filtered."""

from typing import Any

from ottla.record.record import Record
from ottla.search.fields import Entry


def entry(value: bytes | None = b"v", key: bytes | None = None, **fields: Any) -> Entry:
    """A record at offset 7 of t-3."""
    record = Record(
        **{"offset": 7, "timestamp_ms": 1_700_000_000_123, **fields}, key=key, value=value
    )
    return Entry("t", 3, record)
