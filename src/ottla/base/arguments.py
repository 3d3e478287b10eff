"""Checks topics, partitions, offsets and times that applications pass; tuples may be partitions.

Every function raises `UserError`, which shows the expected form. Without these checks a wrong
argument would fail in an encoder, or silently mean another partition.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import index
from typing import Any

from ottla.base.errors import UserError
from ottla.base.files import Buffer
from ottla.base.partitions import MAX_PARTITION, TopicPartition

MIN_TIME_MS = -(1 << 63)
MAX_TIME_MS = MAX_OFFSET = (1 << 63) - 1


def check_topic_name(topic: Any) -> str:
    """The name of one topic."""
    if not isinstance(topic, str):
        raise UserError(f"a topic's name is a str, not {_kind(topic)}")
    return check_text(topic, "a topic's name")


def check_text(text: str, what: str) -> str:
    """A text that UTF-8 can hold: half a surrogate pair, as in file names of other encodings, would
    fail in an encoder.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"{what} cannot be encoded as UTF-8: {text!a}") from error
    return text


def check_headers(headers: Any) -> tuple[tuple[str, Any], ...]:
    """The headers of a record, as pairs that nobody can change; values are checked by the caller.

    An iterator is refused: a record is perhaps looked at several times.
    """
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Sequence):
        raise UserError(
            f'headers are a list of pairs such as [("waiter", b"Eva")], not {_kind(headers)}'
        )
    pairs = []
    for one in headers:
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise UserError(f'a header is a pair such as ("waiter", b"Eva"), not {one!a}')
        name, value = one
        if not isinstance(name, str):
            raise UserError(f"a header's name is a str, not {_kind(name)}: {name!a}")
        pairs.append((check_text(name, "a header's name"), value))
    return tuple(pairs)


def check_record(key: Any, value: Any, time_ms: Any, headers: Any) -> None:
    """The fields of one record. Of other objects that have a buffer the bytes are those of this
    machine's memory, as of a number of numpy: nobody meant them.
    """
    _check_content(key, "a key")
    _check_content(value, "a value")
    check_time(time_ms)
    for name, content in check_headers(headers or ()):
        _check_content(content, f"the value of header {name}")


def _check_content(content: Any, what: str) -> None:
    if content is not None and not isinstance(content, Buffer):
        raise UserError(f"{what} must be bytes or None, not {_kind(content)}")


def check_topic_names(topics: Any) -> Iterable[str]:
    """The names of several topics; a single string would be read letter by letter."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise UserError(f'topics are a list of names such as ["orders"], not {topics!r}')
    return topics


def check_place(place: Any) -> TopicPartition:
    """A partition: the topic's name and a number."""
    match place:
        case (str(topic), partition) if 0 <= _number(partition) <= MAX_PARTITION:
            number = _number(partition)
            return TopicPartition(check_topic_name(topic), number)
    raise UserError(
        f'a partition is (TOPIC, NUMBER), such as ("orders", 0) or '
        f'ottla.TopicPartition("orders", 0), not {place!r}'
    )


def check_places(places: Any) -> list[TopicPartition]:
    """Several partitions."""
    if isinstance(places, str) or not isinstance(places, Iterable):
        raise UserError(f'partitions are a list such as [("orders", 0)], not {places!r}')
    return [check_place(one) for one in places]


def check_offsets(offsets: Any) -> dict[TopicPartition, int]:
    """The offset of the next record for each partition."""
    if not isinstance(offsets, Mapping):
        raise UserError(
            f'offsets are a dictionary such as {{("orders", 0): 17}}, not {_kind(offsets)}'
        )
    return {check_place(place): check_offset(at) for place, at in offsets.items()}


def check_times(times_ms: Any) -> dict[TopicPartition, int]:
    """A time for each partition."""
    if not isinstance(times_ms, Mapping):
        raise UserError(
            "times are a dictionary of partitions and milliseconds since 1970, such as "
            f'{{("orders", 0): 1767225600000}}, not {_kind(times_ms)}'
        )
    return {check_place(place): check_time(at) for place, at in times_ms.items()}


def no_such_partition(topic: str, partition: int, count: int) -> UserError:
    """The error for a partition that a topic does not have."""
    noun = "partition" if count == 1 else "partitions"
    return UserError(f"topic {topic} has {count} {noun}; {partition} is not one of them")


def check_partition(partition: Any) -> int:
    """The number of a partition whose topic is another argument."""
    number = _whole(partition)
    if number is None:
        raise UserError(f"a partition is a whole number such as 0, not {partition!r}")
    return number


def check_partitions(partitions: Any) -> list[int]:
    """The numbers of several partitions of one topic."""
    if isinstance(partitions, str | bytes) or not isinstance(partitions, Iterable):
        raise UserError(f"partitions are a list of numbers such as [0, 1], not {partitions!r}")
    return list(dict.fromkeys(map(check_partition, partitions)))


def check_partition_offsets(offsets: Any, *, least: int = 0) -> dict[int, int]:
    """Offsets by partition number of one topic."""
    if not isinstance(offsets, Mapping):
        raise UserError(
            f"offsets are a dictionary of partitions and offsets such as {{0: 17}}, not {offsets!r}"
        )
    return {check_partition(one): check_offset(at, least=least) for one, at in offsets.items()}


def check_offset(offset: Any, *, least: int = 0) -> int:
    """An offset; the caller gives meaning to negative numbers down to `least`."""
    number = _whole(offset)
    if number is None:
        raise UserError(f"an offset is a whole number, not {_kind(offset)}")
    if number < least:
        raise UserError(f"an offset is not negative: {number}")
    if number > MAX_OFFSET:
        raise UserError(f"an offset has 64 bits, not as many as {number}")
    return number


def check_time(time_ms: Any) -> int:
    """Milliseconds since 1970, or a negative number that stands for an end of a log."""
    if isinstance(time_ms, datetime):
        raise UserError("a time is in milliseconds since 1970: int(time.timestamp() * 1000)")
    number = _whole(time_ms)
    if number is None:
        raise UserError(
            f"a time is a whole number of milliseconds since 1970, not {_kind(time_ms)}"
        )
    if not MIN_TIME_MS <= number <= MAX_TIME_MS:
        raise UserError(f"a time has 64 bits, of milliseconds since 1970, not as many as {number}")
    return number


def check_timestamp(time_ms: Any) -> int:
    """Milliseconds since 1970, not negative."""
    number = check_time(time_ms)
    if number < 0:
        raise UserError(f"a time is not negative: {number}; it is in milliseconds since 1970")
    return number


def check_seconds(seconds: Any) -> float:
    """Seconds to wait."""
    if isinstance(seconds, timedelta):
        raise UserError("a time to wait is in seconds: timeout.total_seconds()")
    if not hasattr(type(seconds), "__float__"):
        raise UserError(f"a time to wait is a number of seconds, not {seconds!r}")
    if not float(seconds) >= 0:
        raise UserError(f"a time to wait is not negative: {seconds}; None waits without limit")
    return float(seconds)


def check_count(count: Any, noun: str, *, least: int = 0) -> int:
    """A number of `noun`."""
    number = _whole(count)
    if number is None or not least <= number <= sys.maxsize:
        raise UserError(f"a number of {noun} is a whole number from {least} on, not {count!r}")
    return number


def check_settings(settings: Any) -> Mapping[str, Any]:
    """Settings by Kafka's names."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise UserError(
            f"settings are a dictionary of Kafka's names and values, not {_kind(settings)}"
        )
    for name in settings:
        if not isinstance(name, str):
            raise UserError(f"a setting's name is a str, not {name!r}")
    return settings


def _whole(given: Any) -> int | None:
    """An integer, including numpy's; `None` for anything else."""
    if isinstance(given, bool):
        return None
    try:
        return int(index(given))
    except TypeError:
        return None


def _number(given: Any) -> int:
    """The same; -1 for anything else."""
    number = _whole(given)
    return -1 if number is None else number


def _kind(given: object) -> str:
    return type(given).__name__
