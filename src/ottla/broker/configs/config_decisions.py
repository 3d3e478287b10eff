"""Decides what settings of topics, groups and client metrics become by a change.

Every controller asks these functions. Kafka's counterparts: `ConfigurationControlManager`,
`ControllerConfigurationValidator`.
"""

from collections.abc import Callable, Mapping
from dataclasses import field

from ottla.base.errors import ApiError
from ottla.base.turns import turn_dict
from ottla.base.values import dataclass
from ottla.broker.configs.client_metrics import check_client_metrics
from ottla.broker.configs.config_changes import Alteration
from ottla.broker.metadata.image_store import Decision
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.group import GroupConfig
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topic_rules import changed_settings
from ottla.metadata.image import Configs, MetadataImage


def altered_topic(
    name: str, known: Configs, alteration: Alteration, defaults: TopicConfig
) -> Configs:
    """Returns a topic's settings after a change; raises `ApiError`."""
    settings = alteration.apply(known, settings_of(TopicConfig))
    return changed_settings(name, defaults, known, settings)


def altered_client_metrics(name: str, known: Configs, alteration: Alteration) -> Configs:
    """Returns a subscription to clients' metrics after a change; raises `ApiError`."""
    values = alteration.apply(known, settings_of(ClientMetricsConfig))
    check_client_metrics(name, values)
    return values


@dataclass(frozen=True, slots=True)
class AlteredGroups:
    """The new settings of groups and who wants them, or the errors of those that were refused."""

    changed: dict[str, Configs] = field(default_factory=turn_dict)
    by: dict[str, str] = field(default_factory=turn_dict)
    refusals: dict[str, ApiError] = field(default_factory=turn_dict)


def altered_groups(
    known: Mapping[str, Configs],
    alterations: Mapping[str, Callable[[], Alteration]],
    check: Callable[[Configs, Configs], None],
) -> AlteredGroups:
    """`check` raises `ApiError` for new settings that a group with others may not have."""
    result = AlteredGroups()
    for group_id in alterations:
        try:
            alteration = alterations[group_id]()
            before = known.get(group_id, {})
            values = alteration.apply(before, settings_of(GroupConfig))
            check(values, before)
            result.changed[group_id], result.by[group_id] = values, alteration.by
        except ApiError as error:
            result.refusals[group_id] = error.without_traceback()
    return result


def with_configs(image: MetadataImage, kind: int, changed: Mapping[str, Configs]) -> Decision:
    """The image with other settings of some resources, and the records that make it."""
    from ottla.metadata.image_changes import config_records  # Lazy: most brokers change nothing.

    records = (
        record
        for name, values in changed.items()
        for record in config_records(kind, name, image.configs_of(kind, name), values)
    )
    return image.with_configs(kind, changed), records
