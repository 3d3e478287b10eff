"""Changes of one group's settings, refused with an exception."""

from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration


def alter_group(
    broker: Broker, group_id: str, alteration: Alteration, *, validate_only: bool = False
) -> None:
    alterations = {group_id: lambda: alteration}
    refusals = broker.admin.alter_groups(alterations, validate_only=validate_only)
    if refusals:
        raise refusals[group_id]
