"""Settings with where each comes from: values, wherever they were asked of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.setting import Setting

ALL_BROKERS = ""
"""The name of the settings that are the defaults of every broker."""


class ResourceKind(IntEnum):
    """What has settings, by Kafka's numbers.

    >>> ottla.ResourceKind.TOPIC.name
    'TOPIC'
    """

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigOrigin(Enum):
    """Where a value comes from, with Kafka's number."""

    OF_THE_RESOURCE = 1
    OF_THE_BROKER = 2
    OF_ALL_BROKERS = 3
    OF_THE_FILE = 4
    DEFAULT = 5
    OF_THE_LOGGER = 6
    OF_THE_CLIENT = 7
    OF_THE_GROUP = 8
    UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting as the broker reports it; `value` is `None` where it must stay secret.

    `default` is what would hold without the resource's own value, where the broker reports that.
    """

    name: str
    value: str | None
    origin: ConfigOrigin
    default: str | None
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_own(self) -> bool:
        """Whether the resource was given the value itself."""
        return self.origin in (ConfigOrigin.OF_THE_RESOURCE, ConfigOrigin.OF_THE_GROUP)


def default_of(
    name: str, value: str | None, origin: ConfigOrigin, synonyms: Sequence[tuple[str | None, int]]
) -> str | None:
    """What would hold without the value that a topic, a group or a broker was given itself.

    `synonyms` are all sources of the value, with Kafka's numbers of their origins.
    """
    if origin is ConfigOrigin.DEFAULT:
        return value
    own = (
        ConfigOrigin.OF_THE_RESOURCE,
        ConfigOrigin.OF_THE_GROUP,
        ConfigOrigin.OF_THE_BROKER,
        origin,
    )
    beneath = [text for text, source in synonyms if source not in [kind.value for kind in own]]
    if beneath:
        return beneath[0]
    # Kafka lists no synonym for a default that it works out, such as that of retention.ms.
    rows = (topic_rows().get(name), broker_rows().get(name))
    row = next((row for row in rows if row is not None), None)
    return None if row is None else row.format(row.default)


# The tables of settings take a command 15 ms to import, and most questions need none.


def topic_rows() -> "Mapping[str, Setting]":
    from ottla.config.setting import settings_of
    from ottla.config.topic import TopicConfig

    return settings_of(TopicConfig)


def broker_rows() -> "Mapping[str, Setting]":
    from ottla.config.broker import broker_settings

    return broker_settings()
