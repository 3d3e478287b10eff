"""The kinds of things that have settings, by Kafka's numbers (`ConfigResource.Type`)."""

from enum import IntEnum


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
