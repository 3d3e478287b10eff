"""The kinds of things that have settings."""

from enum import IntEnum


class ResourceKind(IntEnum):
    """Kinds of resources with settings, by Kafka's numbers (`ConfigResource.Type`).

    >>> ottla.ResourceKind.TOPIC.name
    'TOPIC'
    """

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
