"""Dead letters of share groups, for the broker that leads their partition."""

from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition


class DeadLetterRequest(NamedTuple):
    """One batch to be appended; the answer has the same number."""

    number: int
    broker: int
    place: TopicPartition
    topic_id: Uuid
    records: bytes
