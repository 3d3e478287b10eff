"""The settings that producers and consumers have in common, and all of an admin client.

Kafka's counterparts: `CommonClientConfigs`, `AdminClientConfig`.
"""

from collections.abc import Mapping
from typing import Any

from ottla.base.values import dataclass
from ottla.config.setting import setting, value_text, with_values


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Attributes are Kafka's names with underscores."""

    client_id: str = setting("client.id", "string", "ottla", "Client name for the brokers' logs.")
    request_timeout_ms: int = setting(
        "request.timeout.ms", "int", 30_000, "How long a broker may take to answer.", at_least=1
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms", "long", 100, "The pause before a request is sent again.", at_least=0
    )


def admin_config(settings: Mapping[str, Any]) -> ClientConfig:
    """Parses an admin client's settings by Kafka's names; raises `SettingError`."""
    texts = {name: value_text(value) for name, value in settings.items()}
    return with_values(ClientConfig(), texts, "admin client")
