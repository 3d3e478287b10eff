"""Settings from an application: the client's own, and those of its connections."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.base.arguments import check_settings
from ottla.base.errors import UserError
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.security import parse_security

if TYPE_CHECKING:
    from ottla.config.client import ClientConfig

SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")
"""Prefixes of librdkafka's settings that Kafka's clients do not have."""

MILLISECONDS = 1000

Config = TypeVar("Config", bound="ClientConfig")


def client_settings(
    settings: Mapping[str, Any] | None, read: Callable[[Mapping[str, Any]], Config]
) -> tuple[Config, ClientSettings]:
    """Parses settings by Kafka's names, with security by librdkafka's; raises `UserError`."""
    given = dict(check_settings(settings))
    if "bootstrap.servers" in given:
        raise UserError("bootstrap.servers: name the brokers as the target, HOST:PORT[,HOST:PORT]")
    security = {name: str(given.pop(name)) for name in list(given) if name.startswith(SECURITY)}
    config = read(given)
    return config, ClientSettings(
        client_id=config.client_id,
        request_timeout_s=config.request_timeout_ms / MILLISECONDS,
        first_pause_s=config.retry_backoff_ms / MILLISECONDS,
        security=parse_security(security),
    )


def admin_settings(settings: Mapping[str, Any] | None) -> ClientSettings:
    """Parses an admin client's settings by Kafka's names; raises `UserError`.

    One that lists asks a broker again and again, for each group for example.
    """
    if not settings:
        return ClientSettings(waits_once=True)
    from ottla.config.client import admin_config

    return replace(client_settings(settings, admin_config)[1], waits_once=True)
