"""Requests for the ends of partitions that other brokers lead."""

from typing import NamedTuple

from ottla.base.partitions import TopicPartition


class EndOffsetsRequest(NamedTuple):
    """The answer has the same number."""

    number: int
    broker: int
    partitions: tuple[TopicPartition, ...]
