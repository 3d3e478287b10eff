"""The JSON of a node, as Kafka writes it.

Unknown fields are ignored, as in Kafka: later versions only add fields. Kafka's counterpart:
`kafka.utils.Json`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.base.errors import OttlaError
from ottla.base.partitions import TopicPartition

T = TypeVar("T")


class NodeError(OttlaError, ValueError):
    """A node whose content is not what Kafka writes there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not what Kafka writes there ({reason})")
        self.path = path
        self.reason = reason


def encode_node(fields: Mapping[str, Any]) -> bytes:
    """Encodes fields in order, without spaces, with text as UTF-8."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_node(path: str, content: bytes | None, parse: Callable[[Any], T]) -> T:
    """Decodes a JSON object; raises `NodeError` if it is none or `parse` fails on it."""
    try:
        fields = json.loads(content or b"")
        if not isinstance(fields, dict):
            raise TypeError("not a JSON object")
        return parse(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NodeError(path, repr(error)) from error


def number(value: Any) -> int:
    """An integer; raises `TypeError` for other JSON values."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def numbers(values: Any) -> tuple[int, ...]:
    return tuple(number(value) for value in values)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def decode_number(path: str, content: bytes | None) -> int:
    """Decodes a node that is a decimal number; raises `NodeError`."""
    try:
        return int((content or b"").decode("ascii"))
    except ValueError as error:
        raise NodeError(path, repr(error)) from error


def partition_fields(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": one.topic, "partition": one.partition} for one in partitions]


def parse_partitions(fields: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(text(one["topic"]), number(one["partition"])) for one in fields["partitions"]
    )
