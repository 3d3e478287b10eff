"""Changes of one group's settings, refused with an exception."""

from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration
from ottla.broker.quotas.quota_changes import QuotaAlteration


def alter_group(
    broker: Broker, group_id: str, alteration: Alteration, *, validate_only: bool = False
) -> None:
    alterations = {group_id: lambda: alteration}
    refusals = broker.admin.alter_groups(alterations, validate_only=validate_only)
    if refusals:
        raise refusals[group_id]


def alter_quota(broker: Broker, alteration: QuotaAlteration) -> None:
    """Raises what it is refused with."""
    (refusal,) = broker.admin.alter_quotas([alteration], lambda one: one)
    if refusal is not None:
        raise refusal
