"""Records as tests see them."""

import json
from typing import Any, Self

from ottla.base.values import dataclass
from ottla.record.record import Headers, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedRecord:
    """A record with its topic, partition and offset.

    >>> _ = broker.produce("orders", "tea", partition=0)
    >>> record, = broker.records("orders")
    >>> record.partition, record.offset, record.value
    (0, 0, b'tea')
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of(cls, topic: str, partition: int, record: Record) -> Self:
        """The record with its place.

        >>> _ = broker.produce("orders", "tea")
        >>> ProducedRecord.of("orders", 0, next(broker.log.read("orders"))).text
        'tea'
        """
        return cls(
            topic=topic,
            partition=partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )

    @property
    def text(self) -> str:
        """The value, decoded as UTF-8.

        >>> _ = broker.produce("orders", "tea")
        >>> broker.records("orders")[0].text
        'tea'
        """
        assert self.value is not None, "a tombstone has no text"
        return self.value.decode()

    @property
    def json(self) -> Any:
        """The value, decoded as JSON; `None` for a tombstone.

        >>> _ = broker.produce("orders", '{"tea": 2}')
        >>> broker.records("orders")[0].json
        {'tea': 2}
        """
        return None if self.value is None else json.loads(self.value)


def matches(record: ProducedRecord, *, value: Any, key: Any, headers: Any) -> bool:
    """Whether a record matches; `...` matches anything."""
    return (
        _is(record.value, value)
        and _is(record.key, key)
        and (headers is ... or _has_headers(record, headers))
    )


def _is(data: bytes | None, wanted: Any) -> bool:
    if wanted is ...:
        return True
    if callable(wanted):
        return bool(wanted(data))
    match wanted:
        case None | bytes():
            return data == wanted
        case str():
            return data == wanted.encode()
    try:
        return data is not None and bool(json.loads(data) == wanted)
    except ValueError:
        return False


def _has_headers(record: ProducedRecord, wanted: Any) -> bool:
    """Whether the record has these headers, perhaps among others."""
    pairs = wanted.items() if isinstance(wanted, dict) else wanted
    return all(
        any(name == has and _is(data, value) for has, data in record.headers)
        for name, value in pairs
    )


def describe(record: ProducedRecord) -> str:
    """The record as one line."""
    words = f"{record.topic}-{record.partition} at {record.offset}: "
    words += f"key {record.key!r}, value {record.value!r}"
    return words + (f", headers {list(record.headers)!r}" if record.headers else "")
