"""Settings with the origin of each value: values, independent of how they were read."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from ottla.base.values import dataclass

if TYPE_CHECKING:
    from ottla.config.setting import Setting

ALL_BROKERS = ""
"""The name of the settings that are the defaults of every broker."""


class ConfigOrigin(Enum):
    """The origin of a value, with Kafka's number."""

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
    """A setting as reported by the broker; `value` is `None` if it is secret.

    `default` is the value that would apply without the resource's own, if the broker reports it.
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
        """Whether the value was set for the resource itself."""
        return self.origin in (
            ConfigOrigin.OF_THE_RESOURCE,
            ConfigOrigin.OF_THE_GROUP,
            ConfigOrigin.OF_THE_CLIENT,
        )


def default_of(
    name: str, value: str | None, origin: ConfigOrigin, synonyms: Sequence[tuple[str | None, int]]
) -> str | None:
    """Returns the value that would apply without a topic's, group's or broker's own.

    `synonyms` are all sources of the value, with Kafka's numbers of their origins.
    """
    if origin is ConfigOrigin.DEFAULT:
        return value
    own = (
        ConfigOrigin.OF_THE_RESOURCE,
        ConfigOrigin.OF_THE_GROUP,
        ConfigOrigin.OF_THE_CLIENT,
        ConfigOrigin.OF_THE_BROKER,
        origin,
    )
    beneath = [text for text, source in synonyms if source not in [kind.value for kind in own]]
    if beneath:
        return beneath[0]
    # Kafka lists no synonym for a derived default, such as that of retention.ms.
    is_metrics = origin is ConfigOrigin.OF_THE_CLIENT
    owners = [client_metrics_rows()] if is_metrics else [topic_rows(), broker_rows()]
    rows = [one.get(name) for one in owners]
    row = next((row for row in rows if row is not None), None)
    return None if row is None else row.format(row.default)


# Importing the tables of settings takes a command 15 ms, and most requests do not need them.


def topic_rows() -> "Mapping[str, Setting]":
    from ottla.config.setting import settings_of
    from ottla.config.topic import TopicConfig

    return settings_of(TopicConfig)


def client_metrics_rows() -> "Mapping[str, Setting]":
    from ottla.config.client_metrics import ClientMetricsConfig
    from ottla.config.setting import settings_of

    return settings_of(ClientMetricsConfig)


def broker_rows() -> "Mapping[str, Setting]":
    from ottla.config.broker import broker_settings

    return broker_settings()
