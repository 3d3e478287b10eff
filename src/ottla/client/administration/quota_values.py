"""Quotas of users, client ids and addresses: values, independent of how they were read."""

from collections.abc import Mapping

from ottla.base.values import dataclass

Entity = Mapping[str, str | None]
"""Any of `user`, `client-id` and `ip`, with a name; `None` is the default for all names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one entity, by Kafka's names, such as `producer_byte_rate`."""

    entity: Entity
    limits: Mapping[str, float]


def entity_text(entity: Entity) -> str:
    """Example: user alice, client-id loader."""
    return ", ".join(
        f"{kind} {'(default)' if name is None else name}" for kind, name in sorted(entity.items())
    )
