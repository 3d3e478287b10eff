"""Which settings of another Kafka Ottla supports."""

from collections.abc import Mapping

from ottla.base.errors import ApiError
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.config.setting import SettingError, with_values
from ottla.config.topic import TopicConfig
from ottla.metadata.quotas import QuotaEntity, Quotas

Configs = Mapping[str, str]


def accepted_topic_configs(values: Configs) -> tuple[dict[str, str], dict[str, str]]:
    """Splits a topic's settings into supported and unsupported ones."""
    taken: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, text in values.items():
        try:
            with_values(TopicConfig(), {name: text})
            taken[name] = text
        except SettingError:
            refused[name] = text
    while taken:
        try:
            with_values(TopicConfig(), taken).check()
            break
        except SettingError as error:
            refused[error.name] = taken.pop(error.name)
    return taken, refused


def accepted_quotas(
    values: Mapping[QuotaEntity, Mapping[str, float]],
) -> tuple[Quotas, list[str]]:
    taken: dict[QuotaEntity, Mapping[str, float]] = {}
    refused: list[str] = []
    for entity, limits in values.items():
        for key, value in limits.items():
            try:
                owner, kept = QuotaAlteration(names=entity, limits={key: value}).apply(taken)
                taken[owner] = kept
            except ApiError:
                whom = " and ".join(f"{kind} {name or 'default'}" for kind, name in entity)
                refused.append(f"{key} of {whom}")
    return taken, refused
