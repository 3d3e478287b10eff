"""Partitions, offsets and times as applications name them; plain tuples are partitions too.

Every function raises `UserError`, which says how to write what was meant: what is wrong here would
otherwise end in an encoder, or be another partition in silence.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import index
from typing import Any, SupportsIndex

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition


def check_topic_name(topic: Any) -> str:
    """One topic's name."""
    if not isinstance(topic, str):
        raise UserError(f"a topic's name is a str, not {_kind(topic)}")
    return topic


def check_topic_names(topics: Any) -> Iterable[str]:
    """Names of several topics: a single one would be read letter by letter."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise UserError(f'topics are a list of names such as ["orders"], not {topics!r}')
    return topics


def check_place(place: Any) -> TopicPartition:
    """A topic's name and a partition's number."""
    match place:
        case (str(topic), SupportsIndex() as partition) if index(partition) >= 0:
            return TopicPartition(topic, index(partition))
    raise UserError(
        f'a partition is (TOPIC, NUMBER), such as ("orders", 0) or '
        f'ottla.TopicPartition("orders", 0), not {place!r}'
    )


def check_places(places: Iterable[Any]) -> list[TopicPartition]:
    """Several of them."""
    if isinstance(places, str) or not isinstance(places, Iterable):
        raise UserError(f'partitions are a list such as [("orders", 0)], not {places!r}')
    return [check_place(one) for one in places]


def check_offsets(offsets: Mapping[Any, Any]) -> dict[TopicPartition, int]:
    """The offset of the next record for each partition."""
    if not isinstance(offsets, Mapping):
        raise UserError(
            f'offsets are a dictionary such as {{("orders", 0): 17}}, not {_kind(offsets)}'
        )
    return {check_place(place): check_offset(at) for place, at in offsets.items()}


def check_offset(offset: Any) -> int:
    """Where a record may be."""
    if not isinstance(offset, SupportsIndex):
        raise UserError(f"an offset is a whole number, not {_kind(offset)}")
    if index(offset) < 0:
        raise UserError(f"an offset is not negative: {offset}")
    return index(offset)


def check_time(time_ms: Any) -> int:
    """Milliseconds since 1970, or one of the numbers below zero that stand for an end of a log."""
    if isinstance(time_ms, datetime):
        raise UserError("a time is in milliseconds since 1970: int(time.timestamp() * 1000)")
    if not isinstance(time_ms, SupportsIndex):
        raise UserError(
            f"a time is a whole number of milliseconds since 1970, not {_kind(time_ms)}"
        )
    return index(time_ms)


def _kind(given: object) -> str:
    return type(given).__name__
