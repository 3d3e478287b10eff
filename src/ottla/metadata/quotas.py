"""The quotas of users, client ids and addresses (KIP-546)."""

from collections.abc import Mapping

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: pairs of type and name, sorted by type. A name of `None` is the default of
its type.
"""

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""The limits of each entity by name; no entity has none."""


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items()))
