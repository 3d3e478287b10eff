"""The row of any name that may be among a broker's settings, known or not.

A broker takes names that neither Kafka nor Ottla knows, because a plugin may read them. As Kafka
does not know whether such a value is a secret, nobody is shown it.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from ottla.base.errors import nearest
from ottla.config.broker import (
    FORMAT_NAME,
    UNKNOWN_KIND,
    broker_settings,
    listener_setting,
    unknown_row,
)
from ottla.config.kafka_settings import kafka_settings
from ottla.config.security import LISTENER_PREFIX
from ottla.config.setting import Setting
from ottla.config.without_effect import DYNAMIC_WITHOUT_EFFECT, is_internal, is_secret

OF_AUTHORIZER = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Settings that Kafka's authorizer reads: the broker does not know them, and describes what it does
not know as sensitive."""


@lru_cache(1000)
def setting_row(name: str) -> Setting:
    """Returns the row of a broker's setting; makes one for a name without effect, or unknown."""
    row = broker_settings().get(name) or kafka_settings().get(name) or listener_setting(name)
    if row is not None:
        # The topic's setting can be changed, but not the broker's default for it, as in Kafka.
        return replace(row, is_dynamic=False) if name == FORMAT_NAME else row
    if is_internal(name):
        return Setting(
            name=name,
            kind="password" if is_secret(name) else "string",
            default=None,
            doc="No effect here.",
            is_dynamic=name in DYNAMIC_WITHOUT_EFFECT,
        )
    if name.startswith(LISTENER_PREFIX):
        base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        shared = broker_settings().get(base) or kafka_settings().get(base)
        if shared is not None:
            return replace(shared, name=name, doc="No effect here.", is_dynamic=True)
    return unknown_row(name)


def is_unknown(row: Setting) -> bool:
    """Whether Kafka's brokers do not know the setting."""
    return row.kind == UNKNOWN_KIND or row.name in OF_AUTHORIZER


def is_sensitive(row: Setting) -> bool:
    """Whether the value must never be shown."""
    return row.kind == "password" or is_unknown(row)


def unknown_text(names: Iterable[str]) -> str:
    """Names unknown settings, with what was perhaps meant."""
    known = [*broker_settings(), *kafka_settings()]
    hints = ((name, nearest(name, known)) for name in names)
    return ", ".join(f"{name} (did you mean {one[0]}?)" if one else name for name, one in hints)
