"""A record as one JSON object: what `consume --json` prints and `produce --json` reads.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp_ms": 1700000000123,
     "timestamp_type": "CreateTime", "key": "k", "value_base64": "/w==",
     "headers": [{"key": "trace", "value": "1"}]}

Bytes that are UTF-8 are text. Others are base64, under a name that ends in `_base64`.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.cli.records.new_record import NewRecord
from ottla.search.encodings import (
    BASE64_SUFFIX,
    HEX_SUFFIX,
    Encoding,
    text_field,
)
from ottla.search.fields import Entry
from ottla.search.positions import parse_time

if TYPE_CHECKING:
    from ottla.record.record import Record

_OF_THE_LOG = frozenset({"topic", "offset", "timestamp_type", "leader_epoch"})
"""Members of a printed record that describe its log, and are ignored for a new record."""

_BARE = ("key", "value")
_FORMS = ("", BASE64_SUFFIX, HEX_SUFFIX, "_text")
_KNOWN = frozenset(
    {"headers", "partition", "timestamp_ms", "timestamp"}
    | {name + form for name in _BARE for form in _FORMS}
    | _OF_THE_LOG
)


def record_object(entry: Entry, key: Encoding, value: Encoding) -> dict[str, Any]:
    """Returns the object of a record; timestamps are null in message format v0."""
    record = entry.record
    kind = record.timestamp_type
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": record.offset,
        "timestamp_ms": None if kind is None else record.timestamp_ms,
        "timestamp_type": None if kind is None else kind.kafka_name,
        **_member("key", record.key, key, record),
        **_member("value", record.value, value, record),
        "headers": [
            {"key": name, **dict([_text_member("value", data)])} for name, data in record.headers
        ],
    }


def _member(name: str, data: bytes | None, encoding: Encoding, record: "Record") -> dict[str, Any]:
    framed = None if data is None else encoding.framed(data, record)
    return dict([(name, None) if framed is None else encoding.json_field(name, framed)])


def _text_member(name: str, data: bytes | None) -> tuple[str, Any]:
    return (name, None) if data is None else text_field(name, data)


def parse_record(line: bytes, now_ms: int) -> NewRecord:
    """A record of such an object, of which every member may be left out; raises `ValueError`.

    A key or value that is not text becomes JSON. Headers may also be an object, or pairs.
    """
    from ottla.base.json_texts import read_last  # only where JSON is read

    found = read_last(line.decode())
    if not isinstance(found, dict):
        raise ValueError('a record is an object such as {"key": "k", "value": "v"}')
    unknown = sorted(found.keys() - _KNOWN)
    if unknown:
        raise ValueError(
            f"a record has no member {unknown[0]!r}; with --json-value the whole line is the value"
        )
    partition = _whole(found.get("partition"))
    if partition is not None and (type(partition) is not int or partition < 0):
        raise ValueError(f"partition is a number from 0, not {partition!r}")
    return NewRecord(
        key=_bytes_of(found, "key"),
        value=_bytes_of(found, "value"),
        headers=tuple(_headers(found.get("headers"))),
        partition=partition,
        timestamp_ms=_timestamp(found, now_ms),
    )


def _bytes_of(found: Mapping[str, Any], name: str) -> bytes | None:
    for form in (BASE64_SUFFIX, HEX_SUFFIX):
        text = found.get(name + form)
        if text is not None:
            if type(text) is not str:
                raise ValueError(f"{name}{form} is a text")
            decode = bytes.fromhex if form == HEX_SUFFIX else _base64
            return decode(text)
    plain = found.get(name, found.get(f"{name}_text"))
    if plain is None:
        return None
    from ottla.base.json_texts import write  # only where JSON is read

    return plain.encode("utf-8", "surrogatepass") if type(plain) is str else write(plain).encode()


def _whole(value: Any) -> Any:
    """An `int` for a number that is one; numbers of other members stay as they are written."""
    from ottla.base.json_texts import Number  # only where JSON is read

    if not isinstance(value, Number):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _headers(given: Any) -> Iterator[tuple[str, bytes | None]]:
    match given:
        case None:
            return
        case dict():
            for name in given:
                yield name, _bytes_of(given, name)
        case list():
            for one in given:
                match one:
                    case {"key": str(name)}:
                        yield name, _bytes_of(one, "value")
                    case [str(name), value]:
                        yield name, _bytes_of({"value": value}, "value")
                    case _:
                        raise ValueError(
                            'a header must be {"key": "k", "value": "v"} or ["k", "v"]'
                        )
        case _:
            raise ValueError("headers must be a list or an object")


def _timestamp(found: Mapping[str, Any], now_ms: int) -> int | None:
    given = _whole(found.get("timestamp_ms", found.get("timestamp")))
    match given:
        case None:
            return None
        case bool():
            raise ValueError(f"a timestamp is milliseconds since 1970, not {given}")
        case int():
            return given
        case str():
            return parse_time(given, now_ms)
    raise ValueError(f"a timestamp is milliseconds since 1970, not {given!r}")
