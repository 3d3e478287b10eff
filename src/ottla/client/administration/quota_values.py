"""Quotas of users, client ids and addresses as values, wherever they were asked of."""

from collections.abc import Mapping
from dataclasses import dataclass

Entity = Mapping[str, str | None]
"""Of `user`, `client-id` and `ip` those that count, with a name; `None` is the default of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one entity, by Kafka's names, such as `producer_byte_rate`."""

    entity: Entity
    limits: Mapping[str, float]


def entity_text(entity: Entity) -> str:
    """As in `user alice, client-id loader`."""
    return ", ".join(
        f"{kind} {'(default)' if name is None else name}" for kind, name in sorted(entity.items())
    )
