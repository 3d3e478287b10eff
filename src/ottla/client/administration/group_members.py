"""What members of classic groups subscribe to and were assigned, out of their own messages."""

from contextlib import suppress

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.base.partitions import TopicPartition
from ottla.coordinator.classic.consumer_protocol import decode_assignment, decode_subscription

CONSUMER = "consumer"
CLASSIC = "classic"


def read_member(
    metadata: Buffer, assignment: Buffer, is_readable: bool
) -> tuple[tuple[str, ...], tuple[TopicPartition, ...]]:
    """Topics and partitions; neither of messages that are no consumers', as those of Connect."""
    topics: tuple[str, ...] = ()
    assigned: list[TopicPartition] = []
    with suppress(ProtocolError):
        if is_readable and metadata:
            topics = tuple(decode_subscription(metadata).topics)
        if is_readable and assignment:
            assigned = [
                TopicPartition(topic.topic, index)
                for topic in decode_assignment(assignment).assigned_partitions
                for index in topic.partitions
            ]
    return topics, tuple(sorted(assigned))
