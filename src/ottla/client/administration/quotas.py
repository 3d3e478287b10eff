"""Quotas of users, client ids and addresses."""

from collections.abc import Mapping

from ottla.client.administration.asking import Asking, check_all, refused
from ottla.client.administration.quota_values import Entity, Quota, entity_text
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

EXACT, DEFAULT, ANY = 0, 1, 2
"""How a component is matched."""


class QuotaAdmin(Asking):
    """Questions about quotas, and changes to them."""

    def describe_quotas(self, entity: Entity | None = None) -> list[Quota]:
        """All quotas, or those of one entity; raises `RefusedError`.

        >>> admin.alter_quotas({"client-id": "loader"}, {"producer_byte_rate": 1_000_000})
        >>> quota, = admin.describe_quotas({"client-id": "loader"})
        >>> quota.limits
        {'producer_byte_rate': 1000000}
        """
        components = [
            ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT,
                          match=name)
            for kind, name in (entity or {}).items()
        ]  # fmt: skip
        request = DescribeClientQuotasRequest(components=components, strict=bool(entity))
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("quotas", answer.error_code, answer.error_message)
        return [
            Quota(
                entity={each.entity_type: each.entity_name for each in one.entity},
                limits={each.key: each.value for each in one.values},
            )
            for one in answer.entries or ()
        ]

    def alter_quotas(
        self, entity: Entity, limits: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Sets limits of an entity, and removes those that are `None`. Raises `RefusedError`.

        >>> admin.alter_quotas({"client-id": "loader"}, {"producer_byte_rate": 1_000_000})
        """
        named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        entry = EntryData(
            entity=named,
            ops=[
                OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in limits.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        answer = self._cluster.ask_any(lambda broker: broker.ask(request))
        check_all({f"quota of {entity_text(entity)}": one for one in answer.entries})
